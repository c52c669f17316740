"""`T.copy` between global memory and UB against NumPy.

Borders, pads, slots, columns, mismatches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import values

SYNCED = {"tl.ascend_auto_sync": True}


def windows(
    shape: tuple[int, int],
    tile: tuple[int, int],
    at: tuple[int, int],
    dtype: str,
    pad: Any,
    target: str,
) -> Any:
    """Copies the tile at `at` of x through UB; y gets the whole tile, z the clipped store."""
    (rows, cols), (m, n), (r, c) = shape, tile, at

    @tilelang.jit(out_idx=[1, 2], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((rows, cols), dtype),
            y: T.Tensor((m, n), dtype),
            z: T.Tensor((rows, cols), dtype),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([m, n], dtype)
                T.copy(x[r : r + m, c : c + n], a, pad_value=pad)
                T.copy(a, y)
                T.copy(a, z[r : r + m, c : c + n])

        return kernel

    return factory()


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16"])
@pytest.mark.parametrize("pad", [None, -3.0, float("-inf")])
def test_tails_are_padded_and_clipped(
    agreeing: Callable[..., Any], rng: np.random.Generator, dtype: str, pad: Any, target: str
) -> None:
    element = numpy_dtype(dtype)
    n = int(rng.integers(1, 4)) * (32 // element.itemsize)
    m = int(rng.integers(1, 9))
    shape = (int(rng.integers(1, 20)), int(rng.integers(1, 70)))
    at = (int(rng.integers(0, shape[0])), int(rng.integers(0, shape[1])))
    x = values(rng, shape, dtype)
    y, z = agreeing(windows(shape, (m, n), at, dtype, pad, target), x)[:2]
    part = x[at[0] : at[0] + m, at[1] : at[1] + n]
    fill = 0 if pad is None else pad
    if element.kind == "i":
        fill = np.clip(fill, np.iinfo(element).min, np.iinfo(element).max)
    expected = np.full((m, n), fill).astype(element)
    expected[: part.shape[0], : part.shape[1]] = part
    np.testing.assert_array_equal(y, expected)
    stored = z[at[0] : at[0] + m, at[1] : at[1] + n]
    np.testing.assert_array_equal(stored, part)
    rest = np.ones(shape, bool)
    rest[at[0] : at[0] + m, at[1] : at[1] + n] = False
    assert (z[rest].view(np.uint8) == 0xFF).all()


def byte_rows(stored: int) -> Any:
    """Loads 3 clipped rows of int8, which have no fill, and stores `stored` rows."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((3, 64), "int8"), y: T.Tensor((8, 64), "int8")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 64], "int8")
                T.copy(x[0:8, :], a)
                T.copy(a[0:stored, :], y[0:stored, :])

        return kernel

    return factory()


def test_bytes_are_not_padded_so_the_rest_stays_unwritten(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = values(rng, (3, 64), "int8")
    clean = launch(byte_rows(3), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][:3], x)
    assert launch(byte_rows(4), x).codes == {"AI-INIT-001"}


