"""Scalar accesses to on-chip elements: the fast path finds what the slow one finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.element_trace import ElementTrace, record_of

COUNT = 64


def filled(*, free: bool, ready: bool, other_half: bool = False) -> Any:
    """Rounds of: store elements of a buffer, copy it out. `free`, `ready`: the flags of the copy.

    other_half: the elements stored are not those that are copied out.
    """
    first = COUNT // 2 if other_half else 0

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def fill(x: T.Tensor((COUNT,), "float32"), y: T.Tensor((3, COUNT // 2), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                buffer = T.alloc_ub([COUNT], "float32")
                with T.Scope("V"):
                    T.copy(x, buffer)
                    T.set_flag("mte2", "s", 0)
                    T.wait_flag("mte2", "s", 0)
                    for round in T.serial(3):
                        if free and round > 0:
                            T.wait_flag("mte3", "s", 0)
                        for i in T.serial(COUNT // 2):
                            buffer[first + i] = buffer[first + i] + 1.0
                        if ready:
                            T.set_flag("s", "mte3", 0)
                            T.wait_flag("s", "mte3", 0)
                        T.copy(buffer[0 : COUNT // 2], y[round, :])
                        if free and round < 2:
                            T.set_flag("mte3", "s", 0)

        return fill

    return factory()


def expected(x: Any, *, other_half: bool) -> Any:
    half = x[: COUNT // 2]
    return np.stack([half + (0 if other_half else r + 1) for r in range(3)])


@pytest.mark.parametrize("other_half", [False, True])
def test_with_its_flags_a_loop_of_stores_is_clean(
    agreeing: Callable[..., Any], rng: np.random.Generator, other_half: bool
) -> None:
    x = rng.standard_normal(COUNT, dtype=np.float32)
    y, _ = agreeing(filled(free=True, ready=True, other_half=other_half), x)
    np.testing.assert_allclose(y, expected(x, other_half=other_half), rtol=1e-6)


def test_a_store_into_what_a_copy_still_reads_is_found(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal(COUNT, dtype=np.float32)
    result = launch(filled(free=False, ready=True), x)
    assert {f.code for f in result.errors} == {"AI-RACE-002"}
    (finding,) = result.errors
    assert [a.pipe for a in finding.accesses] == ["MTE3", "S"]


def test_a_copy_that_does_not_wait_for_the_stores_is_found(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal(COUNT, dtype=np.float32)
    codes = launch(filled(free=True, ready=False), x).codes
    assert "AI-RACE-001" in codes


@pytest.mark.parametrize("ready", [False, True])
def test_stores_beside_what_a_copy_reads_need_no_flag(
    launch: Callable[..., Any], rng: np.random.Generator, ready: bool
) -> None:
    x = rng.standard_normal(COUNT, dtype=np.float32)
    result = launch(filled(free=False, ready=ready, other_half=True), x)
    assert not {c for c in result.codes if c.startswith("AI-RACE")}


def test_one_element_left_out_of_a_loop_of_stores_is_unwritten(launch: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[0])
    def factory(skipped: int) -> Any:
        @T.prim_func
        def gap(y: T.Tensor((COUNT,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                buffer = T.alloc_ub([COUNT], "float32")
                with T.Scope("V"):
                    for i in T.serial(COUNT):
                        if i != skipped:
                            buffer[i] = 2.0
                    T.set_flag("s", "mte3", 0)
                    T.wait_flag("s", "mte3", 0)
                    T.copy(buffer, y)

        return gap

    assert launch(factory(COUNT)).errors == []
    (finding,) = launch(factory(COUNT // 2 + 1)).errors
    assert finding.code == "AI-INIT-001"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (Cell(0, 1, 64, 0), False),
        (Cell(64, 1, 4, 0), True),
        (Cell(66, 1, 2, 0), True),
        (Cell(68, 1, 60, 0), False),
        (Cell(0, 3, 8, 32), True),
        (Cell(8, 3, 8, 32), False),
        (Cell(0, 5, 2, 22), True),  # rows at 0, 22, 44, 66
        (Cell(2, 5, 2, 22), False),  # rows at 2, 24, 46, 68
    ],
)
def test_a_trace_knows_which_ranges_hold_an_element(cell: Cell, found: bool) -> None:
    trace = ElementTrace(256, 4)
    trace.buffer(64, 8, 4, write=True)[0] = record_of(5, 17)
    trace.last_write = 5
    assert trace.newer_write(cell, 4) == (17 if found else -1)
    assert trace.newer_write(cell, 5) == -1
    assert trace.newer_read(cell, 0) == -1
