"""Which checks may be left out: ranges of one pipe, and sites whose ranges are known as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

ROWS, COLS = 16, 64


def staged(*, wait_after_load: bool, element: bool = False, offset_in_parts: bool = False) -> Any:
    """Load, three vector steps through a buffer of the vector unit's own, store."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def stage(x: T.Tensor((ROWS, COLS), "float32"), y: T.Tensor((ROWS, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                loaded = T.alloc_ub([ROWS, COLS], "float32")
                own = T.alloc_ub([ROWS, COLS], "float32")
                stored = T.alloc_ub([ROWS, COLS], "float32")
                with T.Scope("V"):
                    T.copy(x, loaded)
                    T.set_flag("mte2", "v", 0)
                    if wait_after_load:
                        T.wait_flag("mte2", "v", 0)
                    if offset_in_parts:
                        for r in T.serial(ROWS):
                            T.tile.add(own[r, :], loaded[r, :], 1.0)
                    else:
                        T.tile.add(own, loaded, 1.0)
                    T.tile.mul(own, own, 2.0)
                    if element:
                        own[0, 0] = 3.0
                    T.tile.add(stored, own, own)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(stored, y)
                    if not wait_after_load:
                        T.wait_flag("mte2", "v", 0)

        return stage

    return factory()


@pytest.mark.parametrize("offset_in_parts", [False, True])
@pytest.mark.parametrize("element", [False, True])
def test_a_private_range_does_not_hide_the_race_beside_it(
    launch: Callable[..., Any], rng: np.random.Generator, offset_in_parts: bool, element: bool
) -> None:
    x = rng.standard_normal((ROWS, COLS), dtype=np.float32)
    options = {"element": element, "offset_in_parts": offset_in_parts}
    clean = launch(staged(wait_after_load=True, **options), x)
    assert clean.errors == []
    expected = (x + 1) * 2
    if element:
        expected[0, 0] = 3
    np.testing.assert_array_equal(clean.outputs[0], expected + expected)
    racing = launch(staged(wait_after_load=False, **options), x)
    assert {f.code for f in racing.errors} == {"AI-RACE-001"}


def shared(*, rows_of_v: tuple[int, int]) -> Any:
    """MTE2 fills rows 8 to 15 of a buffer while the vector unit works on `rows_of_v`."""
    first, last = rows_of_v

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def share(x: T.Tensor((ROWS, COLS), "float32"), y: T.Tensor((ROWS, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                tile = T.alloc_ub([ROWS, COLS], "float32")
                with T.Scope("V"):
                    T.tile.fill(tile, 0.0)
                    T.set_flag("v", "mte2", 0)
                    T.wait_flag("v", "mte2", 0)
                    T.copy(x[8:16, :], tile[8:16, :])
                    for r in T.serial(first, last):
                        T.tile.add(tile[r, :], tile[r, :], 1.0)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.set_flag("mte2", "mte3", 0)
                    T.wait_flag("mte2", "mte3", 0)
                    T.copy(tile, y)

        return share

    return factory()


@pytest.mark.parametrize(("rows", "races"), [((0, 8), False), ((4, 9), True), ((8, 16), True)])
def test_a_range_with_a_run_time_start_is_checked_where_another_pipe_touches_the_buffer(
    launch: Callable[..., Any], rng: np.random.Generator, rows: tuple[int, int], races: bool
) -> None:
    x = rng.standard_normal((ROWS, COLS), dtype=np.float32)
    result = launch(shared(rows_of_v=rows), x)
    assert bool(result.errors) == races
    if not races:
        assert (result.outputs[0][:8] == 1).all()
        np.testing.assert_array_equal(result.outputs[0][8:], x[8:])


def test_a_site_that_saw_written_data_sees_when_it_is_lost(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    """The store runs three times; before the last, half of what it stores becomes garbage."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def lose(x: T.Tensor((ROWS, COLS), "float32"), y: T.Tensor((3 * ROWS, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                tile = T.alloc_ub([ROWS, COLS], "float32")
                never_written = T.alloc_ub([ROWS, COLS], "float32")
                with T.Scope("V"):
                    T.copy(x, tile)
                    T.barrier_all()
                    for i in T.serial(3):
                        if i == 2:
                            T.copy(never_written[0:8, :], tile[0:8, :])
                        T.barrier_all()
                        T.copy(tile, y[i * ROWS : (i + 1) * ROWS, :])
                        T.barrier_all()

        return lose

    result = launch(factory(), rng.standard_normal((ROWS, COLS), dtype=np.float32))
    (finding,) = result.errors
    assert finding.code == "AI-INIT-001" and finding.count == 1
