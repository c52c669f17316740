"""What is left to the host, and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_infer.verification.vllm.engine import Decoded, EngineEnded
from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm_cpu.conftest import LAYERS

#: A plugin of the test's own, loaded before ours, which makes any text another one.
OTHER_TEXT = """
def register():
    from ascend_infer.vllm_plugin import pins
    for releases in pins.pinned().values():
        for known in releases.values():
            known.update(dict.fromkeys(known, "0" * 12))
"""
#: Decode attention does not get through the compiler.
CANNOT_BE_BUILT = """
def register():
    from kernels_npu.sim import machine
    build = machine.compile_kernel

    def compile_kernel(func, **options):
        if func.name == "paged_decode_attention":
            raise RuntimeError("the compiler failed on " + func.name)
        return build(func, **options)

    machine.compile_kernel = compile_kernel
"""


@pytest.fixture
def with_plugin(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The variables of an engine that loads a plugin with this text too."""

    def install(text: str) -> dict[str, str]:
        (tmp_path / "a_plugin.py").write_text(text)
        info = tmp_path / "a_plugin-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            "[vllm.general_plugins]\na_plugin = a_plugin:register\n"
        )
        return {"PYTHONPATH": str(tmp_path)}

    return install


def test_another_text_is_served_by_the_host_or_ends_the_engine(
    engine: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list, with_plugin
) -> None:
    variables = with_plugin(OTHER_TEXT)
    found = engine([[prompts[2]]], ops="all", variables=variables)
    assert found.tokens[0] == stock("float16").tokens[2]
    assert found.plugin["layers"] == found.plugin["launches"] == {}
    assert "has another text" in found.plugin["ops"]["attention"]["refusal"]
    stop = {**variables, "ASCEND_INFER_VLLM_ON_REFUSAL": "stop"}
    with pytest.raises(EngineEnded) as ended:
        engine([[prompts[2]]], ops="all", variables=stop)
    assert "AI-VLLM-002" in ended.value.printed


def test_a_kernel_that_cannot_be_built_leaves_attention_to_the_host(
    decode: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list, with_plugin
) -> None:
    found = decode([[prompts[7]]], ops="attention", variables=with_plugin(CANNOT_BE_BUILT))
    assert found.tokens[0] == stock("float16").tokens[7]
    (reason,) = found.plugin["layers"]["attention"]
    assert "the compiler failed on paged_decode_attention" in reason
    assert found.plugin["attention_calls"] == {reason: LAYERS * 16}


def test_float32_is_the_hosts_and_counted(decode: Callable[..., Decoded], prompts: list) -> None:
    alone = decode([[prompts[7]]], dtype="float32")
    found = decode([[prompts[7]]], ops="all", dtype="float32")
    assert found.tokens == alone.tokens and found.plugin["launches"] == {}
    layers = found.plugin["layers"]
    assert set(layers) == {"rms_norm", "rotary_embedding", "qk_norm_rope", "attention"}
    assert all(OURS not in who for who in layers.values())
    assert layers["attention"] == {"query of torch.float32": LAYERS}
