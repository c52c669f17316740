"""`tile_kernel`: a kernel that loads up to three tensors, runs one operation and stores one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
Shape = tuple[int, ...]


def tile_kernel(
    body: Callable[..., Any],
    source: tuple[Shape, str],
    out: tuple[Shape, str],
    second: tuple[Shape, str] = ((8,), "float32"),
    third: tuple[Shape, str] = ((8,), "float32"),
    **options: Any,
) -> Any:
    """`body(z, x, y, w)` on whole UB tiles; z, the result, starts as the last tensor argument."""

    @tilelang.jit(out_idx=[4], pass_configs=SYNCED, **options)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor(source[0], source[1]),
            b: T.Tensor(second[0], second[1]),
            c: T.Tensor(third[0], third[1]),
            d: T.Tensor(out[0], out[1]),
            e: T.Tensor(out[0], out[1]),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub(source[0], source[1])
                y = T.alloc_ub(second[0], second[1])
                w = T.alloc_ub(third[0], third[1])
                z = T.alloc_ub(out[0], out[1])
                T.copy(a, x)
                T.copy(b, y)
                T.copy(c, w)
                T.copy(d, z)
                body(z, x, y, w)
                T.copy(z, e)

        return kernel

    return factory()


@pytest.fixture
def sample(rng: np.random.Generator) -> Callable[..., Any]:
    """Random values of a dtype, distinct or not, over its whole range for integers."""

    def make(shape: Shape, dtype: str) -> Any:
        element = numpy_dtype(dtype)
        if element.kind in "iu":
            limits = np.iinfo(element)
            return rng.integers(limits.min, limits.max, shape, element, endpoint=True)
        return (rng.standard_normal(shape) * 3).astype(element)

    return make


#: Stands for a tensor argument that the operation does not use.
UNUSED = np.arange(8, dtype=np.float32)
