"""Matrix products against NumPy: dtypes, transposes, accumulation, L0 by hand, unwritten data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}


def matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    element = numpy_dtype(dtype)
    if element.kind == "i":
        return rng.integers(-128, 128, shape).astype(element)
    return rng.standard_normal(shape).astype(element)


def gemm(m: int, n: int, k: int, steps: int, dtype: str, ta: bool, tb: bool, init: str) -> Any:
    """C = sum over steps of op(A) @ op(B), A and B cut along K."""
    accumulator = "int32" if dtype == "int8" else "float32"
    a_shape = (steps, k, m) if ta else (steps, m, k)
    b_shape = (steps, n, k) if tb else (steps, k, n)

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor(a_shape, dtype),
            b: T.Tensor(b_shape, dtype),
            c: T.Tensor((m, n), accumulator),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                x = T.alloc_L1([a_shape[1], a_shape[2]], dtype)
                y = T.alloc_L1([b_shape[1], b_shape[2]], dtype)
                z = T.alloc_L0C([m, n], accumulator)
                for s in T.serial(steps):
                    T.copy(a[s, :, :], x)
                    T.copy(b[s, :, :], y)
                    if init == "expression":
                        T.gemm_v0(x, y, z, transpose_A=ta, transpose_B=tb, init=(s == 0))
                    if init == "branch":
                        if s == 0:
                            T.gemm_v0(x, y, z, transpose_A=ta, transpose_B=tb, init=True)
                        else:
                            T.gemm_v0(x, y, z, transpose_A=ta, transpose_B=tb)
                    if init == "never":
                        T.gemm_v0(x, y, z, transpose_A=ta, transpose_B=tb, init=(s == 7))
                T.copy(z, c)

        return kernel

    return factory()


def product(a: Any, b: Any, ta: bool, tb: bool) -> Any:
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    return sum((x.T if ta else x) @ (y.T if tb else y) for x, y in zip(a, b))


@pytest.mark.parametrize("init", ["expression", "branch"])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_gemm(
    agreeing: Callable[..., Any],
    rng: np.random.Generator,
    dtype: str,
    ta: bool,
    tb: bool,
    init: str,
) -> None:
    m, n, k = (int(v) * 32 for v in rng.integers(1, 4, 3))
    a = matrix(rng, (3, k, m) if ta else (3, m, k), dtype)
    b = matrix(rng, (3, n, k) if tb else (3, k, n), dtype)
    got = agreeing(gemm(m, n, k, 3, dtype, ta, tb, init), a, b)[0]
    expected = product(a, b, ta, tb)
    if dtype == "int8":
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_accumulator_that_no_product_initialises(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str
) -> None:
    a, b = matrix(rng, (2, 32, 32), dtype), matrix(rng, (2, 32, 32), dtype)
    assert (
        launch(gemm(32, 32, 32, 2, dtype, False, False, "expression"), a, b).record.findings == ()
    )
    assert launch(gemm(32, 32, 32, 2, dtype, False, False, "never"), a, b).codes == {"AI-INIT-001"}


def partly_loaded(loaded: int, stored: int, ta: bool) -> Any:
    """Only `loaded` of 32 rows of A (columns, when transposed) are written."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, 32, 32), "float16"), c: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([2, 32, 32], "float16")
                z = T.alloc_L0C([32, 32], "float32")
                T.copy(x[0, :, :], a[0, :, :])
                T.copy(x[1, 0:loaded, :], a[1, 0:loaded, :])
                T.gemm_v0(a[1, :, :], a[0, :, :], z, transpose_A=ta, init=True)
                T.copy(z, c[0:stored, :])

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("loaded", "stored", "ta", "found"),
    [(32, 32, False, False), (16, 16, False, False), (16, 17, False, True), (16, 16, True, True)],
)
def test_unwritten_rows_are_followed_through_a_product(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    loaded: int,
    stored: int,
    ta: bool,
    found: bool,
) -> None:
    x = matrix(rng, (2, 32, 32), "float16")
    result = launch(partly_loaded(loaded, stored, ta), x)
    assert result.codes == ({"AI-INIT-001"} if found else set())


