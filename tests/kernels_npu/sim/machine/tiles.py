"""Kernels and data of one UB tile, for tests of single operations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
ROWS, COLS = 8, 64
FLOATS = ["float32", "float16"]


ROWS, COLS = 8, 64


def two_operands(body: Callable[..., Any], dtype: str, out: str = "", **options: Any) -> Any:
    """z = body(z, x, y) on whole UB tiles; z starts as y."""
    out = out or dtype

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED, **options)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((ROWS, COLS), dtype),
            b: T.Tensor((ROWS, COLS), out),
            c: T.Tensor((ROWS, COLS), out),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([ROWS, COLS], dtype)
                y = T.alloc_ub([ROWS, COLS], out)
                z = T.alloc_ub([ROWS, COLS], out)
                T.copy(a, x)
                T.copy(b, y)
                T.copy(b, z)
                body(z, x, y)
                T.copy(z, c)

        return kernel

    return factory()


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Random data: every integer of the dtype, or normally distributed numbers."""
    element = numpy_dtype(dtype)
    if element.kind in "iu":
        limits = np.iinfo(element)
        return rng.integers(limits.min, limits.max, shape, dtype=element, endpoint=True)
    return rng.standard_normal(shape).astype(element)


def sample(rng: np.random.Generator, dtype: str, positive: bool = False) -> Any:
    """A tile of them, floating-point numbers a little wider."""
    element = numpy_dtype(dtype)
    if element.kind in "iu":
        return values(rng, (ROWS, COLS), dtype)
    wide = rng.standard_normal((ROWS, COLS)) * 3
    return (np.abs(wide) + 0.1 if positive else wide).astype(element)
