"""Random kernels at a small budget, and that each property notices when it is broken."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from kernels_npu.sim.fuzzing.arguments import check_arguments
from kernels_npu.sim.fuzzing.cases import Case
from kernels_npu.sim.fuzzing.cube_kernels import draw_cube_kernel
from kernels_npu.sim.fuzzing.draw import Draw, RandomDraw
from kernels_npu.sim.fuzzing.properties import (
    Violation,
    check_correct,
    check_damaged,
    check_deletion,
    properties,
)
from kernels_npu.sim.fuzzing.shrinking import explore
from kernels_npu.sim.fuzzing.vector_kernels import draw_vector_kernel

EVERY = properties()
MAKERS = (draw_vector_kernel, draw_cube_kernel)

both_kinds = pytest.mark.parametrize("make", MAKERS, ids=("vector", "cube"))


@pytest.mark.parametrize("name", EVERY)
def test_property_holds(name: str) -> None:
    explore(EVERY[name], examples=25, number=0)


def some_case(make: Callable[[Draw], Case], condition: Callable[[Case], bool]) -> Case:
    """The first exact kernel of a fixed order that meets a condition."""
    cases = (make(RandomDraw(number)) for number in range(1000))
    return next(case for case in cases if case.exact and condition(case))


@both_kinds
def test_a_wrong_value_is_a_violation(make: Callable[[Draw], Case]) -> None:
    case = some_case(make, lambda case: True)
    position, expected = next(iter(case.outputs.items()))
    changed = expected.copy()
    changed.flat[-1] += 1
    outputs = {**case.outputs, position: changed}
    with pytest.raises(Violation, match="is not"):
        check_correct(dataclasses.replace(case, outputs=outputs), 0)


@both_kinds
def test_a_missing_barrier_is_a_violation(make: Callable[[Draw], Case]) -> None:
    case = some_case(make, lambda case: "T.barrier_all()" in case.text)
    text = "\n".join(line for line in case.text.splitlines() if "barrier_all" not in line)
    with pytest.raises(Violation, match="AI-RACE-001"):
        check_correct(dataclasses.replace(case, text=text + "\n"), 0)


@both_kinds
def test_damage_and_deletions_have_different_outcomes(make: Callable[[Draw], Case]) -> None:
    draws = [RandomDraw(number) for number in range(60)]
    deletions = Counter(check_deletion(make(draw), draw) for draw in draws[:20])
    assert deletions["found"] and deletions[None]
    outcomes = Counter(check_damaged(make(draw), draw) for draw in draws)
    coded = {code[:6] for code in outcomes if code.startswith("AI-")}
    assert len(outcomes) > 8 and "AI-SRC" in coded and outcomes["accepted"]


def test_wrong_arguments_are_met() -> None:
    draws = [RandomDraw(number) for number in range(30)]
    outcomes = Counter(check_arguments(draw_vector_kernel(draw), draw) for draw in draws)
    assert outcomes["accepted"]
    assert {"AI-TYPE-033", "AI-TYPE-034"} <= set(outcomes)


def test_generators_are_varied() -> None:
    texts = [make(RandomDraw(number)).text for make in MAKERS for number in range(120)]
    for part in (
        "T.set_flag(",
        "T.barrier_all()",
        "T.set_cross_flag(",
        "tl.ascend_auto_sync",
        "tl.ascend_memory_planning",
        "tl.ascend_auto_cv_combine",
        "threads=1",
        "threads=2",
        "(cid, vid)",
        "T.symbolic(",
        "T.Parallel(",
        "T.reduce_",
        "T.tile.broadcast(",
        "T.tile.compare(",
        "for j in T.serial(",
        "if t % 2 == 1:",
        "T.copy(c_l0, p_0)",
        '"bfloat16"',
        '"float16"',
        '"int32"',
    ):
        assert any(part in text for text in texts), part


@both_kinds
def test_a_kernel_is_the_same_for_the_same_decisions(make: Callable[[Draw], Case]) -> None:
    one, other = make(RandomDraw(5)), make(RandomDraw(5))
    assert one.text == other.text
    for a, b in zip(one.arguments, other.arguments):
        np.testing.assert_array_equal(a, b)
