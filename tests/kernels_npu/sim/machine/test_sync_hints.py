"""Flags and barriers that order nothing are hints; those that order something are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import sync_watch

TILES, N = 5, 64


def doubled(*, twice: str = "", last: bool = False) -> Any:
    """y = 2 x with one flag per edge.

    twice: a flag or barrier that repeats what the line before it says. last: a barrier that
    nothing follows.
    """

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    T.set_flag("v", "mte2", 0)
                    T.set_flag("mte3", "v", 0)
                    for i in T.serial(TILES):
                        T.wait_flag("v", "mte2", 0)
                        T.copy(x[i, :], a)
                        T.set_flag("mte2", "v", 0)
                        T.wait_flag("mte2", "v", 0)
                        if twice == "flag":
                            T.set_flag("mte2", "v", 1)
                            T.wait_flag("mte2", "v", 1)
                        T.wait_flag("mte3", "v", 0)
                        T.tile.add(b, a, a)
                        T.set_flag("v", "mte2", 0)
                        T.set_flag("v", "mte3", 0)
                        T.wait_flag("v", "mte3", 0)
                        T.copy(b, y[i, :])
                        T.set_flag("mte3", "v", 0)
                        if twice == "barrier":
                            T.barrier_all()
                            T.barrier_all()
                    T.wait_flag("v", "mte2", 0)
                    T.wait_flag("mte3", "v", 0)
                    if last:
                        T.barrier_all()

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({}, ""),
        ({"twice": "flag"}, "tells V nothing"),
        ({"twice": "barrier"}, "finds nothing to wait for in any of 5 executions"),
        ({"last": True}, "no instruction follows"),
    ],
)
def test_what_orders_nothing_is_a_hint(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    change: dict[str, Any],
    hint: str,
) -> None:
    x = rng.standard_normal((TILES, N), dtype=np.float32)
    kernel = doubled(**change)
    result = launch(kernel, x)
    np.testing.assert_array_equal(result.outputs[0], 2 * x)
    hints = [f for f in result.record.findings if f.code == "AI-SYNC-011"]
    assert all(f.severity == "hint" and f.loc.file == __file__ for f in hints)
    if change.get("twice") == "barrier":
        # With a barrier per tile the flags to the next one tell nothing new either.
        assert len(hints) > 1
        hints = [f for f in hints if "barrier_all" in f.message]
    assert len(hints) == bool(hint), [str(f) for f in hints]
    assert all(hint in f.message for f in hints)


def test_a_flag_between_pipes_that_share_nothing_is_a_hint(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((TILES, N), dtype=np.float32)
    (finding,) = launch(separate(), x).record.findings
    assert finding.code == "AI-SYNC-011" and "nothing that MTE2 touches" in finding.message


def separate() -> Any:
    """The loaded tile goes nowhere; what is stored is made by the vector unit alone."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    T.copy(x[0, :], a)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.fill(b, 1.0)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    for i in T.serial(TILES):
                        T.copy(b, y[i, :])

        return kernel

    return factory()


def test_the_switch_turns_hints_off(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    x = rng.standard_normal((TILES, N), dtype=np.float32)
    assert launch(separate(), x, checks=Checks(redundancy=False)).record.findings == ()


def test_a_wrong_launch_gets_no_hints(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    for i in T.serial(TILES):
                        T.copy(x[i, :], a)
                        T.set_flag("mte2", "mte3", 0)
                        T.wait_flag("mte2", "mte3", 0)
                        T.set_flag("mte2", "mte3", 1)
                        T.wait_flag("mte2", "mte3", 1)
                        T.copy(a, y[i, :])

        return kernel

    x = rng.standard_normal((TILES, N), dtype=np.float32)
    assert {f.severity for f in launch(factory(), x).record.findings} == {"error"}


def test_nothing_is_said_of_what_was_seen_too_seldom(
    launch: Callable[..., Any], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_watch, "ENOUGH_IN_ALL", 5)
    x = rng.standard_normal((TILES, N), dtype=np.float32)
    kernel = doubled(twice="flag")
    assert launch(kernel, x).record.findings == ()
