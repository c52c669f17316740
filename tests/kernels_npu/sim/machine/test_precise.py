"""Precise mode: separates a wrong algorithm from a lack of precision, and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels_npu import sim
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

ROWS, COLS, TILES = 7, 48, 40
M, N, K = 32, 48, 64


def mean(*, wrong: bool = False, dtype: str = "float16") -> Any:
    """y = 0.1 * mean of x over the tiles, summed in `dtype`; `wrong` forgets the last tile."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def averaging(
            x: T.Tensor((TILES, ROWS, COLS), dtype),
            y: T.Tensor((ROWS, COLS), dtype),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                acc = T.alloc_ub([ROWS, COLS], dtype)
                tile = T.alloc_ub([ROWS, COLS], dtype)
                T.tile.fill(acc, 0.0)
                for i in T.serial(TILES - 1 if wrong else TILES):
                    T.copy(x[i, 0, 0], tile)
                    T.barrier_all()
                    T.tile.add(acc, acc, tile)
                    T.barrier_all()
                T.tile.mul(acc, acc, 0.1)
                T.tile.div(acc, acc, float(TILES))
                T.barrier_all()
                T.copy(acc, y)

        return averaging

    return factory()


def run(
    launch: Callable[..., Any], kernel: Any, *inputs: Any, precise: bool, **options: Any
) -> Any:
    with sim.configure(precise=precise):
        result = launch(kernel, *inputs, **options)
    assert result.errors == []
    return result.outputs


def worst(found: Any, exact: Any) -> float:
    return float(np.abs(found.astype(np.float64) - exact).max())


