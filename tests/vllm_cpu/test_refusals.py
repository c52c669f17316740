"""What is left to the host, and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ascend_infer.verification.vllm.engine import Decoded, EngineEnded
from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.hosted.plugins import CANNOT_BE_BUILT, OTHER_TEXT, beside_ours
from tests.vllm_cpu.conftest import LAYERS


@pytest.fixture
def with_plugin(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """`plugins.beside_ours` of a folder of the test's own."""
    return partial(beside_ours, tmp_path)


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
    kernels = ["paged_decode_attention"]
    found = decode(
        [[prompts[7]]],
        ops="attention",
        variables=with_plugin(CANNOT_BE_BUILT.format(names=kernels)),
    )
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
