"""Rows with a scalar each, on both targets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.ops.conftest import SYNCED, UNUSED, tile_kernel

UFUNC = {"mul": np.multiply, "sub": np.subtract, "div": np.divide}
WIDTH = {"float32": 64, "float16": 128}


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("dtype", WIDTH)
@pytest.mark.parametrize("op", UFUNC)
def test_one_scalar_per_row(
    launch: Callable[..., Any], sample: Callable[..., Any], op: str, dtype: str, target: str
) -> None:
    shape = (8, WIDTH[dtype])
    a, s = sample(shape, dtype), sample((8, 1), dtype)
    operation = getattr(T.tile, f"row_expand_{op}_experiment")
    kernel = tile_kernel(
        lambda z, x, y, w: operation(z, x, y, w),
        (shape, dtype),
        (shape, dtype),
        ((8,), dtype),
        ((8, 32 // a.itemsize), dtype),
        target=target,
    )
    scratch = np.zeros((8, 32 // a.itemsize), dtype)
    result = launch(kernel, a, s[:, 0].copy(), scratch, np.zeros(shape, dtype))
    assert result.codes == set()
    np.testing.assert_array_equal(result.outputs[0], UFUNC[op](a, s))


def test_columns_of_a_wider_buffer_and_replicated_scalars(
    agreeing: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a, s = sample((8, 128), "float32"), sample((8, 8), "float32")

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((8, 128), "float32"),
            s: T.Tensor((8, 8), "float32"),
            c: T.Tensor((8, 128), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub((8, 128), "float32")
                blocks = T.alloc_ub((8, 8), "float32")
                T.copy(a, x)
                T.copy(s, blocks)
                for part in T.serial(2):
                    T.tile.row_expand_mul_experiment(
                        x[:, part * 64 : part * 64 + 64],
                        x[:, part * 64 : part * 64 + 64],
                        blocks,
                    )
                T.copy(x, c)

        return kernel

    expected = (a.reshape(8, 16, 8) * s[:, None, :]).reshape(8, 128)
    np.testing.assert_array_equal(agreeing(factory(), a, s)[0], expected)


@pytest.mark.parametrize(("shape", "good"), [((8, 64), True), ((8, 128), False), ((12, 64), False)])
def test_ascendc_takes_rows_of_one_iteration(
    launch: Callable[..., Any], sample: Callable[..., Any], shape: tuple[int, int], good: bool
) -> None:
    a, s = sample(shape, "float32"), sample((shape[0],), "float32")

    def run(target: str) -> Any:
        kernel = tile_kernel(
            lambda z, x, y, w: T.tile.row_expand_sub_experiment(z, x, y, w),
            (shape, "float32"),
            (shape, "float32"),
            ((shape[0],), "float32"),
            ((shape[0], 8), "float32"),
            target=target,
        )
        scratch = np.zeros((shape[0], 8), np.float32)
        return launch(kernel, a, s, scratch, a).outputs[0]

    np.testing.assert_array_equal(run("pto"), a - s[:, None])
    if good:
        np.testing.assert_array_equal(run("ascendc"), a - s[:, None])
    else:
        with pytest.raises(KernelSourceError, match="AI-BOUND-035"):
            run("ascendc")


def test_row_expand_mul_is_an_operation_of_pto(
    launch: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a, s = sample((5, 40), "float32"), sample((5,), "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.row_expand_mul(z, x, y),
        ((5, 40), "float32"),
        ((5, 40), "float32"),
        ((5,), "float32"),
        target="pto",
    )
    got = launch(kernel, a, s, UNUSED, np.zeros((5, 40), np.float32)).outputs[0]
    np.testing.assert_array_equal(got, a * s[:, None])
