"""scripts/npu/verify_operators.py: our kernels beside operators as torch_npu documents them."""

from __future__ import annotations

import json

import pytest
import torch

from ascend_infer.devices import open_device
from kernels_npu import ops, reference
from kernels_npu.errors import UnsupportedError
from kernels_npu.spec import Workload, all_specs
from tests.scripts.npu import documented_operators

SMALL = ("--device", "sim", "--max-bytes", "100000", "--json")


@pytest.fixture
def documented(program, monkeypatch):
    """A simulated torch_npu that has all the operators."""
    import torch_npu

    for name, function in documented_operators.OPERATORS.items():
        monkeypatch.setattr(torch_npu, name, function, raising=False)
    return torch_npu


def rows_of(printed: str) -> list[dict]:
    return json.loads(printed)["rows"]


def test_every_operator_has_a_counterpart_that_gives_the_same(documented, program, call):
    status, printed, _ = call(program("verify_operators"), *SMALL)
    rows = rows_of(printed)
    assert status == 0
    assert {row["verdict"] for row in rows} == {"same"}
    assert {row["operator"] for row in rows} == set(all_specs()) - {"paged_decode_attention"}


@pytest.mark.parametrize(
    "operator, change, reason",
    [
        ("paged_decode_attention", {"logits_soft_cap": 30.0}, "soft cap"),
        ("paged_decode_attention", {"sliding_window": 7}, "sliding window"),
        ("paged_decode_attention", {"seq_lens": torch.tensor([3, 0])}, "empty sequence"),
        ("paged_decode_attention", {"key_cache": torch.ones(2, 24, 1, 16)}, "blocks of 24"),
        ("reshape_and_cache", {"slot_mapping": torch.tensor([5, -1])}, "not negative"),
        ("paged_decode_attention", {}, ""),
        ("reshape_and_cache", {"slot_mapping": torch.tensor([5, 0])}, ""),
    ],
)
def test_calls_that_torch_npu_does_not_document_are_not_made(program, operator, change, reason):
    inputs = {
        "key_cache": torch.ones(2, 32, 1, 16),
        "seq_lens": torch.tensor([3, 1]),
        "sliding_window": 0,
        "logits_soft_cap": 0.0,
        **change,
    }
    module, counterparts = program("verify_operators"), program("counterparts").COUNTERPARTS
    obstacle = counterparts[operator].obstacle(inputs)
    assert (reason in obstacle) if reason else not obstacle
    if reason:
        with pytest.raises(UnsupportedError) as caught:
            module.counterpart_outputs(counterparts[operator], inputs)
        assert caught.value.code == "AI-OP-009"


def test_a_kernel_that_is_off_is_found_and_named(documented, program, call, monkeypatch):
    good = ops.silu_and_mul
    monkeypatch.setattr(ops, "silu_and_mul", lambda x: good(x) * 1.01)
    status, printed, _ = call(program("verify_operators"), *SMALL, "--op", "silu_and_mul")
    assert status == 1
    assert {row["why"] for row in rows_of(printed)} == {
        "AI-OP-010: ours is further from the reference"
    }


def test_a_counterpart_that_is_off_is_found_and_named(documented, program, call, monkeypatch):
    good = documented.npu_rms_norm
    monkeypatch.setattr(
        documented, "npu_rms_norm", lambda *args, **options: (good(*args, **options)[0] * 1.01, 0)
    )
    status, printed, _ = call(program("verify_operators"), *SMALL, "--op", "rms_norm")
    assert status == 1
    assert {row["why"] for row in rows_of(printed)} == {
        "AI-OP-010: torch_npu's is further from the reference"
    }


def test_a_counterpart_that_raises_is_a_failure(documented, program, call, monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("EZ1001: the shape is not supported")

    monkeypatch.setattr(documented, "npu_rms_norm", refuse)
    arguments = (*SMALL[:-1], "--op", "rms_norm", "--op", "silu_and_mul")
    status, printed, _ = call(program("verify_operators"), *arguments)
    assert status == 1
    assert "EZ1001" in printed


def test_nothing_compared_is_not_a_success(program, call, monkeypatch):
    """The stand-in refuses operators that it does not have, here the only one that is asked for."""
    import torch_npu

    monkeypatch.setattr(torch_npu, "npu_rms_norm", torch_npu.npu_of_another_release, raising=False)
    status, printed, _ = call(program("verify_operators"), *SMALL, "--op", "rms_norm")
    assert status == 1
    assert {row["why"][:10] for row in rows_of(printed)} == {"AI-DEV-008"}


def test_without_torch_npu_the_device_is_refused(program, call):
    status, _, error = call(program("verify_operators"), "--device", "npu")
    assert status == 2
    assert "AI-CLI-002" in error


def test_a_device_without_torch_npu_is_wrong_use(program, call):
    status, _, error = call(program("verify_operators"), "--device", "cpu")
    assert status == 2
    assert "AI-CLI-001" in error and "verify ops" in error


def test_the_table_sums_up_cases(documented, program, call):
    status, printed, _ = call(program("verify_operators"), *SMALL[:-1], "--op", "silu_and_mul")
    assert status == 0
    assert "npu_swiglu" in printed
    assert "simulated" in printed


def test_the_attention_counterpart_sees_the_same_keys(documented, program):
    """What no sequence owns is NaN in the cache, and far out in the table."""
    spec = all_specs()["paged_decode_attention"]
    dims = {"seq_lens": (5, 33, 16), "q_heads": 4, "kv_heads": 2, "head_dim": 64, "block_size": 16}
    workload, device = Workload(name="small-decode-3", dims=dims), open_device("sim")
    counterpart = program("counterparts").COUNTERPARTS[spec.name]
    row = program("verify_operators").compare(spec, workload, "float16", device, counterpart)
    assert row["verdict"] == "same"
    assert row["theirs_reference"] <= 1


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_rotary_counterpart_turns_a_part_of_a_head(program, interleaved):
    counterpart = program("counterparts").COUNTERPARTS["rotary_embedding"]
    angles = torch.randn(11, 6)
    inputs = {
        "positions": torch.randint(11, (5,)),
        "query": torch.randn(5, 3, 16).half(),
        "key": torch.randn(5, 1, 16).half(),
        "cos_sin_cache": torch.cat((angles.cos(), angles.sin()), -1).half(),
    }
    on_device = {name: tensor.to("npu") for name, tensor in inputs.items()}
    outputs = counterpart.call({**on_device, "interleaved": interleaved})
    before = on_device["query"].cpu()
    reference.rotary_embedding(**inputs, interleaved=interleaved)
    for name in ("query", "key"):
        torch.testing.assert_close(outputs[name].cpu(), inputs[name], atol=2e-3, rtol=2e-3)
    assert torch.equal(on_device["query"].cpu(), before), "what is given is not changed"
