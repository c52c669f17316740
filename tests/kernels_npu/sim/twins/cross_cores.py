"""Mistakes between the cores of a block, and between blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import floats, twin

TILES, BLOCKS, N = 5, 4, 64


def factors(rng: np.random.Generator) -> tuple[Any, ...]:
    """Small whole numbers, whose products are exact."""
    a = rng.integers(-4, 5, (TILES, 16, 16)).astype(np.float16)
    return a, rng.integers(-4, 5, (16, 16)).astype(np.float16)


def product(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32)


@twin("AI-RACE-001", "AI-RACE-002", inputs=factors, expected=product)
def workspace_read_without_flag(broken: bool) -> Any:
    """The vector cores do not wait for what the cube writes."""

    @T.prim_func
    def kernel(
        a: T.Tensor((TILES, 16, 16), "float16"),
        b: T.Tensor((16, 16), "float16"),
        y: T.Tensor((TILES, 16, 16), "float32"),
        workspace: T.Tensor((TILES, 16, 16), "float32"),
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
                    T.copy(c_l0, workspace[i, :, :])  # named
                    T.barrier_all()
                if not broken:
                    T.set_cross_flag("FIX", 0)
            with T.Scope("V"):
                if not broken:
                    T.wait_cross_flag(0)
                for i in T.serial(TILES):
                    T.copy(workspace[i, vid * 8 : vid * 8 + 8, :], tile)  # named
                    T.barrier_all()
                    T.copy(tile, y[i, vid * 8 : vid * 8 + 8, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[2], workspace_idx=[3])


@twin("AI-RACE-001", "AI-RACE-002", inputs=factors, expected=product)
def workspace_slot_without_credit(broken: bool) -> Any:
    """The cube overwrites a slot that the vector cores may still read."""

    @T.prim_func
    def kernel(
        a: T.Tensor((TILES, 16, 16), "float16"),
        b: T.Tensor((16, 16), "float16"),
        y: T.Tensor((TILES, 16, 16), "float32"),
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
                    if not broken and i > 0:
                        T.wait_cross_flag(1)
                    T.copy(c_l0, workspace)  # named
                    T.barrier_all()
                    T.set_cross_flag("FIX", 0)
                if not broken:
                    T.wait_cross_flag(1)
            with T.Scope("V"):
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)
                    T.copy(workspace[vid * 8 : vid * 8 + 8, :], tile)  # named
                    T.barrier_all()
                    if not broken:
                        T.set_cross_flag("MTE2", 1)
                    T.copy(tile, y[i, vid * 8 : vid * 8 + 8, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[2], workspace_idx=[3])


@twin("AI-RACE-001", "AI-RACE-002", inputs=factors, expected=product)
def cross_flag_of_the_wrong_pipe(broken: bool) -> Any:
    """The flag says that MTE2 is done, but it is MTE3 that stores the data."""
    pipe = "MTE2" if broken else "MTE3"

    @T.prim_func
    def kernel(
        a: T.Tensor((TILES, 16, 16), "float16"),
        b: T.Tensor((16, 16), "float16"),
        y: T.Tensor((TILES, 16, 16), "float32"),
        workspace: T.Tensor((TILES, 16, 16), "float16"),
    ):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a_l1 = T.alloc_L1([16, 16], "float16")
            b_l1 = T.alloc_L1([16, 16], "float16")
            c_l0 = T.alloc_L0C([16, 16], "float32")
            tile = T.alloc_ub([16, 16], "float16")
            with T.Scope("V"):
                for i in T.serial(TILES):
                    if i > 0:
                        T.wait_flag("mte3", "mte2", 0)
                    T.copy(a[i, :, :], tile)
                    T.set_flag("mte2", "mte3", 0)
                    T.wait_flag("mte2", "mte3", 0)
                    T.copy(tile, workspace[i, :, :])  # named
                    if i < TILES - 1:
                        T.set_flag("mte3", "mte2", 0)
                T.set_cross_flag(pipe, 0)
            with T.Scope("C"):
                T.copy(b, b_l1)
                T.wait_cross_flag(0)
                for i in T.serial(TILES):
                    T.copy(workspace[i, :, :], a_l1)  # named
                    T.barrier_all()
                    T.gemm_v0(a_l1, b_l1, c_l0, init=True)
                    T.barrier_all()
                    T.copy(c_l0, y[i, :, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[2], workspace_idx=[3])


@twin("AI-SYNC-002", inputs=floats(TILES, 2, N), expected=lambda x: x + 1)
def flag_set_by_one_vector_core(broken: bool) -> Any:
    """The cube waits for both vector cores; one of them never sets the flag."""

    @T.prim_func
    def kernel(x: T.Tensor((TILES, 2, N), "float32"), y: T.Tensor((TILES, 2, N), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            tile = T.alloc_ub([1, N], "float32")
            with T.Scope("C"):
                for i in T.serial(TILES):
                    if i > 0:
                        T.wait_cross_flag(1)  # named
                    T.set_cross_flag("FIX", 0)
            with T.Scope("V"):
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)
                    if i < TILES - 1:
                        if not broken or vid == 0:
                            T.set_cross_flag("V", 1)  # named
                    T.copy(x[i, vid, :], tile)
                    T.barrier_all()
                    T.tile.add(tile, tile, 1.0)
                    T.barrier_all()
                    T.copy(tile, y[i, vid, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-002", inputs=floats(TILES, 2, N), expected=lambda x: x + 1)
def swapped_cross_flag_ids(broken: bool) -> Any:
    """A core waits for the flag that it sets itself."""
    data = 1 if broken else 0

    @T.prim_func
    def kernel(x: T.Tensor((TILES, 2, N), "float32"), y: T.Tensor((TILES, 2, N), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            tile = T.alloc_ub([1, N], "float32")
            with T.Scope("C"):
                for i in T.serial(TILES):
                    T.set_cross_flag("FIX", data)
                    if i < TILES - 1:
                        T.wait_cross_flag(1)  # named
            with T.Scope("V"):
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)  # named
                    if i < TILES - 1:
                        T.set_cross_flag("V", 1)
                    T.copy(x[i, vid, :], tile)
                    T.barrier_all()
                    T.tile.add(tile, tile, 1.0)
                    T.barrier_all()
                    T.copy(tile, y[i, vid, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-002", inputs=floats(TILES, 2, N), expected=lambda x: x + 1)
def both_cores_wait_first(broken: bool) -> Any:
    """Each side waits for the other before it sets what the other waits for."""

    @T.prim_func
    def kernel(x: T.Tensor((TILES, 2, N), "float32"), y: T.Tensor((TILES, 2, N), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            tile = T.alloc_ub([1, N], "float32")
            with T.Scope("C"):
                for _i in T.serial(TILES):
                    if broken:
                        T.wait_cross_flag(1)  # named
                    T.set_cross_flag("FIX", 0)
                    if not broken:
                        T.wait_cross_flag(1)
            with T.Scope("V"):
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)  # named
                    T.set_cross_flag("V", 1)
                    T.copy(x[i, vid, :], tile)
                    T.barrier_all()
                    T.tile.add(tile, tile, 1.0)
                    T.barrier_all()
                    T.copy(tile, y[i, vid, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-005", inputs=floats(TILES, 2, N), expected=lambda x: x + 1)
def more_sets_than_the_counter_holds(broken: bool) -> Any:
    """The cube never waits for the consumers and is many sets ahead of them."""
    sets = 16 if broken else 1

    @T.prim_func
    def kernel(x: T.Tensor((TILES, 2, N), "float32"), y: T.Tensor((TILES, 2, N), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            tile = T.alloc_ub([1, N], "float32")
            with T.Scope("C"):
                for i in T.serial(TILES):
                    for _j in T.serial(sets):
                        T.set_cross_flag("FIX", 0)  # named
                    if i < TILES - 1:
                        T.wait_cross_flag(1)
            with T.Scope("V"):
                for i in T.serial(TILES):
                    for _j in T.serial(sets):
                        T.wait_cross_flag(0)
                    if i < TILES - 1:
                        T.set_cross_flag("V", 1)
                    T.copy(x[i, vid, :], tile)
                    T.barrier_all()
                    T.tile.add(tile, tile, 1.0)
                    T.barrier_all()
                    T.copy(tile, y[i, vid, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-002", inputs=floats(2, N), expected=lambda x: x + x)
def flag_set_in_a_scope_that_never_runs_it(broken: bool) -> Any:
    """The store belongs to a vector core, but its signal stands in the cube's scope."""
    scope = "C" if broken else "V"

    @T.prim_func
    def kernel(
        x: T.Tensor((2, N), "float32"),
        y: T.Tensor((2, N), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x[vid, :], a)
                T.barrier_all()
                T.tile.add(a, a, a)
                T.barrier_all()
                T.copy(a, y[vid, :])
            with T.Scope(scope):
                T.set_cross_flag("MTE3", 2)
            with T.Scope("C"):
                T.wait_cross_flag(2)  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-009", inputs=floats(BLOCKS, N), expected=lambda x: np.roll(x, -1, axis=0))
def barrier_of_all_without_the_cubes(broken: bool) -> Any:
    """On ascendc `T.sync_all` waits for the cores of both types."""

    @T.prim_func
    def kernel(
        x: T.Tensor((BLOCKS, N), "float32"),
        y: T.Tensor((BLOCKS, N), "float32"),
        w: T.Tensor((BLOCKS, N), "float32"),
    ):
        with T.Kernel(BLOCKS, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            if not broken:
                with T.Scope("C"):
                    T.sync_all()
            with T.Scope("V"):
                T.copy(x[cid, :], a)
                T.barrier_all()
                T.copy(a, w[cid, :])
                T.sync_all()  # named
                T.copy(w[(cid + 1) % BLOCKS, :], a)
                T.barrier_all()
                T.copy(a, y[cid, :])

    return tilelang.compile(kernel, out_idx=[1], workspace_idx=[2])


@twin("AI-RACE-001", inputs=floats(BLOCKS, N), expected=lambda x: np.roll(x, -1, axis=0))
def blocks_exchange_without_meeting(broken: bool) -> Any:
    """A block reads what another one writes; only a barrier of all cores orders them."""

    @T.prim_func
    def kernel(
        x: T.Tensor((BLOCKS, N), "float32"),
        y: T.Tensor((BLOCKS, N), "float32"),
        w: T.Tensor((BLOCKS, N), "float32"),
    ):
        with T.Kernel(BLOCKS, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x[cid, :], a)
                T.barrier_all()
                T.copy(a, w[cid, :])  # named
                T.barrier_all()
            if not broken:
                T.sync_all()
            with T.Scope("V"):
                T.copy(w[(cid + 1) % BLOCKS, :], a)  # named
                T.barrier_all()
                T.copy(a, y[cid, :])

    return tilelang.compile(kernel, out_idx=[1], workspace_idx=[2])


@twin("AI-RACE-003", inputs=floats(BLOCKS * 8, N), expected=lambda x: x)
def blocks_write_overlapping_rows(broken: bool) -> Any:
    stride = 6 if broken else 8

    @T.prim_func
    def kernel(
        x: T.Tensor((BLOCKS * 8, N), "float32"),
        y: T.Tensor((BLOCKS * 8, N), "float32"),
    ):
        with T.Kernel(BLOCKS, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([8, N], "float32")
            with T.Scope("V"):
                T.copy(x[cid * stride : cid * stride + 8, :], a)
                T.barrier_all()
                T.copy(a, y[cid * stride : cid * stride + 8, :])  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-003", inputs=floats(BLOCKS, N), expected=lambda x: x + x)
def workspace_shared_by_blocks(broken: bool) -> Any:
    """Every block uses the first slot of a workspace that has one for each."""

    @T.prim_func
    def kernel(
        x: T.Tensor((BLOCKS, N), "float32"),
        y: T.Tensor((BLOCKS, N), "float32"),
        w: T.Tensor((BLOCKS, N), "float32"),
    ):
        with T.Kernel(BLOCKS, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            slot = 0 if broken else cid
            with T.Scope("V"):
                T.copy(x[cid, :], a)
                T.barrier_all()
                T.copy(a, w[slot, :])  # named
                T.barrier_all()
                T.copy(w[slot, :], a)
                T.barrier_all()
                T.tile.add(a, a, a)
                T.barrier_all()
                T.copy(a, y[cid, :])

    return tilelang.compile(kernel, out_idx=[1], workspace_idx=[2])


@twin("AI-RACE-003", inputs=floats(2, N), expected=lambda x: x * np.array([[1.0], [2.0]], "f"))
def vector_cores_write_the_same_row(broken: bool) -> Any:
    """The rows are not shared out by `vid`, and the two cores disagree about their content."""

    @T.prim_func
    def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a = T.alloc_ub([1, N], "float32")
            row = 0 if broken else vid
            with T.Scope("V"):
                T.copy(x[row, :], a)
                T.barrier_all()
                T.tile.mul(a, a, vid + 1)
                T.barrier_all()
                T.copy(a, y[row, :])  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-008", inputs=floats(24, N), expected=lambda x: x)
def more_blocks_meet_than_there_are_cores(broken: bool) -> Any:
    """25 blocks wait for each other on a chip that runs 24 at a time."""
    blocks = 25 if broken else 24

    @T.prim_func
    def kernel(x: T.Tensor((24, N), "float32"), y: T.Tensor((24, N), "float32")):  # named
        with T.Kernel(blocks, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x[cid, :], a)
                T.barrier_all()
            T.sync_all()
            with T.Scope("V"):
                T.copy(a, y[cid, :])

    return tilelang.compile(kernel, out_idx=[1])
