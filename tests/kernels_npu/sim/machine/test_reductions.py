"""Reductions, broadcasts, gather and transpose against NumPy, under all schedules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import COLS, FLOATS, ROWS, SYNCED, two_operands


def reduction(name: str, dim: int, clear: bool, real: Any, dtype: str, target: str) -> Any:
    size = (real[0] or ROWS) if dim == -1 else (real[1] or COLS)

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        reduce = getattr(T, name)

        @T.prim_func
        def kernel(
            a: T.Tensor((ROWS, COLS), dtype),
            b: T.Tensor((size,), dtype),
            c: T.Tensor((size,), dtype),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([ROWS, COLS], dtype)
                out = T.alloc_ub([size], dtype)
                T.copy(a, x)
                T.copy(b, out)
                reduce(x, out, dim=dim, clear=clear, real_shape=list(real))
                T.copy(out, c)

        return kernel

    return factory()


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_min"])
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("real", [(0, 0), (5, 0), (0, 40), (3, 17)])
def test_reduce(
    agreeing: Callable[..., Any],
    rng: np.random.Generator,
    name: str,
    dim: int,
    clear: bool,
    real: tuple[int, int],
) -> None:
    a = rng.integers(-20, 20, (ROWS, COLS)).astype(np.float32)
    part = a[: real[0] or ROWS, : real[1] or COLS]
    fold = {"reduce_sum": np.add, "reduce_max": np.maximum, "reduce_min": np.minimum}[name]
    expected = fold.reduce(part, axis=dim)
    b = rng.integers(-20, 20, expected.shape).astype(np.float32)
    if not clear:
        expected = fold(b, expected)
    target = "pto" if real[1] else "ascendc"  # AscendC takes another row pitch for a shorter row
    got = agreeing(reduction(name, dim, clear, real, "float32", target), a, b)[0]
    np.testing.assert_array_equal(got, expected)


def test_old_output_of_a_merging_reduction_must_be_written(launch: Callable[..., Any]) -> None:
    def factory(clear: bool) -> Any:
        @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
        def make() -> Any:
            @T.prim_func
            def kernel(a: T.Tensor((ROWS, COLS), "float32"), c: T.Tensor((ROWS,), "float32")):
                with T.Kernel(1, is_npu=True, threads=1) as _cid:
                    x = T.alloc_ub([ROWS, COLS], "float32")
                    out = T.alloc_ub([ROWS], "float32")
                    T.copy(a, x)
                    T.reduce_sum(x, out, dim=-1, clear=clear)
                    T.copy(out, c)

            return kernel

        return make()

    a = np.ones((ROWS, COLS), np.float32)
    assert launch(factory(True), a).record.findings == ()
    assert launch(factory(False), a).codes == {"AI-INIT-001"}


def spread(shape: tuple[int, ...], axis: int | None) -> Any:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor(shape, "float32"), c: T.Tensor((ROWS, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub(list(shape), "float32")
                z = T.alloc_ub([ROWS, COLS], "float32")
                T.copy(a, x)
                T.tile.broadcast(z, x, axis)
                T.copy(z, c)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((COLS,), None),
        ((COLS,), 0),
        ((ROWS,), None),
        ((ROWS,), 1),
        ((1, COLS), None),
        ((ROWS, COLS), None),
    ],
)
def test_broadcast(
    agreeing: Callable[..., Any], rng: np.random.Generator, shape: tuple[int, ...], axis: int | None
) -> None:
    a = rng.standard_normal(shape).astype(np.float32)
    column = shape == (ROWS,)
    expected = np.broadcast_to(a[:, None] if column else a, (ROWS, COLS))
    np.testing.assert_array_equal(agreeing(spread(shape, axis), a)[0], expected)


def gathering(base: int, beyond: bool = False) -> Any:
    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((128,), "float32"),
            i: T.Tensor((64,), "uint32"),
            c: T.Tensor((64,), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([64], "float32")
                rest = T.alloc_ub([64], "float32")
                index = T.alloc_ub([64], "uint32")
                z = T.alloc_ub([64], "float32")
                T.copy(a[0:64], x)
                T.copy(a[64:128], rest)
                T.copy(i, index)
                T.tile.gather(z, x, index, base)
                T.copy(z, c)

        return kernel

    return factory()


def test_gather_takes_bytes_and_may_run_on(
    launch: Callable[..., Any], agreeing: Callable[..., Any], rng: np.random.Generator
) -> None:
    a = rng.standard_normal(128).astype(np.float32)
    index = rng.integers(0, 128, 64)
    got = agreeing(gathering(0), a, (index * 4).astype(np.uint32))[0]
    np.testing.assert_array_equal(got, a[index])
    low = rng.integers(0, 64, 64)
    got = agreeing(gathering(32), a, (low * 4).astype(np.uint32))[0]
    np.testing.assert_array_equal(got, a[low + 8])
    far = (index * 4).astype(np.uint32)
    far[7] = 10**6
    (finding,) = launch(gathering(0), a, far).errors
    assert finding.code == "AI-BOUND-002" and "1000000" in finding.message
    assert launch(gathering(0), a, far, checks=Checks.none()).errors == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_transpose(agreeing: Callable[..., Any], rng: np.random.Generator, dtype: str) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((16, 48), dtype), c: T.Tensor((48, 16), dtype)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([16, 48], dtype)
                z = T.alloc_ub([48, 16], dtype)
                T.copy(a, x)
                T.tile.transpose(z, x)
                T.copy(z, c)

        return kernel

    a = rng.standard_normal((16, 48)).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(agreeing(factory(), a)[0], a.T)


def test_index_vectors(agreeing: Callable[..., Any]) -> None:
    @T.macro
    def body(z, x, y):
        T.tile.arith_progression(z, 5, -3, 100)

    b = np.zeros((ROWS, COLS), np.int32)
    got = agreeing(two_operands(body, "int32"), b, b)[0].ravel()
    assert got[:100].tolist() == [5 - 3 * i for i in range(100)] and not got[100:].any()
    got = agreeing(
        two_operands(lambda z, x, y: T.tile.createvecindex(z, 7), "int16"),
        b.astype(np.int16),
        b.astype(np.int16),
    )[0]
    np.testing.assert_array_equal(got.ravel(), np.arange(7, 7 + ROWS * COLS))
