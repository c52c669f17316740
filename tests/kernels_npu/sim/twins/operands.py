"""Mistakes in operands: rectangles, sizes, alignment, dtypes and scalars."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import floats, twin

SYNCED = {"tl.ascend_auto_sync": True}
N = 64


@twin("AI-BOUND-003", inputs=floats(8, 16), expected=lambda x: x[:, :8] + x[:, :8])
def narrow_rows(broken: bool) -> Any:
    """Rows of 12 bytes land 32 bytes apart, and the vector unit reads them without gaps."""
    width = 3 if broken else 8

    @T.prim_func
    def kernel(x: T.Tensor((8, 16), "float32"), y: T.Tensor((8, width), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, width], "float32")
            T.copy(x[0:8, 0:width], a)  # named
            T.tile.add(a, a, a)
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-012", inputs=floats(2, 4, 8, N), expected=lambda x: x)
def sliced_copy_of_three_dimensions(broken: bool) -> Any:
    """A copy moves two dimensions; the third one is ignored."""
    pages = 4 if broken else 1

    @T.prim_func
    def kernel(x: T.Tensor((2, 4, 8, N), "float32"), y: T.Tensor((2, 4, 8, N), "float32")):
        with T.Kernel(2, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([pages, 8, N], "float32")
            for i in T.serial(4 // pages):
                T.copy(x[cid, i * pages : (i + 1) * pages, 0:8, 0:N], a)  # named
                T.copy(a, y[cid, i * pages : (i + 1) * pages, 0:8, 0:N])

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-002", inputs=floats(1, 128), expected=lambda x: np.where(x > 0, x, 0))
def compare_past_the_end(broken: bool) -> Any:
    """The second operand is shorter than the first, and nobody looks at its size."""
    length = 64 if broken else 128

    @T.prim_func
    def kernel(x: T.Tensor((1, 128), "float32"), y: T.Tensor((1, 128), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, 128], "float32")
            mask = T.alloc_ub([1, 16], "uint8")
            zero = T.alloc_ub([1, length], "float32")
            T.copy(x, a)
            T.tile.fill(zero, 0.0)
            T.tile.compare(mask, a, zero, "GT")  # named
            T.tile.select(a, mask, a, 0.0, "VSEL_TENSOR_SCALAR_MODE")
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-002", inputs=floats(1, 128), expected=lambda x: x + x)
def second_source_of_another_size(broken: bool) -> Any:
    """Only the first source's size is compared with the destination's."""
    length = 64 if broken else 128

    @T.prim_func
    def kernel(x: T.Tensor((1, 128), "float32"), y: T.Tensor((1, 128), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, 128], "float32")
            b = T.alloc_ub([1, length], "float32")
            T.copy(x, a)
            T.copy(x[0:1, 0:length], b)
            T.tile.add(a, a, b)  # named
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-006", inputs=floats(1, 128), expected=lambda x: x[:, 8:72] * 2)
def vector_between_blocks_of_32_bytes(broken: bool) -> Any:
    first = 7 if broken else 8

    @T.prim_func
    def kernel(x: T.Tensor((1, 128), "float32"), y: T.Tensor((1, 64), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([1, first + 64], "float32")
            b = T.alloc_ub([1, 64], "float32")
            T.copy(x[0:1, 0 : first + 64], a)
            T.tile.add(b, a[0, first:], a[0, first:])  # named
            T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-010", inputs=floats(8, N), expected=lambda x: x * x[:, :1])
def scalar_operand_with_two_indices(broken: bool) -> Any:
    """The compiler passes on the first index only: `s[i, 0]` becomes element i."""
    width = 8 if broken else 1

    @T.prim_func
    def kernel(x: T.Tensor((8, N), "float32"), y: T.Tensor((8, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "float32")
            s = T.alloc_ub([8, width], "float32")
            T.copy(x, a)
            for i in T.serial(8):
                s[i, 0] = a[i, 0]
            for i in T.serial(8):
                T.tile.mul(a[i, :], a[i, :], s[i, 0])  # named
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-002", inputs=floats(N), expected=lambda x: x * 2)
def loop_past_the_end_of_a_buffer(broken: bool) -> Any:
    steps = N + 1 if broken else N

    @T.prim_func
    def kernel(x: T.Tensor((N,), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([N], "float32")
            T.copy(x, a)
            for i in T.serial(steps):
                a[i] = a[i] * 2.0  # named
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-BOUND-004", inputs=floats(8, 16), expected=lambda x: x[:, :8].max(axis=1))
def reduction_over_part_of_a_row(broken: bool) -> Any:
    """The pitch follows from the logical width, not from the buffer's."""
    physical = 16 if broken else 8

    @T.prim_func
    def kernel(x: T.Tensor((8, 16), "float32"), y: T.Tensor((8,), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, physical], "float32")
            s = T.alloc_ub([8], "float32")
            T.copy(x[0:8, 0:physical], a)
            T.reduce_max(a, s, dim=-1, real_shape=[8, 8])  # named
            T.copy(s, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


def brains(rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.integers(-9, 10, (8, N)).astype(ml_dtypes.bfloat16),)


@twin("AI-TYPE-001", inputs=brains, expected=lambda x: x + x)
def arithmetic_in_bfloat16(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((8, N), "bfloat16"), y: T.Tensor((8, N), "bfloat16")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "bfloat16")
            b = T.alloc_ub([8, N], "float32")
            T.copy(x, a)
            if broken:
                T.tile.add(a, a, a)  # named
            else:
                T.tile.cast(b, a, "CAST_NONE", 8 * N)
                T.tile.add(b, b, b)
                T.tile.cast(a, b, "CAST_RINT", 8 * N)
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


@twin("AI-TYPE-002", inputs=floats(8, N, dtype="float16"), expected=lambda x: x.astype("f") + 1)
def operands_of_two_dtypes(broken: bool) -> Any:
    """Nothing is promoted: the half tile's bytes would be read as floats."""

    @T.prim_func
    def kernel(x: T.Tensor((8, N), "float16"), y: T.Tensor((8, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, N], "float16")
            b = T.alloc_ub([8, N], "float32")
            wide = T.alloc_ub([8, N], "float32")
            T.copy(x, a)
            T.tile.fill(b, 1.0)
            if broken:
                T.tile.add(b, b, a)  # named
            else:
                T.tile.cast(wide, a, "CAST_NONE", 8 * N)
                T.tile.add(b, b, wide)
            T.copy(b, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)


def small(rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.integers(-4, 5, (32, 32)).astype(np.float16),)


@twin("AI-SRC-061", inputs=small, expected=lambda x: x.astype("f") @ x.astype("f"))
def product_of_operands_in_the_wrong_memory(broken: bool) -> Any:
    allocate = T.alloc_L0A if broken else T.alloc_L1

    @T.prim_func
    def kernel(x: T.Tensor((32, 32), "float16"), y: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            tile = T.alloc_L1([32, 32], "float16")
            a = allocate([32, 32], "float16")
            c = T.alloc_L0C([32, 32], "float32")
            with T.Scope("C"):
                T.copy(x, tile)
                T.barrier_all()
                if broken:
                    T.copy(tile, a)
                    T.barrier_all()
                    T.gemm_v0(a, tile, c, init=True)  # named
                else:
                    T.gemm_v0(tile, tile, c, init=True)
                T.barrier_all()
                T.copy(c, y)

    return tilelang.compile(kernel, out_idx=[1])


@twin("AI-SRC-053", inputs=floats(16, N), expected=lambda x: np.hstack([x[:, :32] * 2, x[:, 32:]]))
def column_slice_used_as_a_vector(broken: bool) -> Any:
    @T.prim_func
    def kernel(x: T.Tensor((16, N), "float32"), y: T.Tensor((16, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([16, N], "float32")
            T.copy(x, a)
            if broken:
                T.tile.mul(a[:, :32], a[:, :32], 2.0)  # named
            else:
                for i in T.serial(16):
                    T.tile.mul(a[i, :32], a[i, :32], 2.0)
            T.copy(a, y)

    return tilelang.compile(kernel, out_idx=[1], pass_configs=SYNCED)
