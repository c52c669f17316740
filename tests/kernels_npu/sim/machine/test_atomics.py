"""Atomic adds to global memory, against NumPy."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bfloat16"])
def test_atomic_add_sums_over_blocks_and_vector_cores(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str, schedule: tuple[str, int]
) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16, 32), dtype), y: T.Tensor((12, 32), dtype)):
            with T.Kernel(5, is_npu=True) as (_cid, _vid):
                a = T.alloc_ub([16, 32], dtype)
                T.copy(x, a)
                T.tile.atomic_add(y[0, 0], a)

        return kernel

    x = rng.integers(-3, 4, (16, 32)).astype(numpy_dtype(dtype))
    y = np.ones((12, 32), numpy_dtype(dtype))
    result = launch(factory(), x, y)
    assert result.errors == []
    expected = np.ones((12, 32)) + 10 * x[:12].astype(np.float64)
    np.testing.assert_array_equal(y.astype(np.float64), expected)
    assert result.record.counters.gm_written == {"y": 10 * y.nbytes}


def test_atomic_add_of_another_dtype_is_refused(launch: Callable[..., Any]) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((8, 32), "float16")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 32], "float32")
                T.tile.fill(a, 1.0)
                T.tile.atomic_add(y, a)

        return kernel

    with pytest.raises(KernelSourceError) as caught:
        launch(factory(), np.zeros((8, 32), np.float16))
    assert caught.value.code == "AI-TYPE-002"


def test_bfloat16_is_ml_dtypes() -> None:
    assert numpy_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)