def strided_rows(rank: int) -> Any:
    """K[b, s0:s1, h, :] and its kind: rows of one dimension, others at one index."""

    @tilelang.jit(out_idx=[2, 3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((2, 10, 3, 32), "float32"),
            b: T.int32,
            y: T.Tensor((4, 32), "float32"),
            z: T.Tensor((2, 10, 3, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([4, 32], "float32")
                T.copy(x[b, 5:9, 2, :], a)
                T.copy(a, y)
                T.copy(a, z[1 - b, 8:12, 1, :])

        return kernel

    return factory()


def test_rows_of_an_inner_dimension(agreeing: Callable[..., Any], rng: np.random.Generator) -> None:
    x = values(rng, (2, 10, 3, 32), "float32")
    y, z = agreeing(strided_rows(4), x, 1)[:2]
    np.testing.assert_array_equal(y, x[1, 5:9, 2])
    np.testing.assert_array_equal(z[0, 8:10, 1], x[1, 5:7, 2])
    assert np.isnan(z[1]).all() and np.isnan(z[0, :8]).all()


def flat_row(n: int, width: int) -> Any:
    """One row of global memory into a column buffer [n, 1] and back."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((3, width), "float32"), y: T.Tensor((3, width), "float32")):
            with T.Kernel(3, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([n, 1], "float32")
                T.copy(x[cid, 0:width], a)
                T.copy(a, y[cid, 0:width])

        return kernel

    return factory()


@pytest.mark.parametrize(("n", "width"), [(16, 16), (40, 37), (8, 1)])
def test_column_buffers_take_a_row_flat(
    agreeing: Callable[..., Any], rng: np.random.Generator, n: int, width: int
) -> None:
    x = values(rng, (3, width), "float32")
    np.testing.assert_array_equal(agreeing(flat_row(n, width), x)[0], x)


def column(n: int) -> Any:
    """A row longer than the column buffer."""
    return flat_row(n, 24)


def test_row_longer_than_the_buffer_is_reported(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = values(rng, (3, 24), "float32")
    result = launch(column(16), x)
    assert [f.code for f in result.errors] == ["AI-BOUND-011"]
    assert result.errors[0].loc is not None and result.errors[0].loc.file == __file__
    assert launch(column(16), x, checks=Checks.none()).errors == []


def mismatched(loaded: int, stored: int) -> Any:
    """The UB side names 8 rows, the global side others."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16, 64), "float32"), y: T.Tensor((16, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16, 64], "float32")
                T.tile.fill(a, 7.0)
                T.copy(x[0:loaded, :], a[0:8, :])
                T.copy(a[0:8, :], y[0:stored, :])

        return kernel

    return factory()


@pytest.mark.parametrize(("loaded", "stored"), [(16, 8), (8, 16)])
def test_global_side_names_more_rows(
    launch: Callable[..., Any], rng: np.random.Generator, loaded: int, stored: int
) -> None:
    x = values(rng, (16, 64), "float32")
    clean = launch(mismatched(8, 8), x)
    assert clean.errors == []
    np.testing.assert_array_equal(clean.outputs[0][:8], x[:8])
    result = launch(mismatched(loaded, stored), x)
    assert [f.code for f in result.errors] == ["AI-BOUND-011"]


def test_three_extending_dimensions_are_reported(launch: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, 4, 32), "float32"), y: T.Tensor((2, 4, 32), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([2, 4, 32], "float32")
                T.copy(x, a)
                T.copy(a, y)

        return kernel

    assert launch(factory(), np.zeros((2, 4, 32), np.float32)).codes == {"AI-BOUND-012"}


def partial_fences(rows: int, target: str, *, reader: bool = True) -> Any:
    """Vector work on a tile, then a load into it: no flag needed if the fill brings its own."""

    @tilelang.jit(out_idx=[1], target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((rows, 64), "float32"), y: T.Tensor((8, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 64], "float32")
                b = T.alloc_ub([8, 64], "float32")
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    T.tile.add(b, a, a)
                    T.copy(x[0:8, :], a)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.add(b, b, a)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("rows", "target", "found"),
    [
        (5, "ascendc", set()),
        (8, "ascendc", {"AI-RACE-002", "AI-RACE-003"}),
        (5, "pto", {"AI-RACE-002", "AI-RACE-003"}),
    ],
)
def test_clipped_load_orders_itself_after_vector_work_on_ascendc(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    rows: int,
    target: str,
    found: set[str],
) -> None:
    x = values(rng, (rows, 64), "float32")
    result = launch(partial_fences(rows, target), x)
    assert result.codes == found
    if not found:
        expected = np.full((8, 64), 2, np.float32)
        expected[:rows] += x
        np.testing.assert_array_equal(result.outputs[0], expected)
