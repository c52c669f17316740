"""What findings about races, deadlocks and flags say, and what they say nothing about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

ROWS, COLS, TILES = 16, 64, 6


def double_kernel(
    *, load_wait: bool = True, store_wait: bool = True, free_wait: bool = True
) -> Any:
    """y = x + x, tile by tile through one UB buffer pair, with explicit flags."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def double(
            x: T.Tensor((TILES * ROWS, COLS), "float32"),
            y: T.Tensor((TILES * ROWS, COLS), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([ROWS, COLS], "float32")
                b = T.alloc_ub([ROWS, COLS], "float32")
                with T.Scope("V"):
                    T.set_flag("v", "mte2", 0)
                    T.set_flag("mte3", "v", 0)
                    for i in T.serial(TILES):
                        if free_wait:
                            T.wait_flag("v", "mte2", 0)
                        T.copy(x[i * ROWS : (i + 1) * ROWS, :], a)
                        T.set_flag("mte2", "v", 0)
                        if load_wait:
                            T.wait_flag("mte2", "v", 0)
                        if store_wait:
                            T.wait_flag("mte3", "v", 0)
                        T.tile.add(b, a, a)
                        T.set_flag("v", "mte2", 0)
                        T.set_flag("v", "mte3", 0)
                        T.wait_flag("v", "mte3", 0)
                        T.copy(b, y[i * ROWS : (i + 1) * ROWS, :])
                        T.set_flag("mte3", "v", 0)
                    T.wait_flag("v", "mte2", 0)
                    T.wait_flag("mte3", "v", 0)

        return double

    return factory()


def data(rng: np.random.Generator) -> Any:
    return rng.standard_normal((TILES * ROWS, COLS), dtype=np.float32)


def test_clean_twin_is_right_and_silent(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = data(rng)
    result = launch(double_kernel(), x)
    np.testing.assert_array_equal(result.outputs[0], x + x)
    assert result.record.findings == ()


@pytest.mark.parametrize(
    ("missing", "code", "older", "newer"),
    [
        ("load_wait", "AI-RACE-001", "PIPE_MTE2 Write", "PIPE_V Read"),
        ("store_wait", "AI-RACE-002", "PIPE_MTE3 Read", "PIPE_V Write"),
        ("free_wait", "AI-RACE-002", "PIPE_V Read", "PIPE_MTE2 Write"),
    ],
)
def test_missing_wait_is_a_race_with_both_lines(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    missing: str,
    code: str,
    older: str,
    newer: str,
) -> None:
    result = launch(double_kernel(**{missing: False}), data(rng))
    races = [f for f in result.errors if f.code == code]
    assert races, result.record.findings
    first, second = races[0].accesses
    assert older in str(first)
    assert newer in str(second)
    assert first.loc.file == second.loc.file == __file__
    assert first.loc.line != second.loc.line


def test_late_schedule_shows_the_missing_wait_as_a_wrong_number(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = data(rng)
    eager = launch(double_kernel(load_wait=False), x, schedule=("eager", 0))
    late = launch(double_kernel(load_wait=False), x, schedule=("late", 0))
    np.testing.assert_array_equal(eager.outputs[0], x + x)
    assert not np.array_equal(late.outputs[0], x + x)


def handover_kernel(
    *, data_wait: bool = True, credit_wait: bool = True, signal: bool = True
) -> Any:
    """The cube core multiplies into a slot, the vector cores read it and return a credit."""

    @tilelang.jit(out_idx=[2], workspace_idx=[3])
    def factory() -> Any:
        @T.prim_func
        def handover(
            a: T.Tensor((TILES, 16, 16), "float16"),
            b: T.Tensor((16, 16), "float16"),
            out: T.Tensor((TILES, 16, 16), "float32"),
            workspace: T.Tensor((16, 16), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a_l1 = T.alloc_L1([16, 16], "float16")
                b_l1 = T.alloc_L1([16, 16], "float16")
                c_l0 = T.alloc_L0C([16, 16], "float32")
                tile = T.alloc_ub([8, 16], "float32")
                with T.Scope("C"):
                    T.copy(b, b_l1)
                    for i in T.serial(TILES):
                        T.copy(a[i, :, :], a_l1)
                        T.barrier_all()
                        T.gemm_v0(a_l1, b_l1, c_l0, init=True)
                        T.barrier_all()
                        if i > 0:
                            if credit_wait:
                                T.wait_cross_flag(1)
                        T.copy(c_l0, workspace)
                        T.barrier_all()
                        if signal:
                            T.set_cross_flag("FIX", 0)
                    if credit_wait:
                        T.wait_cross_flag(1)
                with T.Scope("V"):
                    for i in T.serial(TILES):
                        if data_wait:
                            T.wait_cross_flag(0)
                        T.copy(workspace[vid * 8 : vid * 8 + 8, :], tile)
                        T.barrier_all()
                        T.set_cross_flag("MTE2", 1)
                        T.copy(tile, out[i, vid * 8 : vid * 8 + 8, :])
                        T.barrier_all()

        return handover

    return factory()


def handover_data(rng: np.random.Generator) -> tuple[Any, Any]:
    a = rng.standard_normal((TILES, 16, 16)).astype(np.float16)
    return a, rng.standard_normal((16, 16)).astype(np.float16)


def test_handover_with_credit_is_right_and_silent(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    a, b = handover_data(rng)
    result = launch(handover_kernel(), a, b)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-5, atol=1e-5)
    assert result.record.findings == ()


@pytest.mark.parametrize(
    ("missing", "code"), [("data_wait", "AI-RACE-001"), ("credit_wait", "AI-RACE-002")]
)
def test_missing_cross_core_wait_is_a_race_in_global_memory(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    missing: str,
    code: str,
) -> None:
    result = launch(handover_kernel(**{missing: False}), *handover_data(rng))
    # Without the wait the writer may come second too, so the pair can appear the other way round.
    races = [f for f in result.errors if f.code.startswith("AI-RACE")]
    assert races, result.record.findings
    sides = {(s.core[:3], s.pipe) for s in races[0].accesses}
    assert sides == {("aic", "FIX"), ("aiv", "MTE2")}
    assert races[0].accesses[0].tensor == "workspace"
    if schedule[0] == "eager":
        assert code in result.codes


def test_missing_signal_is_a_deadlock_that_names_every_core(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    result = launch(handover_kernel(signal=False), *handover_data(rng))
    (deadlock,) = [f for f in result.errors if f.code == "AI-SYNC-002"]
    for core in ("aic", "aiv0", "aiv1"):
        assert any(row.startswith(f"block 0 {core}: waits for") for row in deadlock.details)
    assert sum(__file__ in row for row in deadlock.details if "waits for" in row) == 3


def flags_kernel(*, wait: int, set_: int) -> Any:
    @tilelang.jit(out_idx=[0])
    def factory() -> Any:
        @T.prim_func
        def flags(y: T.Tensor((16, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16, 64], "float32")
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    for _i in range(set_):
                        T.set_flag("v", "mte3", 1)
                    for _i in range(wait):
                        T.wait_flag("v", "mte3", 1)
                    T.barrier_all()
                    T.copy(a, y)

        return flags

    return factory()


@pytest.mark.parametrize(
    ("set_", "wait", "expected"),
    [
        (1, 1, set()),
        (1, 2, {"AI-SYNC-001", "AI-SYNC-002"}),
        (2, 2, {"AI-SYNC-004"}),
        (1, 0, {"AI-SYNC-003"}),
    ],
)
def test_unpaired_flags(
    launch: Callable[..., Any],
    schedule: tuple[str, int],
    set_: int,
    wait: int,
    expected: set[str],
) -> None:
    result = launch(flags_kernel(set_=set_, wait=wait))
    # Only a schedule with asynchronous pipes can hang on a flag within a core.
    if schedule[0] == "eager":
        expected = expected - {"AI-SYNC-002"}
    assert result.codes == expected


def shared_rows(*, by_block: bool, again: bool = False) -> Any:
    """Every block writes the same rows, reads them, and stores a row of its own."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def blocks(
            x: T.Tensor((16, 64), "float32"),
            y: T.Tensor((4, 16, 64), "float32"),
            w: T.Tensor((16, 64), "float32"),
        ):
            with T.Kernel(4, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([16, 64], "float32")
                with T.Scope("V"):
                    T.copy(x, a)
                    T.barrier_all()
                    if again:
                        T.tile.add(a, a, 1.0)
                        T.barrier_all()
                        T.copy(a, w)
                        T.barrier_all()
                        T.tile.sub(a, a, 1.0)
                        T.barrier_all()
                    if by_block:
                        T.tile.add(a, a, T.cast(cid, "float32"))
                        T.barrier_all()
                    T.copy(a, w)
                    T.barrier_all()
                    T.copy(w, a)
                    T.barrier_all()
                    T.copy(a, y[cid, :, :])

        return blocks

    return factory()


def test_equal_bytes_from_several_blocks_are_worth_a_warning(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (16, 64)).astype(np.float32)
    (finding,) = launch(shared_rows(by_block=False), x).record.findings
    assert (finding.code, finding.severity) == ("AI-RACE-004", "warning")
    assert {a.kind for a in finding.accesses} == {"Write"}


@pytest.mark.parametrize("change", [{"by_block": True}, {"by_block": False, "again": True}])
def test_bytes_that_differ_between_blocks_or_in_time_are_errors(
    launch: Callable[..., Any], rng: np.random.Generator, change: dict[str, bool]
) -> None:
    x = rng.integers(-9, 9, (16, 64)).astype(np.float32)
    result = launch(shared_rows(**change), x)
    assert {f.code for f in result.errors} == {"AI-RACE-001", "AI-RACE-002", "AI-RACE-003"}
