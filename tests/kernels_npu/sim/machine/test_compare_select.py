"""Compare, masks and select against NumPy, under all schedules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import COLS, FLOATS, ROWS, SYNCED

COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "LT": np.less,
    "LE": np.less_equal,
}


def selection(mode: str, how: str, dtype: str, scalar: bool) -> Any:
    @tilelang.jit(out_idx=[2, 3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((ROWS, COLS), dtype),
            b: T.Tensor((ROWS, COLS), dtype),
            c: T.Tensor((ROWS, COLS), dtype),
            m: T.Tensor((ROWS * COLS // 8,), "uint8"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([ROWS, COLS], dtype)
                y = T.alloc_ub([ROWS, COLS], dtype)
                z = T.alloc_ub([ROWS, COLS], dtype)
                bits = T.alloc_ub([ROWS * COLS // 8], "uint8")
                T.copy(a, x)
                T.copy(b, y)
                if scalar:
                    T.tile.compare(bits, x, 0.5, mode)
                else:
                    T.tile.compare(bits, x, y, mode)
                if how == "VSEL_TENSOR_SCALAR_MODE":
                    T.tile.select(z, bits, x, -2.0, how)
                else:
                    T.tile.select(z, bits, x, y, how)
                T.copy(z, c)
                T.copy(bits, m)

        return kernel

    return factory()


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "how", ["VSEL_TENSOR_TENSOR_MODE", "VSEL_TENSOR_SCALAR_MODE", "VSEL_CMPMASK_SPR"]
)
@pytest.mark.parametrize("mode", COMPARE)
def test_compare_and_select(
    agreeing: Callable[..., Any],
    rng: np.random.Generator,
    mode: str,
    how: str,
    dtype: str,
    scalar: bool,
) -> None:
    element = numpy_dtype(dtype)
    a, b = (rng.integers(-2, 3, (ROWS, COLS)).astype(element) / 2 for _ in range(2))
    a, b = a.astype(element), b.astype(element)
    c, m = agreeing(selection(mode, how, dtype, scalar), a, b)[:2]
    truth = COMPARE[mode](a, element.type(0.5) if scalar else b)
    np.testing.assert_array_equal(m, np.packbits(truth.ravel(), bitorder="little"))
    if how == "VSEL_CMPMASK_SPR":
        lanes = 256 // element.itemsize
        truth = np.resize(truth.ravel()[:lanes], truth.shape)
    other = element.type(-2) if how == "VSEL_TENSOR_SCALAR_MODE" else b
    np.testing.assert_array_equal(c, np.where(truth, a, other))
