"""Both orders of loading, a second load, and off means untouched: on a host made of a few lines.

Each case runs in a process of its own, as vLLM's processes are.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.ascend_infer.vllm_plugin import small_host
from tests.ascend_infer.vllm_plugin.small_host import write

FILES = {
    "vllm/__init__.py": "",
    "vllm/config/__init__.py": """
current = None
def get_current_vllm_config():
    assert current is not None
    return current
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/attention/__init__.py": "",
    "vllm/v1/attention/selector.py": """
import functools
@functools.cache
def _cached_get_attn_backend(kind):
    from vllm_ascend.platform import NPUPlatform
    return NPUPlatform.get_attn_backend_cls(None, kind)
""",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/custom_op.py": "op_registry_oot = {}\n",
    "vllm_ascend/__init__.py": "",
    "vllm_ascend/platform.py": """
class NPUPlatform:
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        mla = attn_selector_config == "mla"
        kind = "mla_v1.AscendMLABackend" if mla else "attention_v1.AscendAttentionBackend"
        return "vllm_ascend.attention." + kind
""",
    "vllm_ascend/utils.py": """
def register_ascend_customop(vllm_config=None):
    from vllm.model_executor.custom_op import op_registry_oot
    class AscendRMSNorm:
        def __init__(self):
            self.bias = None
    class AscendRotaryEmbedding:
        pass
    if "RMSNorm" in op_registry_oot:
        return
    op_registry_oot.update(RMSNorm=AscendRMSNorm, RotaryEmbedding=AscendRotaryEmbedding)
""",
    "vllm/model_executor/models/__init__.py": "",
    "vllm/model_executor/models/qwen3.py": "class Qwen3Attention:\n    pass\n",
    "vllm/model_executor/models/qwen3_moe.py": "class Qwen3MoeAttention:\n    pass\n",
    "vllm_ascend/patch/__init__.py": "",
    "vllm_ascend/patch/worker/__init__.py": "",
    "vllm_ascend/patch/worker/patch_qwen3vl.py": """
from vllm.model_executor.models.qwen3 import Qwen3Attention
def forward_with_split_qkv_rmsnorm_mrope(self, positions, hidden_states):
    return "host"
Qwen3Attention.forward = forward_with_split_qkv_rmsnorm_mrope
""",
    "vllm_ascend/worker/__init__.py": "",
    "vllm_ascend/worker/worker.py": """
from vllm_ascend.utils import register_ascend_customop
def start(config=None):
    register_ascend_customop(config)
""",
    "vllm-0.23.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.0\n",
    "vllm_ascend-0.23.0.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: vllm-ascend\nVersion: 0.23.0\n"
    ),
}
HOST = "vllm_ascend.attention.attention_v1.AscendAttentionBackend"
OURS = "ascend_infer.vllm_plugin.attention.Backend"
BOTH = {"RMSNorm": "AscendInferRMSNorm", "RotaryEmbedding": "AscendInferRotaryEmbedding"}
NEITHER = {"RMSNorm": "AscendRMSNorm", "RotaryEmbedding": "AscendRotaryEmbedding"}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """`small_host.run` on the host of `FILES`."""
    write(tmp_path, FILES)
    return partial(small_host.run, tmp_path)


REGISTER_FIRST = """
register()
from vllm_ascend.worker import worker
worker.start()
print(json.dumps([chosen(), chosen("mla"), table()]))
"""
HOST_IMPORTED_FIRST = """
from vllm_ascend.worker import worker
register()
worker.start()
print(json.dumps([chosen(), chosen("mla"), table()]))
"""
TWICE = """
register(); register()
from vllm_ascend.worker import worker
worker.start(); register(); worker.start()
from vllm_ascend import utils
wraps = utils.register_ascend_customop._ascend_infer_wraps
assert not hasattr(wraps, "_ascend_infer_wraps")
from vllm.model_executor.custom_op import op_registry_oot
assert op_registry_oot["RMSNorm"].__mro__[1].__name__ == "AscendRMSNorm"
print(json.dumps([chosen(), chosen("mla"), table()]))
"""


@pytest.mark.parametrize("body", [REGISTER_FIRST, HOST_IMPORTED_FIRST, TWICE])
def test_any_order_of_loading_replaces_once(run: Any, body: str) -> None:
    mla = "vllm_ascend.attention.mla_v1.AscendMLABackend"
    assert run(body, ASCEND_INFER_VLLM_OPS="all")[0] == [OURS, mla, BOTH]


def test_operators_have_switches_of_their_own(run: Any) -> None:
    chosen, _, table = run(REGISTER_FIRST, ASCEND_INFER_VLLM_OPS="rms_norm")[0]
    assert chosen == HOST and table == {**NEITHER, "RMSNorm": "AscendInferRMSNorm"}
    chosen, _, table = run(REGISTER_FIRST, ASCEND_INFER_VLLM_OPS="attention")[0]
    assert chosen == OURS and table == NEITHER


