"""A vllm-ascend and a vLLM of a few lines in which everything holds that the plugin needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.contracts.archives import sdist

ATTENTION = """\
class AscendAttentionState:
    pass
class AscendMetadata:
    pass
class AscendAttentionBackend:
    @staticmethod
    def get_impl_cls(): ...
    @staticmethod
    def get_builder_cls(): ...
    @staticmethod
    def get_supported_kernel_block_sizes():
        return [128]
class AscendAttentionMetadataBuilder:
    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec): ...
    def build(self, common_prefix_len, common_attn_metadata, fast_build=False): ...
    def build_for_graph_capture(self): ...
class AscendAttentionBackendImpl:
    def __init__(self, num_heads, head_size, scale, sliding_window, sinks):
        self.num_heads, self.num_kv_heads, self.head_size = num_heads, num_heads, head_size
        self.scale, self.sliding_window, self.sinks = scale, sliding_window, sinks
        self.alibi_slopes = self.kv_cache_dtype = self.attn_type = None
        self.key_cache = self.value_cache = None
    def forward(self): ...
    def forward_impl(self, query, key, value, kv_cache, attn_metadata, output):
        return output
"""
HOST = {
    "vllm_ascend/__init__.py": "",
    "vllm_ascend/attention/attention_v1.py": ATTENTION,
    "vllm_ascend/platform.py": """\
class NPUPlatform:
    @classmethod
    def get_attn_backend_cls(cls, selected, config, num_heads=None):
        names = {False: "vllm_ascend.attention.attention_v1.AscendAttentionBackend"}
        return names[config.use_mla]
""",
    "vllm_ascend/utils.py": """\
def register_ascend_customop(vllm_config=None):
    operators = {"RMSNorm": 1, "RotaryEmbedding": 2}
    for name, operator in operators.items():
        CustomOp.register_oot(_decorated_op_cls=operator, name=name)
""",
    "vllm_ascend/worker/worker.py": """\
from vllm_ascend.utils import register_ascend_customop
class NPUWorker:
    def __init__(self):
        adapt_patch()
        register_ascend_customop()
""",
    "vllm_ascend/worker/model_runner_v1.py": """\
def build(self):
    return AscendCommonAttentionMetadata(1, seq_lens=self.seq_lens.gpu[:2])
""",
    "vllm_ascend/ops/layernorm.py": """\
class AscendRMSNorm:
    def forward_oot(self, x, residual=None): ...
""",
    "vllm_ascend/ops/rotary_embedding.py": """\
class AscendRotaryEmbedding:
    def forward_oot(self, positions, query, key, offsets=None, is_neox_style_override=None): ...
""",
    "vllm_ascend/ops/register_custom_ops.py": """\
direct_register_custom_op(op_name="maybe_chunk_residual", op_func=chunk)
""",
    "vllm_ascend/patch/worker/patch_qwen3vl.py": """\
def forward_with_split_qkv_rmsnorm_mrope(self, positions, hidden_states): ...
""",
}
VLLM = {
    "vllm/__init__.py": "",
    "vllm/model_executor/custom_op.py": """\
class CustomOp:
    def __new__(cls):
        return op_registry_oot[cls.__name__]
    def register_oot(cls, name):
        assert name not in op_registry_oot, f"Duplicate op name: {name}"
""",
    "vllm/v1/worker/worker_base.py": """\
class WorkerWrapperBase:
    def init_worker(self):
        load_general_plugins()
        resolve_obj_by_qualname(self.name)
""",
}


def release(folder: Path, version: str, files: Mapping[str, str] = HOST) -> Path:
    """Write a source distribution of `version`."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "vllm_ascend" if "vllm_ascend/__init__.py" in files else "vllm"
    return sdist(folder, files, f"{name}-{version}.tar.gz")


def changed(file: str, old: str, new: str, files: Mapping[str, str] = HOST) -> dict[str, str]:
    """The files with another text in one of them."""
    assert old in files[file], f"{file} has no {old!r}"
    return {**files, file: files[file].replace(old, new)}
