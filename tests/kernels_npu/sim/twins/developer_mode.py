"""Mistakes in kernels that leave work to the compiler's passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import floats, twin

SYNC = {"tl.ascend_auto_sync": True}
COMBINE = {**SYNC, "tl.ascend_memory_planning": True, "tl.ascend_auto_cv_combine": True}
CROSS = {"tl.ascend_auto_cross_core_sync": True}
N = 64


def factors(rng: np.random.Generator) -> tuple[Any, ...]:
    return tuple(rng.integers(-4, 5, (2, 32, 32)).astype(np.float16))


def doubled(a: Any, b: Any) -> Any:
    return 2 * (a.astype("f") @ b.astype("f"))


@twin("AI-SYNC-025", inputs=factors, expected=doubled)
def automatic_cross_flags_without_combine(broken: bool) -> Any:
    """The option is read by a pass that another option turns on; alone it does nothing."""
    configs = {**SYNC, **CROSS} if broken else {**COMBINE, **CROSS}

    @T.prim_func
    def kernel(  # named
        a: T.Tensor((32, 32), "float16"),
        b: T.Tensor((32, 32), "float16"),
        y: T.Tensor((32, 32), "float32"),
        workspace: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a_l1 = T.alloc_L1([32, 32], "float16")
            b_l1 = T.alloc_L1([32, 32], "float16")
            c_l0 = T.alloc_L0C([32, 32], "float32")
            tile = T.alloc_ub([16, 32], "float32")
            T.copy(a, a_l1)
            T.copy(b, b_l1)
            T.gemm_v0(a_l1, b_l1, c_l0, init=True)
            T.copy(c_l0, workspace)
            T.copy(workspace[vid * 16 : vid * 16 + 16, :], tile)
            T.tile.add(tile, tile, tile)
            T.copy(tile, y[vid * 16 : vid * 16 + 16, :])

    return tilelang.compile(kernel, out_idx=[2], workspace_idx=[3], pass_configs=configs)


@twin("AI-SRC-043", inputs=factors, expected=doubled)
def barrier_of_all_under_combine(broken: bool) -> Any:
    """`T.sync_all` makes the compiler's combine fail."""

    @T.prim_func
    def kernel(
        a: T.Tensor((32, 32), "float16"),
        b: T.Tensor((32, 32), "float16"),
        y: T.Tensor((32, 32), "float32"),
        workspace: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a_l1 = T.alloc_L1([32, 32], "float16")
            b_l1 = T.alloc_L1([32, 32], "float16")
            c_l0 = T.alloc_L0C([32, 32], "float32")
            tile = T.alloc_ub([16, 32], "float32")
            T.copy(a, a_l1)
            T.copy(b, b_l1)
            T.gemm_v0(a_l1, b_l1, c_l0, init=True)
            T.copy(c_l0, workspace)
            if broken:
                T.sync_all()  # named
            T.copy(workspace[vid * 16 : vid * 16 + 16, :], tile)
            T.tile.add(tile, tile, tile)
            T.copy(tile, y[vid * 16 : vid * 16 + 16, :])

    return tilelang.compile(
        kernel, out_idx=[2], workspace_idx=[3], pass_configs={**COMBINE, **CROSS}
    )


@twin("AI-SYNC-021", inputs=factors, expected=doubled)
def workspace_accesses_that_do_not_pair(broken: bool) -> Any:
    """The cube writes the workspace once, the vector cores read it twice."""

    @T.prim_func
    def kernel(
        a: T.Tensor((32, 32), "float16"),
        b: T.Tensor((32, 32), "float16"),
        y: T.Tensor((32, 32), "float32"),
        workspace: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a_l1 = T.alloc_L1([32, 32], "float16")
            b_l1 = T.alloc_L1([32, 32], "float16")
            c_l0 = T.alloc_L0C([32, 32], "float32")
            tile = T.alloc_ub([16, 32], "float32")
            again = T.alloc_ub([16, 32], "float32")
            T.copy(a, a_l1)
            T.copy(b, b_l1)
            T.gemm_v0(a_l1, b_l1, c_l0, init=True)
            T.copy(c_l0, workspace)
            T.copy(workspace[vid * 16 : vid * 16 + 16, :], tile)
            if broken:
                T.copy(workspace[vid * 16 : vid * 16 + 16, :], again)  # named
                T.tile.add(tile, tile, again)
            else:
                T.tile.add(tile, tile, tile)
            T.copy(tile, y[vid * 16 : vid * 16 + 16, :])

    return tilelang.compile(
        kernel, out_idx=[2], workspace_idx=[3], pass_configs={**COMBINE, **CROSS}
    )


@twin("AI-SYNC-012", inputs=floats(1, N), expected=lambda x: x + x)
def flags_beside_automatic_ones(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, N], "float32")
            T.copy(x, a)
            if broken:
                T.set_flag("mte2", "v", 0)  # named
                T.wait_flag("mte2", "v", 0)
            T.tile.add(a, a, a)
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNC)


@twin("AI-VID-002", inputs=floats(32, N), expected=lambda x: x / (1 + np.exp(-x)), exact=False)
def count_that_is_not_halved(broken: bool) -> Any:
    """With threads=2 each core holds half of the rows, but `silu` is told to do all."""

    @T.prim_func
    def kernel(x: T.Tensor((32, N), "float32"), y: T.Tensor((32, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=2) as _cid:
            a = T.alloc_ub([32, N], "float32")
            b = T.alloc_ub([32, N], "float32")
            T.copy(x, a)
            if broken:
                T.tile.silu(b, a)  # named
            else:
                T.tile.mul(b, a, -1.0)
                T.tile.exp(b, b)
                T.tile.add(b, b, 1.0)
                T.tile.div(b, a, b)
            T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNC)


@twin("AI-VID-003", inputs=floats(32, N), expected=lambda x: x + x)
def rows_that_are_halved_twice(broken: bool) -> Any:
    """The loop over rows is shared out already when the count of a row is halved as well."""

    @T.prim_func
    def kernel(x: T.Tensor((32, N), "float32"), y: T.Tensor((32, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=2) as _cid:
            a = T.alloc_ub([32, N], "float32")
            row = T.alloc_ub([1, N], "float32")
            T.copy(x, a)
            if broken:
                for i in T.serial(32):
                    T.tile.add(row, a[i, :], a[i, :])  # named
                    T.copy(row, a[i, :])
            else:
                T.tile.add(a, a, a)
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNC)


@twin("AI-SRC-071", inputs=floats(8), expected=lambda x: x.cumsum(dtype="f"), exact=False)
def sum_that_does_not_accumulate(broken: bool) -> Any:
    """A name bound in a loop's body is new in each iteration."""

    @T.prim_func
    def kernel(x: T.Tensor((8,), "float32"), y: T.Tensor((8,), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8], "float32")
            b = T.alloc_ub([8], "float32")
            total = T.alloc_var("float32", init=0.0)
            T.copy(x, a)
            running = 0.0
            for i in T.serial(8):
                if broken:
                    running = running + a[i]  # named
                    b[i] = running
                else:
                    total = total + a[i]
                    b[i] = total
            T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNC)
