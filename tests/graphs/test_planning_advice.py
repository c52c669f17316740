"""Each warning: a plan that earns it, and a close one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.buckets import BucketPlan
from graphs.planning import (
    CaptureMode,
    Conditions,
    ModelShape,
    PlanReport,
    StepCost,
    Topology,
    assess,
    default_sizes,
    plan_buckets,
    stream_limit,
)

A2 = Conditions(limit=stream_limit("Ascend910B3"), topology=Topology())
PIECES = Topology(mode=CaptureMode.PIECEWISE, num_layers=64, comm_groups=1, aiv=True)
# Qwen3-Coder-480B-A35B with 8-bit weights, the model of vllm-ascend#7723.
CODER = ModelShape(
    num_layers=62,
    hidden_size=6144,
    mlp_width=2560,
    num_q_heads=96,
    num_kv_heads=8,
    head_dim=128,
    vocab_size=151936,
    num_experts=160,
    active_experts=8,
    weight_bytes=1,
)


def kinds(report: PlanReport) -> dict[str, str]:
    return {warning.kind: warning.severity for warning in report.warnings}


def message(report: PlanReport, kind: str) -> str:
    return next(warning.message for warning in report.warnings if warning.kind == kind)


@given(st.integers(1, 300), st.integers(1, 40))
def test_own_plans_have_no_errors(max_batch: int, max_graphs: int) -> None:
    planned = plan_buckets(max_batch, max_graphs=max_graphs)
    report = assess(planned.plan, A2)
    assert report.passed
    assert {"better-sizes", "unreachable-bucket", "never-wins"}.isdisjoint(kinds(report))


@pytest.mark.parametrize("max_num_seqs, leaves", [(12, "9 to 12"), (20, "17 to 20"), (3, "3 to 3")])
def test_off_stride_max_num_seqs(max_num_seqs: int, leaves: str) -> None:
    sizes = default_sizes(max_num_seqs, "vllm-ascend")
    vllm = replace(A2, dispatch="vllm")
    report = assess(BucketPlan.of(sizes, max_batch=max_num_seqs), vllm)
    assert not report.passed and kinds(report)["off-stride-max-batch"] == "error"
    text = message(report, "off-stride-max-batch")
    assert leaves in text and f"add {max_num_seqs} to cudagraph_capture_sizes" in text
    assert "largest-batch-not-captured" not in kinds(report)
    mended = assess(BucketPlan.of([*sizes, max_num_seqs], max_batch=max_num_seqs), vllm)
    assert mended.passed and "off-stride-max-batch" not in kinds(mended)


def test_a_larger_size_helps_the_runner_and_not_vllm() -> None:
    plan = BucketPlan.of([1, 2, 4, 8, 16], max_batch=12)
    assert kinds(assess(plan, A2))["largest-batch-not-captured"] == "warning"
    report = assess(plan, replace(A2, dispatch="vllm"))
    assert report.plan.sizes == (1, 2, 4, 8)
    assert kinds(report)["off-stride-max-batch"] == "error"
    assert "[16] are larger than max_num_seqs=12" in message(report, "unreachable-bucket")
    assert "set max_num_seqs to 8 or 16" in message(report, "off-stride-max-batch")


def test_steps_beyond_the_list_are_reported_once() -> None:
    steps = {8: 5, 11: 2}
    vllm = replace(A2, dispatch="vllm", steps=steps)
    report = assess(BucketPlan.of([1, 2, 4, 8], max_batch=12), vllm)
    assert "leaves-graph" not in kinds(report) and report.padding.eager_steps == 2
    assert kinds(assess(BucketPlan.of([4, 8], max_batch=12), replace(A2, steps=steps))) == {
        "largest-batch-not-captured": "error",
        "leaves-graph": "error",
        "unused-bucket": "warning",
    }


def test_stream_exhaustion_at_64_layers_and_many_sizes() -> None:
    sizes = default_sizes(256, "vllm-ascend")
    conditions = replace(A2, topology=PIECES, dispatch="vllm")
    report = assess(BucketPlan.of(sizes, max_batch=256), conditions)
    assert kinds(report)["streams-exceeded"] == "error" and not report.passed
    text = message(report, "streams-exceeded")
    assert f"35 sizes need {35 * 65 * 2} streams" in text and "1984" in text
    assert "at most 13 sizes" in text and "full decode graphs, which take 70 streams" in text
    fits = plan_buckets(256, max_graphs=report.streams.most_sizes)
    assert assess(fits.plan, conditions).passed
    assert assess(BucketPlan.of(sizes, max_batch=256), replace(A2, dispatch="vllm")).passed


def test_communication_that_does_not_run_on_vector_cores() -> None:
    plan = BucketPlan.of(range(1, 13), max_batch=12)  # 12 * 65 * 3 = 2340
    default = replace(A2, topology=replace(PIECES, aiv=False))
    text = message(assess(plan, default), "streams-exceeded")
    assert "at most 8 sizes" in text and "HCCL_OP_EXPANSION_MODE=AIV" in text
    assert assess(plan, replace(A2, topology=PIECES)).passed


def test_scarce_streams() -> None:
    plan = BucketPlan.of(range(1, 16), max_batch=15)  # 15 * 130 = 1950 of 1984
    report = assess(plan, replace(A2, topology=PIECES))
    assert kinds(report)["streams-scarce"] == "warning" and report.passed
    assert "leaves 34 of 1984" in message(report, "streams-scarce")
    first_atlas = replace(A2, topology=PIECES, limit=stream_limit("910A"))
    assert "streams-scarce" in kinds(assess(plan, first_atlas))  # 1950 of 1800
    fewer = BucketPlan.of(range(1, 14), max_batch=13)
    assert "streams-scarce" not in kinds(assess(fewer, first_atlas))


@pytest.mark.parametrize("context, ratio", [(256_000, "1.9"), (768_000, "5.7")])
def test_attention_dominates_at_long_context(context: int, ratio: str) -> None:
    plan = BucketPlan.of([1], max_batch=1)
    report = assess(plan, replace(A2, shape=CODER, context=context))
    text = message(report, "attention-dominates")
    assert f"reads {ratio} times as many " in text
    assert kinds(report)["attention-dominates"] == "warning"


def test_weights_dominate_at_short_context() -> None:
    plan = BucketPlan.of([1], max_batch=1)
    report = assess(plan, replace(A2, shape=CODER, context=32_000))
    assert "attention-dominates" not in kinds(report)
    assert report.memory is not None and report.memory.inputs == 24 + 4 * 250


def test_many_rows_make_attention_dominate_sooner() -> None:
    conditions = replace(A2, shape=replace(CODER, num_experts=0, active_experts=0), context=2000)
    assert "attention-dominates" not in kinds(assess(BucketPlan.of([1], max_batch=1), conditions))
    assert "attention-dominates" in kinds(assess(BucketPlan.of([64], max_batch=64), conditions))


def test_sizes_that_never_win() -> None:
    plan = BucketPlan.of([1, 8, 64, 128], max_batch=128)
    report = assess(plan, replace(A2, cost=StepCost(fixed=9, free_rows=64)))
    assert "[1, 8] are no faster" in message(report, "never-wins")
    assert "never-wins" not in kinds(assess(plan, A2))


def test_better_sizes() -> None:
    steps = {5: 100, 9: 100, 16: 1}
    plan = BucketPlan.of([1, 8, 16], max_batch=16)
    report = assess(plan, replace(A2, steps=steps))
    assert "with 3 graphs for [5, 9, 16]" in message(report, "better-sizes")
    assert "padding costs 1,000, and 0" in message(report, "better-sizes")
    assert "better-sizes" not in kinds(
        assess(BucketPlan.of([5, 9, 16], max_batch=16), replace(A2, steps=steps))
    )


def test_a_report_as_json() -> None:
    report = assess(BucketPlan.of([2, 4], max_batch=4), replace(A2, shape=CODER, context=300))
    found = report.to_dict()
    assert found["capture_order"] == [4, 2] and found["traffic"] == "uniform"
    assert found["evidence"] == "modelled" and found["passed"] is True
    assert isinstance(found["memory"], dict) and found["memory"]["inputs"] == 4 * (24 + 4 * 3)


def test_an_empty_list_serves_nothing() -> None:
    report = assess(BucketPlan.of([], max_batch=4), replace(A2, shape=CODER, context=300))
    assert not report.passed and report.streams.needed == 0 and report.memory is None


def test_pieces_serve_decode_beyond_max_num_seqs() -> None:
    plan = BucketPlan.of([1, 2, 4, 8, 16], max_batch=12)
    pieces = replace(
        A2, dispatch="vllm", topology=Topology(mode=CaptureMode.PIECEWISE, num_layers=2)
    )
    assert kinds(assess(plan, pieces)) == {"largest-batch-not-captured": "warning"}
    both = replace(pieces, topology=replace(pieces.topology, mode=CaptureMode.FULL_AND_PIECEWISE))
    assert kinds(assess(plan, both))["off-stride-max-batch"] == "error"
    short = BucketPlan.of([1, 2, 4, 8], max_batch=12)
    assert kinds(assess(short, pieces)) == {"off-stride-max-batch": "error"}
