"""The parts that judge: tolerances, bits, truncated models; each must notice what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ascend_infer.devices import open_device
from ascend_infer.engine import Generation
from ascend_infer.model.catalogue import resolve
from ascend_infer.reference_check import compare_logits, logit_tolerance
from ascend_infer.session import SessionOptions, open_session
from ascend_infer.simulation import SimulationOptions, parse_checks
from ascend_infer.verification import block, model
from ascend_infer.verification.block import FirstLayers, verify_block
from ascend_infer.verification.ops import (
    OpsOptions,
    differing_runs,
    excess,
    same_bits,
    verify_ops,
)
from ascend_infer.verification.replay import ReplayOptions
from kernels_npu import reference
from kernels_npu.errors import AscendInferError, UsageError
from kernels_npu.spec import Tolerance

TOLERANCE = Tolerance(atol=0.1, rtol=0.01, reason="test")


def test_excess_is_a_share_of_the_tolerance():
    expected = torch.tensor([10.0, 0.0])
    share, largest = excess(torch.tensor([10.1, 0.0]), expected, TOLERANCE)
    assert share == pytest.approx(0.5, rel=1e-3) and largest == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize(
    "actual, expected, passes",
    [
        ([float("nan")], [float("nan")], True),
        ([float("nan")], [1.0], False),
        ([1.0], [float("nan")], False),
        ([float("inf")], [float("inf")], True),
        ([float("inf")], [-float("inf")], False),
        ([1e30], [float("inf")], False),
        ([], [], True),
    ],
)
def test_excess_of_unusual_values(actual: list[float], expected: list[float], passes: bool):
    share, _ = excess(torch.tensor(actual), torch.tensor(expected), TOLERANCE)
    assert (share <= 1.0) is passes


def test_bits_tell_zeros_and_nans_apart():
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    one, other = {"output": torch.ones(2)}, {"output": torch.tensor([1.0, 1.0 + 2**-20])}
    assert differing_runs([one, dict(one), other], ["eager", "late", "random 1"]) == ["random 1"]


def test_operators_on_the_cpu_pass():
    report = verify_ops(open_device("cpu"), OpsOptions(names=("rms_norm",), max_bytes=30_000))
    assert report.passed and report.notes
    assert {r.check for r in report.results} == {"reference"}


def test_a_wrong_operator_fails(monkeypatch: pytest.MonkeyPatch):
    from kernels_npu import ops

    honest = reference.rms_norm
    monkeypatch.setattr(ops, "rms_norm", lambda x, weight, eps: honest(x, weight, eps) * 1.05)
    report = verify_ops(open_device("cpu"), OpsOptions(names=("rms_norm",), max_bytes=30_000))
    assert not report.passed and all(not r.passed for r in report.results)


def test_unknown_operator():
    with pytest.raises(AscendInferError) as caught:
        verify_ops(open_device("cpu"), OpsOptions(names=("rms_nrom",)))
    assert caught.value.code == "AI-CLI-001" and "rms_norm" in str(caught.value)


def test_block_on_the_cpu(llama_dir: Path):
    report = verify_block(
        resolve(str(llama_dir)).open(),
        open_device("cpu"),
        SessionOptions(max_batch=2, max_tokens=64, block_size=16),
        layers=1,
        replay=ReplayOptions(rounds=1),
        simulation=SimulationOptions(),
    )
    assert report.passed and report.notes == ("eager vs replay: no graphs on this device",)
    assert report.results[0].values["max_abs_logit_diff"] > 0


@pytest.mark.parametrize("scale, passes", [(1.0, True), (1.1, False)])
def test_a_block_is_judged_by_what_rounding_costs_the_references(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch, scale: float, passes: bool
):
    """The references themselves pass; an attention that is off by a tenth does not."""
    from kernels_npu import ops

    honest, source, device = ops.paged_decode_attention, resolve(str(llama_dir)).open(), "cpu"
    options = SessionOptions(max_batch=3, max_tokens=64, block_size=16, dtype="bfloat16")

    def wrong(query: torch.Tensor, *arguments: Any) -> torch.Tensor:
        factor = scale if query.dtype is torch.bfloat16 and tested else 1.0
        return honest(query, *arguments) * factor

    tested = True
    session = open_session(source, open_device(device), options)
    batch, content = block._scenario(session)
    monkeypatch.setattr(ops, "paged_decode_attention", wrong)
    with torch.no_grad():
        run = block._step(session, batch, content)
        tested = False
        exact, rounded = (
            block._on_cpu(source, options, batch, content, dtype)
            for dtype in ("float32", "bfloat16")
        )
    result = block._against_cpu({"eager": run}, exact, rounded, session, session.device)
    assert result.passed is passes, result.detail
    assert result.values["reference_rounding"]["row_rms"] > 0


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_prefix_is_the_model_with_fewer_layers(llama_dir: Path, layers: int):
    source = resolve(str(llama_dir)).open()
    options = SessionOptions(max_batch=2, max_tokens=64, block_size=16, dtype="float32")
    whole = open_session(source, open_device("cpu"), options)
    assert whole.model.num_layers == source.config.num_layers == 3
    batch, content = block._scenario(whole)
    shorter = open_session(FirstLayers(base=source, layers=layers), open_device("cpu"), options)
    with torch.no_grad():
        expected = block._step(shorter, batch, content)
        for name, tensor in whole.model.cache.by_name().items():
            tensor.copy_(content[name])
        assert torch.equal(whole.model.prefix(layers)(batch), expected)
        assert torch.equal(whole.model.prefix(3)(batch), whole.model.decode(batch))
        weights, eps = whole.model.weights, source.config.rms_norm_eps
        embedded = reference.rms_norm(weights.embedding[batch.token_ids], weights.final_norm, eps)
        assert torch.equal(whole.model.prefix(0)(batch), embedded @ weights.head.T)


def generated(tokens: list[int], logits: torch.Tensor) -> Generation:
    return Generation(
        prompt_token_ids=(1,),
        output_token_ids=tuple(tokens),
        finish_reason="length",
        logits=logits,
    )


@pytest.mark.parametrize("gap, tie", [(1e-4, True), (0.5, False)])
def test_batch_and_alone_may_part_at_a_near_tie(llama_dir: Path, gap: float, tie: bool):
    source = resolve(str(llama_dir)).open()
    options = SessionOptions(max_tokens=64, block_size=16, dtype="bfloat16")
    session = open_session(source, open_device("cpu"), options)
    logits = torch.zeros(3, 9)
    logits[0, 4], logits[1, 7], logits[2, 1] = 8.0, 8.0, 8.0
    logits[1, 2] = 8.0 - gap
    alone = generated([4, 7, 1], logits)
    same = generated([4, 7, 1], logits)
    parted = generated([4, 2, 5], logits)
    result = model._batch_against_alone([same, parted], [alone, alone], session, 0.1)
    assert result.passed is tie
    assert result.detail.startswith("1 of 2 sequences got the same tokens")
    assert ("too close to call" in result.detail) is tie and "row 1 at step 1" in result.detail
    assert result.values["differing_rows"] == ([] if tie else [1])


@pytest.mark.parametrize(
    "row, shift, passes",
    [(0, 0.09, True), (0, 0.2, False), (1, float("nan"), False), (2, 9.0, True)],
)
def test_batch_and_alone_must_be_close(llama_dir: Path, row: int, shift: float, passes: bool):
    """Also where the tokens are the same; after a split the contexts differ, and logits may."""
    options = SessionOptions(max_tokens=64, block_size=16, dtype="bfloat16")
    session = open_session(resolve(str(llama_dir)).open(), open_device("cpu"), options)
    logits = torch.zeros(3, 9)
    logits[1, 2] = logits[1, 7] = 8.0
    other = logits.clone()
    other[row] += shift
    result = model._batch_against_alone(
        [generated([4, 2, 5], other)], [generated([4, 7, 1], logits)], session, 0.1
    )
    assert result.passed is passes, result.detail


@pytest.mark.parametrize("rows, blocks", [(3, 2), (3, 4), (1, 1)])
def test_block_in_a_cache_that_is_too_small(llama_dir: Path, rows: int, blocks: int):
    with pytest.raises(UsageError, match="AI-VERIFY-002"):
        verify_block(
            resolve(str(llama_dir)).open(),
            open_device("cpu"),
            SessionOptions(max_batch=rows, max_tokens=64, block_size=16, num_blocks=blocks),
            layers=1,
            replay=ReplayOptions(rounds=1),
            simulation=SimulationOptions(),
        )


def test_model_with_too_many_steps_is_refused_before_it_is_loaded(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(model, "open_session", None)
    with pytest.raises(UsageError, match="AI-MODEL-031"):
        model.verify_model(
            resolve(str(llama_dir)).open(),
            open_device("cpu"),
            SessionOptions(),
            [[1, 2]],
            steps=128,
            replay=ReplayOptions(rounds=1),
            simulation=SimulationOptions(),
        )


def test_first_layers(llama_dir: Path):
    base = resolve(str(llama_dir)).open()
    assert FirstLayers(base=base, layers=2).config.num_layers == 2
    assert FirstLayers(base=base, layers=50).config.num_layers == base.config.num_layers


def compare(ours: torch.Tensor, theirs: torch.Tensor, rounding: float = 0.003):
    prefill = torch.tensor([True] + [False] * (len(ours) - 1))
    tolerance = logit_tolerance(theirs, torch.float16, 4)
    return compare_logits(ours, theirs, prefill, tolerance=tolerance, rounding=rounding)


def test_steps_that_are_too_close_to_call_do_not_count():
    theirs = torch.tensor([[9.0, 0.0], [9.0, 8.999], [9.0, 0.0]])
    swapped = theirs.clone()
    swapped[1] = torch.tensor([8.999, 9.0])
    report = compare(swapped, theirs)
    assert report.passed and report.steps == 2 and report.decided.rows == 1
    assert report.top1_agreement == 0.5


def test_a_clear_step_decided_otherwise_fails():
    theirs = torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
    ours = theirs.clone()
    ours[2] = torch.tensor([0.0, 9.0])
    assert not compare(ours, theirs).passed


@pytest.mark.parametrize("wrong", ["swapped", "shifted", "nan"])
@pytest.mark.parametrize("row", [0, 2])
def test_a_wrong_row_fails_be_it_prefill_or_decode(row: int, wrong: str):
    theirs = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)) * 4
    assert compare(theirs, theirs).passed and compare(theirs + 0.008, theirs).passed
    ours = theirs.clone()
    if wrong == "swapped":
        best, second = theirs[row].topk(2).indices
        ours[row, best], ours[row, second] = theirs[row, second], theirs[row, best]
    elif wrong == "shifted":  # the same most likely token, other logits
        ours[row] += 0.01
    else:
        ours[row, 7] = float("nan")
    assert not compare(ours, theirs).passed


def test_a_reference_that_overflows_leaves_a_limit():
    theirs = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)) * 4
    report = compare(theirs, theirs, rounding=float("inf"))
    assert report.passed and report.row_limit == report.tolerance
    assert not compare(theirs + 1.0, theirs, rounding=float("inf")).passed


def test_not_a_number_fails():
    theirs = torch.tensor([[9.0, 0.0], [9.0, 0.0]])
    ours = theirs.clone()
    ours[1, 1] = float("nan")
    assert not compare(ours, theirs).passed


def test_checks_by_name():
    assert parse_checks("on").races and parse_checks("on").bounds
    assert not any(vars(parse_checks("off")).values())
    some = parse_checks("races, flags")
    assert some.races and some.flags and not some.bounds
    with pytest.raises(AscendInferError) as caught:
        parse_checks("races,bonds")
    assert caught.value.code == "AI-CLI-001" and "'bonds'" in caught.value.what
