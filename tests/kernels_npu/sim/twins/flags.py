"""Mistakes in the flags and barriers of one core."""

from __future__ import annotations

from typing import Any

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import floats, twin

TILES, N = 6, 64


@twin("AI-RACE-001", inputs=floats(TILES, N), expected=lambda x: x + x)
def load_without_wait(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([TILES, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)  # named
                if not broken:
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                T.tile.add(a, a, a)  # named
                T.barrier_all()
                T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-001", inputs=floats(TILES, N), expected=lambda x: x + x)
def store_without_wait(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([TILES, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                T.barrier_all()
                T.tile.add(a, a, a)  # named
                if not broken:
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                T.copy(a, y)  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-002", inputs=floats(TILES, N), expected=lambda x: x[0::2] * x[1::2])
def double_buffer_without_credit(broken: bool) -> Any:
    """Slot `b` is loaded for the next pair while the vector unit may still read it."""

    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES // 2, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            b = T.alloc_ub([1, N], "float32")
            c = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.set_flag("v", "mte2", 0)
                if not broken:
                    T.set_flag("v", "mte2", 1)
                T.set_flag("mte3", "v", 2)
                for i in T.serial(TILES // 2):
                    T.wait_flag("v", "mte2", 0)
                    T.copy(x[i * 2, :], a)
                    T.set_flag("mte2", "v", 0)
                    if not broken:
                        T.wait_flag("v", "mte2", 1)
                    T.copy(x[i * 2 + 1, :], b)  # named
                    T.set_flag("mte2", "v", 1)
                    T.wait_flag("mte3", "v", 2)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.mul(c, a, 1.0)
                    T.set_flag("v", "mte2", 0)
                    T.wait_flag("mte2", "v", 1)
                    T.tile.mul(c, c, b)  # named
                    if not broken:
                        T.set_flag("v", "mte2", 1)
                    T.set_flag("v", "mte3", 2)
                    T.wait_flag("v", "mte3", 2)
                    T.copy(c, y[i, :])
                    T.set_flag("mte3", "v", 2)
                T.wait_flag("v", "mte2", 0)
                if not broken:
                    T.wait_flag("v", "mte2", 1)
                T.wait_flag("mte3", "v", 2)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-004", inputs=floats(TILES, N), expected=lambda x: x + x)
def swapped_event_ids(broken: bool) -> Any:
    """Each slot waits for the other one's load, so a slot's flag is set again before its wait."""
    other = 1 if broken else 0

    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([2, N], "float32")
            b = T.alloc_ub([2, N], "float32")
            with T.Scope("V"):
                for i in T.serial(2):
                    T.copy(x[i, :], a[i, :])
                    T.set_flag("mte2", "v", i)
                    T.set_flag("mte3", "v", i)
                for i in T.serial(TILES):
                    T.wait_flag("mte2", "v", (i + other) % 2)
                    T.wait_flag("mte3", "v", i % 2)
                    T.tile.add(b[i % 2, :], a[i % 2, :], a[i % 2, :])
                    T.set_flag("v", "mte2", 0)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(b[i % 2, :], y[i, :])
                    T.set_flag("mte3", "v", i % 2)
                    T.wait_flag("v", "mte2", 0)
                    if i + 2 < TILES:
                        T.copy(x[i + 2, :], a[i % 2, :])
                        T.set_flag("mte2", "v", i % 2)  # named
                for i in T.serial(2):
                    T.wait_flag("mte3", "v", i)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-001", inputs=floats(1, N), expected=lambda x: x + x)
def flag_in_the_wrong_direction(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                if broken:
                    T.set_flag("v", "mte2", 0)
                else:
                    T.set_flag("mte2", "v", 0)
                T.wait_flag("mte2", "v", 0)  # named
                T.tile.add(a, a, a)
                T.barrier_all()
                T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-003", inputs=floats(1, N), expected=lambda x: x + x)
def flag_left_set(broken: bool) -> Any:
    """The credit of the last tile is not drained: the next kernel finds it set."""

    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                T.set_flag("mte2", "v", 0)
                T.wait_flag("mte2", "v", 0)
                T.tile.add(a, a, a)
                T.set_flag("v", "mte3", 1)
                T.wait_flag("v", "mte3", 1)
                T.copy(a, y)
                if broken:
                    T.set_flag("v", "mte2", 0)  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-004", inputs=floats(TILES, N), expected=lambda x: x + x)
def flag_set_twice(broken: bool) -> Any:
    """A flag of the hardware is one bit: the second set is lost."""

    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([TILES, N], "float32")
            with T.Scope("V"):
                for i in T.serial(TILES):
                    T.copy(x[i, :], a[i, :])
                    if broken:
                        T.set_flag("mte2", "v", 0)  # named
                if not broken:
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                for i in T.serial(TILES):
                    if broken:
                        T.wait_flag("mte2", "v", 0)
                    T.tile.add(a[i, :], a[i, :], a[i, :])
                T.set_flag("v", "mte3", 0)
                T.wait_flag("v", "mte3", 0)
                T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-007", inputs=floats(1, N), expected=lambda x: x + x)
def event_id_out_of_range(broken: bool) -> Any:
    slots = 17 if broken else 1

    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                for i in T.serial(slots - 1, slots):
                    T.set_flag("mte2", "v", i)  # named
                    T.wait_flag("mte2", "v", i)
                T.tile.add(a, a, a)
                T.barrier_all()
                T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-001", inputs=floats(TILES, N), expected=lambda x: x + x)
def barrier_lost_in_one_branch(broken: bool) -> Any:
    """One branch has the barrier, the other one lost it.

    Vector instructions are ordered by the device's compiler, also over branches; pipes are not.
    """

    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                for i in T.serial(TILES):
                    if i % 2 == 0:
                        T.copy(x[i, :], a)
                        T.barrier_all()
                    else:
                        T.copy(x[TILES - i, :], a)  # named
                        if not broken:
                            T.barrier_all()
                    T.tile.add(a, a, a)  # named
                    T.barrier_all()
                    if i % 2 == 0:
                        T.copy(a, y[i, :])
                    else:
                        T.copy(a, y[TILES - i, :])
                    T.barrier_all()

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-001", inputs=floats(1, N), expected=lambda x: x + x)
def barrier_of_the_wrong_pipe(broken: bool) -> Any:
    pipe = "v" if broken else "all"

    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                T.barrier_all()
                T.tile.add(a, a, a)  # named
                T.pipe_barrier(pipe)
                T.copy(a, y)  # named

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SYNC-011", inputs=floats(1, N), expected=lambda x: x + x)
def barrier_that_orders_nothing(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)
                T.barrier_all()
                if broken:
                    T.barrier_all()  # named
                T.tile.add(a, a, a)
                T.barrier_all()
                T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-RACE-001", inputs=floats(1, N), expected=lambda x: x + x[0, 3])
def element_read_before_the_load(broken: bool) -> Any:
    """The vector unit waits for the load, but it is the scalar unit that reads first."""
    unit = "v" if broken else "s"

    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            b = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x, a)  # named
                T.set_flag("mte2", unit, 0)
                T.wait_flag("mte2", unit, 0)
                shift = a[0, 3]  # named
                T.tile.add(b, a, shift)
                T.set_flag("v", "mte3", 0)
                T.wait_flag("v", "mte3", 0)
                T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1])
