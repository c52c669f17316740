"""Order between cores and blocks: all modes of flags, `sync_all`, redundant vector cores."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

BLOCKS, N = 4, 64


def exchange(kind: str, *, barrier: bool = True, target: str = "ascendc") -> Any:
    """Each block writes its row of a workspace, all meet, each reads its neighbour's row."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2], target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((BLOCKS, 2, N), "float32"),
            y: T.Tensor((BLOCKS, 2, N), "float32"),
            w: T.Tensor((BLOCKS, 2, N), "float32"),
        ):
            with T.Kernel(BLOCKS, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, N], "float32")
                if kind == "sync_all":
                    with T.Scope("C"):
                        if barrier:
                            T.sync_all()
                with T.Scope("V"):
                    T.copy(x[cid, vid, :], a)
                    T.barrier_all()
                    T.copy(a, w[cid, vid, :])
                    T.barrier_all()
                    if barrier:
                        if kind == "sync_all":
                            T.sync_all()
                        else:
                            T.set_cross_flag("MTE3", 3, mode=0 if kind == "mode 0" else 1)
                            T.wait_cross_flag(3)
                    if kind == "mode 1":
                        T.copy(w[cid, 1 - vid, :], a)
                    else:
                        T.copy(w[(cid + 1) % BLOCKS, 1 - vid, :], a)
                    T.barrier_all()
                    T.copy(a, y[cid, vid, :])

        return kernel

    return factory()


@pytest.mark.parametrize("kind", ["sync_all", "mode 0", "mode 1"])
def test_all_blocks_meet(agreeing: Callable[..., Any], rng: np.random.Generator, kind: str) -> None:
    x = rng.standard_normal((BLOCKS, 2, N), dtype=np.float32)
    expected = x[:, ::-1] if kind == "mode 1" else np.roll(x, -1, axis=0)[:, ::-1]
    np.testing.assert_array_equal(agreeing(exchange(kind), x)[0], expected)


@pytest.mark.parametrize("kind", ["sync_all", "mode 0", "mode 1"])
def test_without_meeting_it_is_a_race(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int], kind: str
) -> None:
    x = rng.standard_normal((BLOCKS, 2, N), dtype=np.float32)
    assert launch(exchange(kind), x).record.findings == ()
    result = launch(exchange(kind, barrier=False), x)
    races = [f for f in result.errors if f.code.startswith("AI-RACE")]
    assert races
    first, second = races[0].accesses
    assert {first.kind, second.kind} == {"Read", "Write"}
    assert first.tensor == second.tensor == "w"
    assert (first.block == second.block) is (kind == "mode 1")


def barrier_within(*, wait: bool) -> Any:
    """`sync_all` orders the blocks but not the pipes that start after it."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((2, N), "float32"),
            y: T.Tensor((2, N), "float32"),
            w: T.Tensor((2, N), "float32"),
        ):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                with T.Scope("C"):
                    T.sync_all()
                with T.Scope("V"):
                    T.copy(x[cid, :], a)
                    T.barrier_all()
                    T.copy(a, w[cid, :])
                    T.sync_all()
                    T.copy(w[1 - cid, :], a)
                    if wait:
                        T.set_flag("mte2", "v", 0)
                        T.wait_flag("mte2", "v", 0)
                    T.tile.add(b, a, a)
                    T.barrier_all()
                    T.copy(b, y[cid, :])

        return kernel

    return factory()


def test_pipes_within_a_block_are_still_checked_after_sync_all(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    clean = launch(barrier_within(wait=True), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0], 2 * x[::-1])
    twin = launch(barrier_within(wait=False), x)
    assert [f.code for f in twin.errors] == ["AI-RACE-001"]
    assert twin.errors[0].accesses[0].memory == "UB"


def hidden_by_other_blocks() -> Any:
    """Block 1 sets more flags than block 0; what it knows says nothing about block 0's pipes."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((2, N), "float32"),
            y: T.Tensor((2, N), "float32"),
            w: T.Tensor((2, N), "float32"),
        ):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    T.tile.fill(b, 1.0)
                    T.barrier_all()
                    if cid == 1:
                        for _i in T.serial(20):
                            T.set_flag("mte2", "mte3", 0)
                            T.wait_flag("mte2", "mte3", 0)
                    T.copy(x[cid, :], a)
                    T.set_cross_flag("MTE3", 0, mode=0)
                    T.wait_cross_flag(0)
                    if cid == 1:
                        T.barrier_all()
                    T.tile.add(b, a, a)
                    T.barrier_all()
                    T.copy(b, y[cid, :])

        return kernel

    return factory()