def test_the_servers_configuration_switches_too(run: Any) -> None:
    body = """
import vllm.config
register()
from vllm_ascend.worker import worker
config = SimpleNamespace(additional_config={"ascend_infer": {"ops": ["attention", "rms_norm"]}})
vllm.config.current = config
first = chosen()
worker.start(config)
print(json.dumps([first, table(), config.additional_config.get("ascend_infer_replaces")]))
"""
    chosen, table, replaces = run(body)[0]
    assert chosen == OURS and table == {**NEITHER, "RMSNorm": "AscendInferRMSNorm"}
    # By its configuration vLLM keeps compiled graphs, and not by our variable.
    assert replaces == ["rms_norm", "attention"]
    assert run(body, ASCEND_INFER_VLLM_OPS="rotary_embedding")[0][2] == ["rotary_embedding"]
    assert run(body, ASCEND_INFER_VLLM_OPS="off")[0] == [HOST, NEITHER, None]


ENGINES = """
import vllm.config
register()
from vllm_ascend.worker import worker
from vllm.model_executor.custom_op import op_registry_oot
from vllm.v1.attention.selector import _cached_get_attn_backend
found = []
for ops in (None, "all", ["rms_norm"], "off"):
    config = SimpleNamespace(additional_config={"ascend_infer": {"ops": ops}} if ops else {})
    vllm.config.current = config
    worker.start(config)
    norm = op_registry_oot["RMSNorm"]()
    reason = getattr(norm, "ascend_infer_reason", "the host's class")
    found.append([_cached_get_attn_backend("plain"), reason])
print(json.dumps(found))
"""


def test_each_engine_of_a_process_has_what_it_asks_for(run: Any) -> None:
    """vLLM keeps the choice of a back end, and its table of operators, from engine to engine."""
    tried = "the norm has no weight"  # as far as a norm of this host comes
    left_out = "this engine does not ask for it"
    assert run(ENGINES)[0] == [
        [HOST, "the host's class"], [OURS, tried], [HOST, tried], [HOST, left_out],
    ]  # fmt: skip


QWEN3 = """
register()
from vllm_ascend.patch.worker import patch_qwen3vl
from vllm.model_executor.models.qwen3 import Qwen3Attention
from vllm.model_executor.models.qwen3_moe import Qwen3MoeAttention
from vllm_ascend.worker import worker
Qwen3MoeAttention.forward = somebody_elses = lambda *_: None
worker.start(); worker.start()
forward = Qwen3Attention.forward
assert forward.__wrapped__ is patch_qwen3vl.forward_with_split_qkv_rmsnorm_mrope
assert Qwen3MoeAttention.forward is somebody_elses
print(json.dumps([chosen(), table()]))
"""


def test_qwen3_gets_a_forward_before_the_hosts_and_before_no_other(run: Any) -> None:
    found, err = run(QWEN3, ASCEND_INFER_VLLM_OPS="qk_norm_rope")
    assert found == [HOST, NEITHER]
    assert err.count("Qwen3MoeAttention.forward is not the host's") == 1


def test_off_changes_and_imports_nothing(run: Any) -> None:
    body = """
register()
before = sorted(name for name in sys.modules if name.partition(".")[0] in ("torch", "vllm_ascend"))
from vllm_ascend.worker import worker
worker.start()
loaded = [name for name in sys.modules if name.startswith("kernels_npu.")
          and name not in ("kernels_npu.errors", "kernels_npu.error_codes")]
print(json.dumps([before, loaded, chosen(), table()]))
"""
    assert run(body, ASCEND_INFER_VLLM_OPS="off")[0] == [[], [], HOST, NEITHER]
    _, loaded, chosen, table = run(body)[0]  # not asked for: wrapped, and the host's all the same
    assert (loaded, chosen, table) == ([], HOST, NEITHER)


def test_an_unknown_host_serves_alone_and_loudly(run: Any) -> None:
    found, err = run(REGISTER_FIRST, known=False, ASCEND_INFER_VLLM_OPS="all")
    assert found == [HOST, "vllm_ascend.attention.mla_v1.AscendMLABackend", NEITHER]
    for op in ("rms_norm", "rotary_embedding", "qk_norm_rope", "attention"):
        assert f"the host's {op} serves" in err


def test_an_unknown_host_can_be_refused(run: Any) -> None:
    variables = {"ASCEND_INFER_VLLM_OPS": "all", "ASCEND_INFER_VLLM_ON_REFUSAL": "stop"}
    _, err = run(REGISTER_FIRST, known=False, status=1, **variables)
    assert "AI-VLLM-002: rms_norm cannot be replaced: " in err


def test_a_wrong_switch_ends_the_process(run: Any) -> None:
    _, err = run("register()", status=1, ASCEND_INFER_VLLM_OPS="rmsnorm")
    assert "AI-VLLM-001" in err