def test_a_lack_of_precision_disappears_and_a_mistake_stays(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = (rng.random((TILES, ROWS, COLS)) + 20).astype(np.float16)
    exact = 0.1 * x.astype(np.float64).mean(axis=0)
    once_rounded = np.spacing(np.float16(exact.max())) * 0.51
    right, wrong = mean(), mean(wrong=True)
    assert worst(run(launch, right, x, precise=False)[0], exact) > 4 * once_rounded
    assert worst(run(launch, right, x, precise=True, schedule=schedule)[0], exact) < once_rounded
    assert worst(run(launch, wrong, x, precise=False)[0], exact) > 20 * once_rounded
    assert worst(run(launch, wrong, x, precise=True)[0], exact) > 20 * once_rounded


def through_memory(dtype: str) -> Any:
    """y = (a b) c with the inner product in global memory and in L1 as `dtype`."""

    @tilelang.jit(out_idx=[3], workspace_idx=[4])
    def factory() -> Any:
        @T.prim_func
        def chain(
            a: T.Tensor((M, K), dtype),
            b: T.Tensor((K, N), dtype),
            c: T.Tensor((N, N), dtype),
            y: T.Tensor((M, N), "float32"),
            w: T.Tensor((M, N), dtype),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                left = T.alloc_L1([M, K], dtype)
                right = T.alloc_L1([K, N], dtype)
                inner = T.alloc_L1([M, N], dtype)
                last = T.alloc_L1([N, N], dtype)
                acc = T.alloc_L0C([M, N], "float32")
                with T.Scope("C"):
                    T.copy(a, left)
                    T.copy(b, right)
                    T.copy(c, last)
                    T.barrier_all()
                    T.gemm_v0(left, right, acc, init=True)
                    T.barrier_all()
                    T.copy(acc, w)
                    T.barrier_all()
                    T.copy(w, inner)
                    T.barrier_all()
                    T.gemm_v0(inner, last, acc, init=True)
                    T.barrier_all()
                    T.copy(acc, y)

        return chain

    return factory()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_pass_through_global_memory_and_the_cube_unrounded(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int], dtype: str
) -> None:
    element = numpy_dtype(dtype)
    a, b, c = (rng.standard_normal(shape).astype(element) for shape in ((M, K), (K, N), (N, N)))
    wide = [m.astype(np.float64) for m in (a, b, c)]
    exact = wide[0] @ wide[1] @ wide[2]
    kernel = through_memory(dtype)
    rounded = run(launch, kernel, a, b, c, precise=False, schedule=schedule)[0]
    precise = run(launch, kernel, a, b, c, precise=True, schedule=schedule)[0]
    assert worst(precise, exact) < 1e-3 < 1e-2 < worst(rounded, exact)


def elementwise() -> Any:
    """T.Parallel, scalar code, conversions and a register, all in float16."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def mixed(x: T.Tensor((ROWS, COLS), "float16"), y: T.Tensor((ROWS, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([ROWS, COLS], "float16")
                b = T.alloc_ub([ROWS, COLS], "float16")
                wide = T.alloc_ub([ROWS, COLS], "float32")
                T.copy(x, a)
                T.barrier_all()
                for i, j in T.Parallel(ROWS, COLS):
                    b[i, j] = T.exp(a[i, j]) * a[i, j]
                T.barrier_all()
                b[0, 0] = b[0, 1] + b[0, 2]
                T.barrier_all()
                T.tile.cast(wide, b, "CAST_NONE", ROWS * COLS)
                T.tile.mul(wide, wide, 3.0)
                T.tile.cast(b, wide, "CAST_FLOOR", ROWS * COLS)
                T.tile.exp(a, a)
                T.tile.add(b, b, a)
                T.tile.cast(wide, b, "CAST_NONE", ROWS * COLS)
                T.barrier_all()
                T.copy(wide, y)

        return mixed

    return factory()


def test_parallel_loops_scalars_and_conversions_keep_float32(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((ROWS, COLS)).astype(np.float16)
    wide = x.astype(np.float64)
    product = np.exp(wide) * wide
    product[0, 0] = product[0, 1] + product[0, 2]
    exact = 3 * product + np.exp(wide)
    rounded = run(launch, elementwise(), x, precise=False, schedule=schedule)[0]
    precise = run(launch, elementwise(), x, precise=True, schedule=schedule)[0]
    assert worst(precise, exact) < 2e-5 < 2e-3 < worst(rounded, exact)


def reinterpreting() -> Any:
    """Bits of half-precision elements changed by way of integers, and elements moved by offsets."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def bits(x: T.Tensor((COLS,), "float16"), y: T.Tensor((COLS,), "float16")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([COLS], "float16")
                raw = T.alloc_ub([COLS], "int16")
                mask = T.alloc_ub([COLS], "int16")
                T.copy(x, a)
                T.barrier_all()
                T.tile.add(a, a, a)
                T.reinterpretcast(raw, a, "int16_t")
                T.tile.fill(mask, 32767)
                T.tile.bitwise_and(raw, raw, mask)
                T.tile.mul(a, a, 0.5)
                T.barrier_all()
                T.copy(a, y)

        return bits

    return factory()


def test_bytes_written_by_other_means_count_as_they_are(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal(COLS).astype(np.float16)
    for precise in (False, True):
        found = run(launch, reinterpreting(), x, precise=precise)[0]
        np.testing.assert_array_equal(found, np.abs(x))


def test_a_clipped_move_leaves_the_clear_around_it(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def clipped(
            a: T.Tensor((20, K), "float16"),
            b: T.Tensor((K, 16), "float16"),
            y: T.Tensor((32, 16), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                left = T.alloc_L1([32, K], "float16")
                right = T.alloc_L1([K, 16], "float16")
                acc = T.alloc_L0C([32, 16], "float32")
                with T.Scope("C"):
                    for _ in T.serial(2):
                        T.copy(a[0:32, 0:K], left)
                        T.copy(b, right)
                        T.barrier_all()
                        T.gemm_v0(left, right, acc, init=True)
                        T.barrier_all()
                    T.copy(acc, y)

        return clipped

    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((20, K), (K, 16)))
    plain, precise = (run(launch, factory(), a, b, precise=p)[0] for p in (False, True))
    # The matrix library may sum in another order for operands at other addresses.
    np.testing.assert_allclose(plain, precise, rtol=1e-5, atol=1e-5)
    assert not plain[20:].any() and not precise[20:].any()


def test_float32_kernels_and_checks_are_untouched(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((TILES, ROWS, COLS)).astype(np.float32)
    kernel = mean(dtype="float32")
    plain, precise = (run(launch, kernel, x, precise=p)[0] for p in (False, True))
    np.testing.assert_array_equal(plain.view(np.uint8), precise.view(np.uint8))
    half = x.astype(np.float16)
    with sim.configure(precise=True):
        counters = launch(mean(), half).record.counters
    assert counters == launch(mean(), half).record.counters


def test_nothing_is_left_for_the_next_launch(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    kernel = mean()
    for _ in range(2):
        x = rng.random((TILES, ROWS, COLS)).astype(np.float16)
        exact = 0.1 * x.astype(np.float64).mean(axis=0)
        found = run(launch, kernel, x, precise=True)[0]
        assert worst(found, exact) < np.spacing(np.float16(exact.max())) * 0.51
        assert found.dtype == np.float16 and ml_dtypes.bfloat16 != found.dtype


def test_what_is_only_moved_keeps_its_bits(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def moved(x: T.Tensor((ROWS, COLS), "float16"), y: T.Tensor((ROWS, COLS), "float16")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([ROWS, COLS], "float16")
                b = T.alloc_ub([ROWS, COLS], "float16")
                T.copy(x, a)
                T.barrier_all()
                T.copy(a, b)
                T.barrier_all()
                T.copy(b, y)

        return moved

    records = rng.integers(0, 2**16, (ROWS, COLS), dtype=np.uint16).view(np.float16)
    found = run(launch, factory(), records, precise=True, schedule=schedule)[0]
    np.testing.assert_array_equal(found.view(np.uint16), records.view(np.uint16))
