from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.buckets import BucketPlan
from graphs.errors import GraphError

sizes_lists = st.lists(st.integers(1, 300), max_size=12)


@given(sizes_lists, st.integers(1, 320))
def test_bucket_for_is_the_smallest_that_holds_the_batch(sizes: list[int], batch: int) -> None:
    holding = [size for size in sizes if size >= batch]
    assert BucketPlan.of(sizes).bucket_for(batch) == (min(holding) if holding else None)


@given(sizes_lists)
def test_capture_order_is_largest_first(sizes: list[int]) -> None:
    assert BucketPlan.of(sizes).capture_order == tuple(sorted(set(sizes), reverse=True))


@given(sizes_lists, st.dictionaries(st.integers(0, 320), st.integers(0, 9)))
def test_padding_accounts_for_every_step(sizes: list[int], histogram: dict[int, int]) -> None:
    plan = BucketPlan.of(sizes)
    report = plan.padding(histogram)
    steps = sum(count for size, count in histogram.items() if size)
    assert sum(report.steps_by_bucket.values()) + report.eager_steps == steps
    computed = sum(bucket * count for bucket, count in report.steps_by_bucket.items())
    assert report.rows + report.padded_rows == computed
    assert 0.0 <= report.waste < 1.0


def test_padding_by_hand() -> None:
    report = BucketPlan.of([1, 4, 8]).padding({1: 10, 3: 2, 8: 1, 9: 5, 0: 7})
    assert report.steps_by_bucket == {1: 10, 4: 2, 8: 1}
    assert (report.rows, report.padded_rows, report.eager_steps) == (24, 2, 5)
    assert report.waste == pytest.approx(2 / 26)
    assert report.to_dict()["steps_by_bucket"] == {"1": 10, "4": 2, "8": 1}


@given(st.integers(1, 300))
def test_up_to_always_captures_the_largest_batch(max_batch: int) -> None:
    plan = BucketPlan.up_to(max_batch)
    assert plan.largest == max_batch
    assert plan.bucket_for(max_batch) == max_batch
    assert "largest-batch-not-captured" not in kinds(plan)


@given(sizes_lists)
def test_every_bucket_serves_from_its_smallest_batch_on(sizes: list[int]) -> None:
    plan = BucketPlan.of(sizes)
    for bucket in plan.sizes:
        smallest = plan.smallest_batch(bucket)
        assert plan.bucket_for(smallest) == bucket
        assert smallest == 1 or plan.bucket_for(smallest - 1) != bucket


@pytest.mark.parametrize("sizes", [(0,), (-1, 2), (True,), (2.0,), (4, 2), (2, 2)])
def test_bad_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match="AI-GRAPH-001"):
        BucketPlan(sizes)


def test_a_bad_limit_is_refused() -> None:
    with pytest.raises(GraphError, match="AI-GRAPH-001"):
        BucketPlan((1,), max_batch=0)


def kinds(plan: BucketPlan, histogram: dict[int, int] | None = None) -> set[str]:
    return {warning.kind for warning in plan.warnings(histogram)}


def test_a_sensible_plan_has_no_warnings() -> None:
    plan = BucketPlan.of([1, 2, 4, 8, 16, 24], max_batch=24)
    assert kinds(plan) == set()
    assert kinds(plan, dict.fromkeys(range(1, 25), 1)) == set()


@pytest.mark.parametrize("max_batch, text", [(30, "padded to 32"), (40, "batches of 33 to 40")])
def test_the_largest_batch_that_is_no_capture_size(max_batch: int, text: str) -> None:
    plan = BucketPlan.of([1, 2, 4, 8, 16, 32], max_batch=max_batch)
    (warning,) = plan.warnings()
    assert warning.kind == "largest-batch-not-captured"
    assert text in warning.message and str(max_batch) in warning.message
    severity = "warning" if max_batch == 30 else "error"
    assert warning.to_dict() == {
        "kind": warning.kind,
        "severity": severity,
        "message": warning.message,
    }


def test_buckets_beyond_the_largest_batch() -> None:
    plan = BucketPlan.of([1, 2, 4, 8, 16], max_batch=4)
    (warning,) = plan.warnings()
    assert warning.kind == "unreachable-bucket" and "[8, 16]" in warning.message


def test_wide_gaps() -> None:
    assert kinds(BucketPlan.of([1, 64])) == {"wide-gap"}
    assert kinds(BucketPlan.of([1, 4])) == set()


def test_histogram_warnings() -> None:
    plan = BucketPlan.of([1, 2, 4])
    assert kinds(plan, {1: 5, 9: 1}) == {"unused-bucket", "leaves-graph"}


def test_the_bucket_of_the_largest_batch_is_never_useless() -> None:
    assert kinds(BucketPlan.of([1, 4, 8], max_batch=8), {1: 5, 3: 1}) == set()
    assert kinds(BucketPlan.of([1, 4, 8], max_batch=8), {1: 5}) == {"unused-bucket"}
    assert kinds(BucketPlan.of([1, 4, 8]), {1: 5, 3: 1}) == {"unused-bucket"}


def test_an_empty_plan_runs_everything_eagerly() -> None:
    plan = BucketPlan.of([])
    assert plan.largest == 0 and plan.bucket_for(1) is None
    assert plan.padding({3: 2}).waste == 0.0