def test_a_flag_of_all_blocks_does_not_hide_a_race_within_one(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    result = launch(hidden_by_other_blocks(), x)
    assert [f.code for f in result.errors] == ["AI-RACE-001"]
    assert {a.block for a in result.errors[0].accesses} == {0}


def one_sided(target: str, *, cube: bool) -> Any:
    @tilelang.jit(out_idx=[0], target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((4, N), "float32")):
            with T.Kernel(4, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                if cube:
                    with T.Scope("C"):
                        T.sync_all()
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    T.barrier_all()
                    T.copy(a, y[cid, :])
                    T.sync_all()

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("target", "cube", "expected"),
    [
        ("ascendc", True, set()),
        ("ascendc", False, {"AI-SYNC-009"}),
        ("pto", False, set()),
    ],
)
def test_sync_all_of_one_core_type(
    launch: Callable[..., Any], target: str, cube: bool, expected: set[str]
) -> None:
    assert launch(one_sided(target, cube=cube)).codes == expected


def uneven(blocks: int) -> Any:
    """Block 0 calls `sync_all` once more than the others."""

    @tilelang.jit(out_idx=[0])
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((blocks, N), "float32")):
            with T.Kernel(blocks, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                T.tile.fill(a, 1.0)
                T.barrier_all()
                T.copy(a, y[cid, :])
                T.sync_all()
                if cid == 0:
                    T.sync_all()

        return kernel

    return factory()


def test_uneven_sync_all_is_a_deadlock(
    launch: Callable[..., Any], schedule: tuple[str, int]
) -> None:
    (finding,) = launch(uneven(3)).errors
    assert finding.code == "AI-SYNC-002"
    assert any(row.startswith("block 0 aiv0: waits for sync_all") for row in finding.details)
    assert "block 1 aiv0: finished" in finding.details


def quorum(setters: int) -> Any:
    """The cube waits for both vector cores; only `setters` of them set."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16, 16), "float16"), y: T.Tensor((16, 16), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a = T.alloc_L1([16, 16], "float16")
                c = T.alloc_L0C([16, 16], "float32")
                with T.Scope("V"):
                    if vid < setters:
                        T.set_cross_flag("MTE3", 2)
                with T.Scope("C"):
                    T.wait_cross_flag(2)
                    T.copy(x, a)
                    T.barrier_all()
                    T.gemm_v0(a, a, c, init=True)
                    T.barrier_all()
                    T.copy(c, y)

        return kernel

    return factory()


def test_cube_waits_for_both_vector_cores(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((16, 16)).astype(np.float16)
    assert launch(quorum(2), x).record.findings == ()
    result = launch(quorum(1), x)
    assert "AI-SYNC-002" in result.codes
    assert any("aic: waits for cross-core flag 2" in row for row in result.errors[0].details)


def oversupply(sets: int) -> Any:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16, 16), "float16"), y: T.Tensor((16, 16), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a = T.alloc_L1([16, 16], "float16")
                c = T.alloc_L0C([16, 16], "float32")
                u = T.alloc_ub([8, 16], "float32")
                with T.Scope("C"):
                    T.copy(x, a)
                    T.barrier_all()
                    T.gemm_v0(a, a, c, init=True)
                    T.barrier_all()
                    T.copy(c, y)
                    for _i in T.serial(sets):
                        T.set_cross_flag("FIX", 2)
                with T.Scope("V"):
                    for _i in T.serial(sets):
                        T.wait_cross_flag(2)
                    T.copy(y[vid * 8 : vid * 8 + 8, :], u)

        return kernel

    return factory()


@pytest.mark.parametrize(("sets", "expected"), [(1, set()), (16, {"AI-SYNC-005"})])
def test_counter_limit(
    launch: Callable[..., Any], sets: int, expected: set[str], schedule: tuple[str, int]
) -> None:
    x = np.ones((16, 16), np.float16)
    codes = {f.code for f in launch(oversupply(sets), x).errors}
    assert codes == expected


def stuck(hang: bool) -> Any:
    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(h: T.int32, x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    T.copy(x, a)
                    if h > 0:
                        T.wait_flag("mte2", "v", 5)
                    T.tile.add(a, a, 1.0)
                    T.barrier_all()
                    T.copy(a, y)

        return kernel

    return factory()


def test_a_deadlock_leaves_nothing_behind_for_the_next_launch(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    kernel = stuck(True)
    first, second = (rng.standard_normal((1, N), dtype=np.float32) for _ in range(2))
    assert "AI-SYNC-002" in launch(kernel, 1, first, schedule=("late", 0)).codes
    # The hung launch's pending instructions must not run now; a race (no wait) is all there is.
    result = launch(kernel, 0, second, schedule=("late", 0))
    assert {f.code for f in result.errors} == {"AI-RACE-001"}
