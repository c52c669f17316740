"""Copies whose number of on-chip rows is known at run time only."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}


@pytest.mark.parametrize("rows", [0, 1, 5, 8])
def test_a_store_of_as_many_rows_as_a_scalar_says(
    launch: Callable[..., Any], rng: np.random.Generator, rows: int
) -> None:
    """Rows may be a run-time number, from a fixed place of the tile and from any."""

    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            n: T.int32,
            x: T.Tensor((16, 32), "float32"),
            y: T.Tensor((16, 32), "float32"),
            z: T.Tensor((16, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub((2, 8, 32), "float32")
                T.copy(x[0:8, :], a[1, :, :])
                T.copy(a[1, :n, :], y[0:n, :])
                T.copy(a[1, 8 - n :, :], z[0:n, :])

        return kernel

    x = rng.standard_normal((16, 32)).astype(np.float32)
    y, z = (np.zeros((16, 32), np.float32) for _ in range(2))
    assert launch(factory(), rows, x, y, z).codes == set()
    np.testing.assert_array_equal(y[:rows], x[:rows])
    np.testing.assert_array_equal(z[:rows], x[8 - rows : 8])
    assert not y[rows:].any() and not z[rows:].any()


@pytest.mark.parametrize(("rows", "codes"), [(8, set()), (9, {"AI-BOUND-011"})])
def test_rows_of_a_run_time_number_stay_in_the_buffer(
    launch: Callable[..., Any], rows: int, codes: set[str]
) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(n: T.int32, k: T.int32, x: T.Tensor((16, 32), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub((8, 32), "float32")
                T.tile.fill(a, 1.0)
                T.copy(a[k : k + n, :], x[0:n, :])

        return kernel

    assert launch(factory(), rows, 0, np.zeros((16, 32), np.float32)).codes == codes
