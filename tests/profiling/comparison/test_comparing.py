"""Two sides: what is matched, what repeats, and which verdicts are given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from profiling.comparison import Comparison, Matched, Measurements, Verdict, compare
from tests.profiling.comparison.builders import (
    BYTES,
    COMPLETE,
    COUNTED,
    MEASURED,
    key,
    run,
    runs,
    unknown,
)

pytest.importorskip("scipy")


def only(comparison: Comparison) -> Matched:
    (matched,) = comparison.matched
    return matched


def verdict(before: list[Measurements], after: list[Measurements]) -> Verdict:
    return only(compare(before, after)).difference.verdict


def test_launches_repeat_where_a_side_has_one_run() -> None:
    before, after = runs((10, 10.1, 9.9, 10)), runs((12, 12.1, 11.9))
    comparison = compare(before, after)
    found = only(comparison).difference
    assert found.verdict is Verdict.WORSE and found.verdict.word(key().metric) == "slower"
    assert (found.before.count, found.before.of, found.after.count) == (4, "launch", 3)
    assert found.estimate.ratio == pytest.approx(1.2, rel=0.01)
    assert any("run to run" in remark for remark in comparison.remarks)


def test_runs_repeat_where_both_sides_have_several() -> None:
    """Launches agree within a run, runs do not agree with each other: no difference is shown."""
    before = runs([10.0] * 50, [12.0] * 50, [11.0] * 50)
    after = runs([12.5] * 50, [10.5] * 50, [11.5] * 50)
    found = only(compare(before, after)).difference
    assert (found.before.count, found.before.of) == (3, "run")
    assert found.verdict is Verdict.NOISE
    assert verdict(runs([10.0, 12.0, 11.0] * 50), runs([12.5, 10.5, 11.5] * 50)) is Verdict.WORSE


def test_five_runs_show_what_is_far_beyond_their_noise() -> None:
    """A tenth more, among kernels without a difference, where runs differ by a hundredth."""
    rng = np.random.default_rng(3)

    def side(factor: float) -> list[Measurements]:
        return [
            run(
                {
                    key(f"k{n}"): rng.lognormal(3, 0.01) * np.ones(4) * (factor if n == 3 else 1)
                    for n in range(20)
                }
            )
            for _ in range(5)
        ]

    found, wrong, trials = 0, 0, 25
    for _ in range(trials):
        verdicts = {
            one.key.kernel.name: one.difference.verdict
            for one in compare(side(1.0), side(1.1)).matched
        }
        found += verdicts.pop("k3") is Verdict.WORSE
        wrong += len({Verdict.WORSE, Verdict.BETTER} & set(verdicts.values()))
    assert found == trials and wrong <= 0.1 * trials


def test_a_run_that_went_wrong_hides_a_difference_and_makes_none() -> None:
    steady, disturbed = [[10.0], [10.1], [9.9], [10.0]], [[10.0], [10.1], [9.9], [30.0]]
    assert verdict(runs(*steady), runs(*disturbed)) is Verdict.NOISE


@pytest.mark.parametrize(
    ("before", "after"), [((10,), (20,)), ((10, 10.1, 9.9), (20,)), ((10,), (20, 20.1))]
)
def test_one_sample_gives_no_verdict_and_says_why(before, after) -> None:
    found = only(compare(runs(before), runs(after))).difference
    assert found.verdict is Verdict.NONE and "the noise is not known" in found.why
    assert "1 launch " in found.why


def test_the_same_is_a_finding_and_not_the_lack_of_one() -> None:
    assert verdict(runs([100, 100.1] * 20), runs([100.1, 100.2] * 20)) is Verdict.SAME
    assert verdict(runs([100, 120, 90]), runs([101, 119, 92])) is Verdict.NOISE


def test_counts_have_no_noise() -> None:
    count = key(metric=BYTES, evidence=COUNTED)

    def counted(before: tuple[float, ...], after: tuple[float, ...]) -> Matched:
        return only(compare([run({count: before})], [run({count: after})]))

    assert counted((1000.0,), (1000.5,)).difference.verdict is Verdict.WORSE
    assert counted((1000.0,), (999.0,)).difference.verdict.word(BYTES) == "less"
    assert counted((4.0, 5.0), (5.0, 4.0)).difference.verdict is Verdict.SAME
    assert counted((7.0,), (7.0, 7.0)).difference.estimate.ratio == 1
    assert counted((4.0, 6.0), (5.0, 5.0)).difference.verdict is Verdict.DIFFERENT
    unlike = counted((4.0, 5.0), (4.0, 5.0, 6.0)).difference
    assert unlike.verdict is Verdict.NONE and "2 launches against 3" in unlike.why
    assert counted((0.0,), (0.0,)).difference.verdict is Verdict.SAME
    assert counted((0.0,), (1.0,)).difference.verdict is Verdict.WORSE


def test_equal_runs_of_a_simulation_are_one() -> None:
    count = key(metric=BYTES, evidence=COUNTED)
    comparison = compare([run({count: [4, 5]})] * 3, [run({count: [4, 6]})])
    found = only(comparison).difference
    assert (found.before.count, found.verdict) == (2, Verdict.WORSE)
    assert found.estimate.ratio == pytest.approx(10 / 9)


def test_evidence_levels_are_never_compared() -> None:
    comparison = compare(
        [run({key(evidence=MEASURED): (10, 11)})], [run({key(evidence=COUNTED): (10, 11)})]
    )
    assert comparison.matched == ()
    assert comparison.only_before[0].elsewhere == ("simulated",)
    assert comparison.only_after[0].elsewhere == ("npu-measured",)


def test_what_one_side_has_is_listed() -> None:
    comparison = compare(
        [run({key("both"): (1, 2), key("gone"): (3,)})],
        [run({key("both"): (1, 2), key("new"): (4,)})],
    )
    assert [one.key.kernel.name for one in comparison.only_before] == ["gone"]
    assert [one.key.kernel.name for one in comparison.only_after] == ["new"]
    assert comparison.only_before[0].where == "file.csv:2"


def test_blocks_identify_a_kernel_only_where_one_run_has_several() -> None:
    few, many = key(blocks="8"), key(blocks="24")
    tuned = compare([run({few: (10, 10.1)})], [run({many: (5, 5.1)})])
    assert len(tuned.matched) == 1 and not tuned.only_before
    shapes = compare([run({few: (10, 10.1), many: (30, 30.1)})], [run({many: (30, 30.2)})])
    assert only(shapes).key.kernel.blocks == "24"
    assert [one.key.kernel.blocks for one in shapes.only_before] == ["8"]


def test_a_figure_of_which_nobody_knows_whether_more_is_good() -> None:
    odd = key(metric=unknown("temperature"))
    found = compare([run({odd: (1, 1.01, 1.02)})], [run({odd: (2, 2.01, 2.02)})])
    assert only(found).difference.verdict is Verdict.DIFFERENT


def test_conditions_that_are_missing_or_differ() -> None:
    partly = dataclasses.replace(COMPLETE, load="")
    other = dataclasses.replace(COMPLETE, software="CANN 8.5")
    assert compare([run((1, 2))], [run((1, 2))]).headline == ""
    comparison = compare([run((1, 2), partly)], [run((1, 2), other)])
    assert comparison.headline.startswith("Not comparable: 1 of 12 conditions missing")
    assert any("some software -> CANN 8.5" in remark for remark in comparison.remarks)
