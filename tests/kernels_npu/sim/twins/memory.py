"""Mistakes about on-chip memory: its size, hidden scratch, addresses, and what it holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import floats, twin

SYNCED = {"tl.ascend_auto_sync": True}
PLANNED = {**SYNCED, "tl.ascend_memory_planning": True}
N = 64


@twin("AI-MEM-001", inputs=floats(300, N), expected=lambda x: x + x)
def more_than_the_unified_buffer(broken: bool) -> Any:
    rows = 400 if broken else 300

    @T.prim_func
    def kernel(x: T.Tensor((300, N), "float32"), y: T.Tensor((300, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([rows, N], "float32")
            b = T.alloc_ub([rows, N], "float32")  # named
            T.copy(x, a[:300, :])
            T.tile.add(b[:300, :], a[:300, :], a[:300, :])
            T.copy(b[:300, :], y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-MEM-002", inputs=floats(300, N), expected=lambda x: (x + x) * x)
def live_buffers_exceed_the_unified_buffer(broken: bool) -> Any:
    """Planning reuses what is dead; three large tiles that live together do not fit."""

    @T.prim_func
    def kernel(x: T.Tensor((300, N), "float32"), y: T.Tensor((300, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([300, N], "float32")
            b = T.alloc_ub([300, N], "float32")
            c = T.alloc_ub([300, N], "float32")  # named
            T.copy(x, a)
            T.tile.add(b, a, a)
            if broken:
                T.tile.mul(c, b, a)
                T.tile.max(c, c, b)
                T.copy(c, y)
            else:
                T.tile.mul(b, b, a)
                T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=PLANNED)


@twin("AI-MEM-001", inputs=floats(64, 256), expected=lambda x: x * x)
def hidden_scratch_of_a_power(broken: bool) -> Any:
    """The buffers fit, the temporary that the library call needs beside them does not."""

    @T.prim_func
    def kernel(x: T.Tensor((64, 256), "float32"), y: T.Tensor((64, 256), "float32")):  # named
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([64, 256], "float32")
            b = T.alloc_ub([64, 256], "float32")
            T.copy(x, a)
            if broken:
                T.tile.fill(b, 2.0)
                T.tile.pow(b, a, b)
            else:
                T.tile.mul(b, a, a)
            T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-MEM-025", inputs=floats(8, N), expected=lambda x: x.sum(axis=1), exact=False)
def scratch_that_nobody_reserves(broken: bool) -> Any:
    """`sum_experiment` takes scratch of which the planner knows nothing."""

    @T.prim_func
    def kernel(x: T.Tensor((8, N), "float32"), y: T.Tensor((8,), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "float32")
            s = T.alloc_ub([8], "float32")
            T.copy(x, a)
            if broken:
                T.tile.sum_experiment(s, a, [8, N, N])  # named
            else:
                T.reduce_sum(a, s, dim=-1)
            T.copy(s, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-RACE-002", "AI-RACE-003", inputs=floats(2, N), expected=lambda x: x[:1] + x[1:])
def annotated_addresses_overlap(broken: bool) -> Any:
    """The second tile is loaded over the first one, which is still in use."""
    second = 128 if broken else 256

    @T.prim_func
    def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            b = T.alloc_ub([1, N], "float32")
            c = T.alloc_ub([1, N], "float32")
            T.annotate_address({a: 0, b: second, c: 512})
            with T.Scope("V"):
                T.copy(x[0, :], a)
                T.set_flag("mte2", "v", 0)
                T.wait_flag("mte2", "v", 0)
                T.tile.mul(c, a, 1.0)  # named
                T.copy(x[1, :], b)  # named
                T.set_flag("mte2", "v", 1)
                T.wait_flag("mte2", "v", 1)
                T.tile.add(c, c, b)
                T.barrier_all()
                T.copy(c, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-INIT-001", inputs=floats(8, N), expected=lambda x: x + x)
def stored_rows_that_were_never_loaded(broken: bool) -> Any:
    loaded = 7 if broken else 8

    @T.prim_func
    def kernel(x: T.Tensor((8, N), "float32"), y: T.Tensor((8, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "float32")
            T.copy(x[0:loaded, :], a[0:loaded, :])
            T.tile.add(a, a, a)
            T.copy(a, y)  # named

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-INIT-001", inputs=floats(8, N), expected=lambda x: x.sum(axis=1), exact=False)
def accumulator_never_cleared(broken: bool) -> Any:
    """`clear=False` adds to what the buffer held before."""
    clear = not broken

    @T.prim_func
    def kernel(x: T.Tensor((8, N), "float32"), y: T.Tensor((8,), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "float32")
            s = T.alloc_ub([8], "float32")
            T.copy(x, a)
            T.reduce_sum(a, s, dim=-1, clear=clear)
            T.copy(s, y)  # named

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


def halves(rng: np.random.Generator) -> tuple[Any, ...]:
    return tuple(rng.integers(-4, 5, (2, 32, 16)).astype(np.float16))


@twin("AI-INIT-001", inputs=halves, expected=lambda a, b: a.astype("f") @ b.T.astype("f"))
def product_added_to_nothing(broken: bool) -> Any:
    """The first product of a chain starts from what L0C held before."""
    start = not broken

    @T.prim_func
    def kernel(
        a: T.Tensor((32, 16), "float16"),
        b: T.Tensor((32, 16), "float16"),
        y: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a_l1 = T.alloc_L1([32, 16], "float16")
            b_l1 = T.alloc_L1([32, 16], "float16")
            c_l0 = T.alloc_L0C([32, 32], "float32")
            with T.Scope("C"):
                T.copy(a, a_l1)
                T.copy(b, b_l1)
                T.barrier_all()
                T.gemm_v0(a_l1, b_l1, c_l0, transpose_B=True, init=start)
                T.barrier_all()
                T.copy(c_l0, y)  # named

    return tilelang.compile(kernel, out_idx=[2])


def square(rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.integers(-4, 5, (16, 16)).astype(np.float16),)


def with_unit_corner(x: Any) -> Any:
    changed = x.copy()
    changed[0, 0] = 1
    return changed.astype("f") @ changed.astype("f")


@twin("AI-MEM-010", inputs=square, expected=with_unit_corner)
def element_stored_to_l1(broken: bool) -> Any:
    """An operand of a product lives in L1, where the device drops element stores."""

    @T.prim_func
    def kernel(
        x: T.Tensor((16, 16), "float16"),
        y: T.Tensor((16, 16), "float32"),
        workspace: T.Tensor((16, 16), "float16"),
    ):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            tile = T.alloc_ub([16, 16], "float16")
            operand = T.alloc_shared([16, 16], "float16")  # named
            result = T.alloc_L0C([16, 16], "float32")
            with T.Scope("V"):
                T.copy(x, tile)
                T.barrier_all()
                if not broken:
                    tile[0, 0] = 1.0
                    T.barrier_all()
                T.copy(tile, workspace)
                T.set_cross_flag("MTE3", 0)
            with T.Scope("C"):
                T.wait_cross_flag(0)
                T.copy(workspace, operand)
                T.barrier_all()
                if broken:
                    operand[0, 0] = 1.0
                T.gemm_v0(operand, operand, result, init=True)
                T.barrier_all()
                T.copy(result, y)

    return tilelang.compile(kernel, out_idx=[1], workspace_idx=[2])