def by_hand(transpose: bool, dtype: str) -> Any:
    """L1 -> L0A, L0B -> mma, in two steps of K, with explicit flags."""

    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((64, 64), dtype),
            b: T.Tensor((48, 64) if transpose else (64, 48), dtype),
            c: T.Tensor((64, 48), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                x = T.alloc_L1([64, 64], dtype)
                y = T.alloc_L1([48, 64] if transpose else [64, 48], dtype)
                l0a = T.alloc_L0A([64, 64], dtype)
                l0b = T.alloc_L0B([64, 48], dtype)
                z = T.alloc_L0C([64, 48], "float32")
                with T.Scope("C"):
                    T.copy(a, x)
                    T.copy(b, y)
                    T.set_flag("mte2", "mte1", 0)
                    T.wait_flag("mte2", "mte1", 0)
                    T.copy(x, l0a)
                    T.copy(y, l0b, transpose=transpose)
                    T.set_flag("mte1", "m", 0)
                    T.wait_flag("mte1", "m", 0)
                    T.mma(l0a, l0b, z, init=True)
                    T.mma(l0a, l0b, z)
                    T.set_flag("m", "fix", 0)
                    T.wait_flag("m", "fix", 0)
                    T.copy(z, c)

        return kernel

    return factory()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("transpose", [False, True])
def test_mma(
    agreeing: Callable[..., Any], rng: np.random.Generator, transpose: bool, dtype: str
) -> None:
    a = matrix(rng, (64, 64), dtype)
    b = matrix(rng, (48, 64) if transpose else (64, 48), dtype)
    got = agreeing(by_hand(transpose, dtype), a, b)[0]
    expected = 2 * product(a[None], b[None], False, transpose)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


def mixed(*, between: bool, fresh: bool) -> Any:
    """`gemm_v0` passes through L0A and L0B, where buffers of the kernel live as well."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((32, 32), "float16"), c: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                x = T.alloc_L1([32, 32], "float16")
                l0a = T.alloc_L0A([32, 32], "float16")
                l0b = T.alloc_L0B([32, 32], "float16")
                z = T.alloc_L0C([32, 32], "float32")
                other = T.alloc_L0C([32, 32], "float32")
                T.copy(a, x)
                T.copy(x, l0a)
                T.copy(x, l0b)
                if between:
                    T.gemm_v0(x, x, other, init=True)
                if fresh:
                    T.copy(x, l0a)
                    T.copy(x, l0b)
                T.mma(l0a, l0b, z, init=True)
                T.copy(z, c)

        return kernel

    return factory()


def test_gemm_overwrites_l0_buffers(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    a = matrix(rng, (32, 32), "float16")
    expected = a.astype(np.float32) @ a.astype(np.float32)
    for between, fresh in ((False, False), (True, True)):
        clean = launch(mixed(between=between, fresh=fresh), a)
        assert clean.record.findings == ()
        np.testing.assert_allclose(clean.outputs[0], expected, rtol=1e-5, atol=1e-5)
    twin = launch(mixed(between=True, fresh=False), a)
    assert twin.codes == {"AI-INIT-001"}
    assert not np.allclose(twin.outputs[0], expected)


@pytest.mark.parametrize(
    ("m", "k", "found"), [(128, 256, False), (256, 128, False), (256, 256, True)]
)
def test_gemm_passes_through_l0_of_limited_size(
    launch: Callable[..., Any], rng: np.random.Generator, m: int, k: int, found: bool
) -> None:
    a, b = matrix(rng, (1, m, k), "float16"), matrix(rng, (1, k, 32), "float16")
    codes = launch(gemm(m, 32, k, 1, "float16", False, False, "branch"), a, b).codes
    assert codes == ({"AI-MEM-001"} if found else set())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cutting_k_does_not_change_a_bit(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str
) -> None:
    """Sums are rounded once, however K is cut; L0C that was written over starts anew."""
    a, b = matrix(rng, (32, 96), dtype), matrix(rng, (96, 48), dtype)
    once = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    for steps in (1, 2, 6):
        cut_a = np.ascontiguousarray(a.reshape(32, steps, -1).transpose(1, 0, 2))
        cut_b = np.ascontiguousarray(b.reshape(steps, -1, 48))
        kernel = gemm(32, 48, 96 // steps, steps, dtype, False, False, "expression")
        np.testing.assert_array_equal(launch(kernel, cut_a, cut_b).outputs[0], once)
