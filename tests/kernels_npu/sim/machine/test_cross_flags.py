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


def both_vector_cores(*, in_place: bool, split: bool) -> Any:
    """A kernel that does not ask for `vid`: both vector cores do the same work."""

    @tilelang.jit(pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, :], a)
                T.tile.add(a, a, 1.0)
                if split:
                    T.tile.add(a, a, vid)
                if in_place:
                    T.copy(a, x[cid, :])
                else:
                    T.copy(a, y[cid, :])

        return kernel

    return factory()


def test_the_same_bytes_from_both_vector_cores_are_no_race(
    agreeing: Callable[..., Any], launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x, y = (rng.standard_normal((2, N), dtype=np.float32) for _ in range(2))
    np.testing.assert_array_equal(
        agreeing(both_vector_cores(in_place=False, split=False), x, y)[1], x + 1
    )
    different = launch(both_vector_cores(in_place=False, split=True), x.copy(), y)
    assert {f.code for f in different.errors} == {"AI-RACE-003"}
    doubled = launch(both_vector_cores(in_place=True, split=False), x.copy(), y)
    assert {"AI-RACE-001", "AI-RACE-002"} & {f.code for f in doubled.errors}


def waits_on_scalar() -> Any:
    """The scalar unit waits for a load, under a schedule that may hold a core back."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 8), "int32"), y: T.Tensor((8, 8), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 8], "int32")
                b = T.alloc_ub([8, 8], "int32")
                with T.Scope("V"):
                    for i in T.serial(8):
                        T.copy(x[i, :], a[i, :])
                        T.set_flag("mte2", "s", 1)
                        T.wait_flag("mte2", "s", 1)
                        for j in T.serial(8):
                            b[i, j] = a[i, j] + 1
                    T.set_flag("s", "mte3", 0)
                    T.wait_flag("s", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize("seed", range(8))
def test_random_schedule_does_not_lose_flags_for_the_scalar_unit(
    launch: Callable[..., Any], rng: np.random.Generator, seed: int
) -> None:
    x = rng.integers(0, 99, (8, 8)).astype(np.int32)
    result = launch(waits_on_scalar(), x, schedule=("random", seed))
    assert result.record.findings == ()
    np.testing.assert_array_equal(result.outputs[0], x + 1)


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


def partly_split(*, by_vid: bool) -> Any:
    """Both vector cores store one row of a workspace; each stores its own row of the output."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2], pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((2, N), "float32"),
            y: T.Tensor((4, N), "float32"),
            w: T.Tensor((2, N), "float32"),
        ):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, :], a)
                for i in T.serial(2):
                    T.tile.add(a, a, i)
                shift = vid + 1
                T.tile.mul(b, a, shift)
                if by_vid:
                    T.tile.add(a, a, b)
                T.copy(a, w[cid, :])
                T.copy(b, y[cid * 2 + vid, :])

        return kernel

    return factory()


def test_what_does_not_depend_on_vid_is_the_same_work(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    clean = launch(partly_split(by_vid=False), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][1::2], 2 * (x + 1))
    assert {f.code for f in launch(partly_split(by_vid=True), x).errors} == {"AI-RACE-003"}


def scalar_between(*, read: bool, loaded: bool) -> Any:
    """The scalar unit reads what the vector unit made, then the buffer is loaded again."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                total = T.alloc_var("float32", init=0.0)
                with T.Scope("V"):
                    T.copy(x[0, :], a)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.add(b, a, a)
                    if read:
                        total = b[0, 3]
                    if loaded:
                        T.copy(x[1, :], a)
                        T.set_flag("mte2", "v", 0)
                        T.wait_flag("mte2", "v", 0)
                        T.tile.add(b, a, total)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


def test_scalar_read_waits_for_the_vector_unit(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    clean = launch(scalar_between(read=True, loaded=True), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][0], x[1] + 2 * x[0, 3])
    twin = launch(scalar_between(read=False, loaded=True), x)
    assert [f.code for f in twin.errors] == ["AI-RACE-002"]


def stored_element(*, flag: bool, load_flag: bool = True) -> Any:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((1, N), "int32"), y: T.Tensor((1, N), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "int32")
                b = T.alloc_ub([1, N], "int32")
                with T.Scope("V"):
                    T.copy(x, a)
                    if load_flag:
                        T.set_flag("mte2", "s", 0)
                        T.wait_flag("mte2", "s", 0)
                    for i in T.serial(N):
                        b[0, i] = a[0, i] + 1
                    if flag:
                        T.set_flag("s", "mte3", 0)
                        T.wait_flag("s", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


def test_elements_stored_without_a_flag_are_worth_a_warning(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.integers(0, 9, (1, N)).astype(np.int32)
    assert launch(stored_element(flag=True), x).record.findings == ()
    result = launch(stored_element(flag=False), x)
    assert [(f.code, f.severity) for f in result.record.findings] == [("AI-RACE-001", "warning")]
    assert 'T.set_flag("s", "mte3", 0)' in result.record.findings[0].fix
    np.testing.assert_array_equal(result.outputs[0], x + 1)


def test_elements_read_before_the_load_are_an_error(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.integers(0, 9, (1, N)).astype(np.int32)
    result = launch(stored_element(flag=True, load_flag=False), x)
    assert [f.code for f in result.errors] == ["AI-RACE-001"]
    if schedule[0] == "late":
        assert not np.array_equal(result.outputs[0], x + 1)
