"""`T.copy` and `T.tile.atomic_add` against NumPy.

Borders, pads, slots, columns, conversions, mismatches.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    element = numpy_dtype(dtype)
    if element.kind in "iu":
        limits = np.iinfo(element)
        return rng.integers(limits.min, limits.max, shape, dtype=element, endpoint=True)
    return rng.standard_normal(shape).astype(element)


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


# --------------------------------------------------------------------------- within UB


def within(
    shapes: tuple[Any, Any],
    pick: Callable[[Any, Any], Any],
    dtypes: tuple[str, str] = ("float32",) * 2,
) -> Any:
    """Copies between two UB buffers; `pick(a, b)` gives the operands."""
    source, target = shapes
    first, second = dtypes

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor(source, first), y: T.Tensor(target, second)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub(list(source), first)
                b = T.alloc_ub(list(target), second)
                T.copy(x, a)
                T.tile.fill(b, 0)
                T.copy(*pick(a, b))
                T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("shapes", "pick", "oracle"),
    [
        (((8, 32), (8, 32)), lambda a, b: (a, b), lambda x, y: x),
        (((8, 32), (4, 64)), lambda a, b: (a[:, :], b[:, :]), lambda x, y: x.reshape(4, 64)),
        (
            ((8, 32), (8, 64)),
            lambda a, b: (a[:, :], b[:, 32:]),
            lambda x, y: np.hstack([y[:, :32], x]),
        ),
        (((8, 64), (8, 32)), lambda a, b: (a[:, 8:40], b[:, :]), lambda x, y: x[:, 8:40]),
        (
            ((8, 32), (64,)),
            lambda a, b: (a[3, 8:16], b[16:24]),
            lambda x, y: np.r_[y[:16], x[3, 8:16], y[24:]],
        ),
        (
            ((64,), (8, 8)),
            lambda a, b: (a[8:24], b[4:6, :]),
            lambda x, y: np.vstack([y[:4], x[8:24].reshape(2, 8), y[6:]]),
        ),
    ],
    ids=["whole", "reshaped", "into-columns", "out-of-columns", "row-part", "run-into-rows"],
)
def test_within_ub(
    agreeing: Callable[..., Any], rng: np.random.Generator, shapes: Any, pick: Any, oracle: Any
) -> None:
    x = values(rng, shapes[0], "float32")
    y = agreeing(within(shapes, pick), x)[0]
    np.testing.assert_array_equal(y, oracle(x, np.zeros(shapes[1], np.float32)))


@pytest.mark.parametrize(
    ("shapes", "pick"),
    [
        (((4, 8), (4, 64)), lambda a, b: (a[:, :], b[0, 0:32])),
        (((8, 32), (4, 32)), lambda a, b: (a[:, :], b[:, :])),
        (((2, 8, 32), (2, 8, 64)), lambda a, b: (a[:, :, :], b[:, :, 32:])),
    ],
    ids=["scatters", "longer", "three-dimensional"],
)
def test_within_ub_sides_that_differ_are_refused(
    launch: Callable[..., Any], shapes: Any, pick: Any
) -> None:
    with pytest.raises(KernelSourceError) as caught:
        launch(within(shapes, pick), np.zeros(shapes[0], np.float32), checks=Checks(bounds=False))
    assert caught.value.code == "AI-SRC-057"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float32", "int32"),
        ("int32", "float32"),
        ("int32", "int16"),
        ("int16", "float16"),
    ],
)
def test_within_ub_converts(
    agreeing: Callable[..., Any], rng: np.random.Generator, source: str, target: str
) -> None:
    x = values(rng, (8, 64), source)
    if numpy_dtype(source).kind != "i":
        x = (x * 100).astype(x.dtype)
    y = agreeing(within(((8, 64), (8, 64)), lambda a, b: (a, b), (source, target)), x)[0]
    element = numpy_dtype(target)
    wide = x.astype(np.float64)
    if element.kind == "i":
        wide = np.clip(np.rint(wide), np.iinfo(element).min, np.iinfo(element).max)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, wide.astype(element))


# --------------------------------------------------------------------------- cube


def through_l1(rows: int, slot: int, run_time: bool) -> Any:
    """Two loads into slot `slot` of an L1 buffer; products with the identity show what is in it."""

    @tilelang.jit(out_idx=[3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((rows, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            s: T.int32,
            y: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([2, 32, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                T.copy(eye, b)
                if run_time:
                    T.copy(x[0:32, :], a[s, :, :])
                    T.gemm_v0(a[s, :, :], b, c, init=True)
                else:
                    T.copy(x[0:32, :], a[slot, :, :])
                    T.gemm_v0(a[slot, :, :], b, c, init=True)
                T.copy(c, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("rows", "slot", "run_time", "found"),
    [
        (32, 0, False, False),
        (32, 1, False, False),
        (32, 0, True, False),
        (11, 0, False, False),
        (11, 1, False, True),
        (11, 1, True, True),
        (11, 0, True, True),  # the compiler sees an offset that is not constant
    ],
)
def test_only_a_clipped_load_to_the_start_of_l1_clears_it(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    rows: int,
    slot: int,
    run_time: bool,
    found: bool,
) -> None:
    x = values(rng, (rows, 32), "float16")
    eye = np.eye(32, dtype=np.float16)
    result = launch(through_l1(rows, slot, run_time), x, eye, slot)
    assert result.codes == ({"AI-INIT-001"} if found else set())
    np.testing.assert_array_equal(result.outputs[0][:rows], x.astype(np.float32))
    if not found:
        assert not result.outputs[0][rows:].any()


def spliced(cuts: tuple[int, ...]) -> Any:
    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((64, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            y: T.Tensor((64, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([64, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([64, 32], "float32")
                T.copy(eye, b)
                for i in range(len(cuts) - 1):
                    T.copy(x[cuts[i] : cuts[i + 1], :], a[cuts[i] : cuts[i + 1], :])
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y)

        return kernel

    return factory()


@pytest.mark.parametrize("convert", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("relu", [False, True])
def test_fixpipe_converts_clips_and_applies_relu(
    agreeing: Callable[..., Any], rng: np.random.Generator, convert: str, relu: bool
) -> None:
    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((32, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            y: T.Tensor((40, 50), convert),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                T.copy(x, a)
                T.copy(eye, b)
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y[20:52, 30:62], enable_relu=relu)

        return kernel

    x = values(rng, (32, 32), "float16")
    y = agreeing(factory(), x, np.eye(32, dtype=np.float16))[0]
    expected = np.maximum(x, 0) if relu else x
    np.testing.assert_array_equal(y[20:, 30:], expected[:20, :20].astype(numpy_dtype(convert)))


def quantised(scale: float) -> Any:
    @tilelang.jit(out_idx=[2, 3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((32, 32), "int8"),
            w: T.Tensor((32, 32), "int8"),
            y: T.Tensor((32, 32), "float16"),
            z: T.Tensor((32, 32), "int32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "int8")
                b = T.alloc_L1([32, 32], "int8")
                c = T.alloc_L0C([32, 32], "int32")
                T.set_deq_scale(scale)
                T.copy(x, a)
                T.copy(w, b)
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y)
                T.copy(c, z)

        return kernel

    return factory()


@pytest.mark.parametrize("scale", [1.0, 0.125])
def test_fixpipe_scales_integers(
    agreeing: Callable[..., Any], rng: np.random.Generator, scale: float
) -> None:
    x, w = (values(rng, (32, 32), "int8") for _ in range(2))
    product = x.astype(np.int32) @ w.astype(np.int32)
    y, z = agreeing(quantised(scale), x, w)[:2]
    np.testing.assert_array_equal(z, product)
    with np.errstate(over="ignore"):
        expected = (product.astype(np.float32) * np.float32(scale)).astype(np.float16)
    np.testing.assert_array_equal(y, expected)


# --------------------------------------------------------------------------- atomics


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
