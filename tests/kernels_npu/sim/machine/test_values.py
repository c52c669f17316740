"""Values of tile operations against NumPy, under all schedules, with and without checks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import COLS, FLOATS, ROWS, SYNCED, sample, two_operands

BINARY: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "add": (np.add, [*FLOATS, "int32", "int16"]),
    "sub": (np.subtract, [*FLOATS, "int32", "int16"]),
    "mul": (np.multiply, [*FLOATS, "int32", "int16"]),
    "div": (np.divide, FLOATS),
    "max": (np.maximum, [*FLOATS, "int32", "int16"]),
    "min": (np.minimum, [*FLOATS, "int32", "int16"]),
    "bitwise_and": (np.bitwise_and, ["int16", "uint16", "int32"]),
    "bitwise_or": (np.bitwise_or, ["int16", "uint16", "int32"]),
    "bitwise_xor": (np.bitwise_xor, ["int16", "uint16", "int32"]),
}
BINARY_CASES = [(n, d) for n, (_, dtypes) in BINARY.items() for d in dtypes]


@pytest.mark.parametrize(("name", "dtype"), BINARY_CASES)
def test_two_tiles(
    agreeing: Callable[..., Any], rng: np.random.Generator, name: str, dtype: str
) -> None:
    op, oracle = getattr(T.tile, name), BINARY[name][0]
    a, b = sample(rng, dtype), sample(rng, dtype)
    with np.errstate(all="ignore"):
        expected = oracle(a, b)
    np.testing.assert_array_equal(
        agreeing(two_operands(lambda z, x, y: op(z, x, y), dtype), a, b)[0], expected
    )
    in_place = agreeing(two_operands(lambda z, x, y: op(x, x, y), dtype), a, b)
    np.testing.assert_array_equal(in_place[0], b)
    with np.errstate(all="ignore"):
        expected = oracle(b, a)
    np.testing.assert_array_equal(
        agreeing(two_operands(lambda z, x, y: op(z, z, x), dtype), a, b)[0], expected
    )


SCALARS = [
    ("add", "float16", 1.5, lambda a: a + np.float16(1.5)),
    ("sub", "float32", 0.1, lambda a: a + np.float32(-0.1)),
    ("sub", "uint32", 5, lambda a: a - np.uint32(5)),
    ("sub", "int32", -(2**31), lambda a: a - np.int32(-(2**31))),
    ("add", "int16", 70000, lambda a: a + np.int16(70000 - 65536)),
    ("mul", "int32", 1103515245, lambda a: a * np.int32(1103515245)),
    ("div", "float32", 3.0, lambda a: a * (np.float32(1) / np.float32(3))),
    ("div", "float16", 3.0, lambda a: a * np.float16(np.float32(1) / np.float32(3))),
    ("max", "float32", 0.0, lambda a: np.maximum(a, 0)),
    ("min", "int32", 7, lambda a: np.minimum(a, 7)),
]


@pytest.mark.parametrize(("name", "dtype", "scalar", "oracle"), SCALARS)
def test_tile_and_scalar(
    agreeing: Callable[..., Any],
    rng: np.random.Generator,
    name: str,
    dtype: str,
    scalar: Any,
    oracle: Any,
) -> None:
    op = getattr(T.tile, name)
    a = sample(rng, dtype)
    with np.errstate(all="ignore"):
        expected = oracle(a)
    got = agreeing(two_operands(lambda z, x, y: op(z, x, scalar), dtype), a, a)[0]
    np.testing.assert_array_equal(got, expected)


def run_time_scalar(dtype: str) -> Any:
    """Operands: a scalar parameter, a loop variable, an element of UB and one of global memory."""

    @tilelang.jit(out_idx=[3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            s: T.float32,
            a: T.Tensor((ROWS, COLS), dtype),
            g: T.Tensor((4,), dtype),
            c: T.Tensor((ROWS, COLS), dtype),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([ROWS, COLS], dtype)
                v = T.alloc_ub([ROWS, 1], dtype)
                T.copy(a, x)
                T.tile.createvecindex(v, 1.0)
                T.tile.add(x, x, s)
                for i in T.serial(ROWS):
                    T.tile.mul(x[i, :], x[i, :], v[i, 0])
                    T.tile.sub(x[i, :], x[i, :], i)
                    T.tile.div(x[i, :], x[i, :], g[2])
                T.copy(x, c)

        return kernel

    return factory()


@pytest.mark.parametrize("dtype", FLOATS)
def test_run_time_scalars(
    agreeing: Callable[..., Any], rng: np.random.Generator, dtype: str
) -> None:
    element = numpy_dtype(dtype)
    a = sample(rng, dtype)
    g = np.array([9, 9, 3, 9], element)
    x = a + element.type(np.float32(0.1))
    for i in range(ROWS):
        x[i] = x[i] * element.type(i + 1)
        x[i] = x[i] + element.type(-i)
        x[i] = x[i] * element.type(np.float32(1) / np.float32(3))
    np.testing.assert_array_equal(agreeing(run_time_scalar(dtype), 0.1, a, g)[0], x)


UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "ln": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "relu": lambda a: np.maximum(a, 0),
    "sin": np.sin,
    "cos": np.cos,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "silu": lambda a: a / (1 + np.exp(-a)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_one_tile(
    agreeing: Callable[..., Any], rng: np.random.Generator, name: str, dtype: str
) -> None:
    op = getattr(T.tile, name)
    a = sample(rng, dtype, positive=name in ("ln", "sqrt", "rsqrt", "reciprocal"))
    got = agreeing(two_operands(lambda z, x, y: op(z, x), dtype), a, a)[0]
    expected = UNARY[name](a.astype(np.float64))
    tolerance = 2e-6 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint32"])
def test_shifts_and_complement(
    agreeing: Callable[..., Any], rng: np.random.Generator, dtype: str
) -> None:
    a = sample(rng, dtype)

    def body(z: Any, x: Any, y: Any) -> Any:
        return T.tile.bitwise_rshift(z, x, 3)

    np.testing.assert_array_equal(agreeing(two_operands(body, dtype), a, a)[0], a >> 3)

    def left(z: Any, x: Any, y: Any) -> Any:
        return T.tile.bitwise_lshift(z, x, 5)

    np.testing.assert_array_equal(agreeing(two_operands(left, dtype), a, a)[0], a << 5)

    def complement(z: Any, x: Any, y: Any) -> Any:
        return T.tile.bitwise_not(z, x)

    np.testing.assert_array_equal(agreeing(two_operands(complement, dtype), a, a)[0], ~a)


def test_accumulating_operations(agreeing: Callable[..., Any], rng: np.random.Generator) -> None:
    a, b = sample(rng, "float32"), sample(rng, "float32")
    got = agreeing(two_operands(lambda z, x, y: T.tile.axpy(z, x, 0.3), "float32"), a, b)[0]
    np.testing.assert_array_equal(got, b + a * np.float32(0.3))
    got = agreeing(two_operands(lambda z, x, y: T.tile.mul_add_dst(z, x, y), "float32"), a, b)[0]
    np.testing.assert_array_equal(got, b + a * b)
    got = agreeing(two_operands(lambda z, x, y: T.tile.leaky_relu(z, x, 0.1), "float32"), a, b)[0]
    np.testing.assert_array_equal(got, np.where(a >= 0, a, a * np.float32(0.1)))


def test_half_source_accumulates_in_float(
    agreeing: Callable[..., Any], rng: np.random.Generator
) -> None:
    a, b = sample(rng, "float16"), sample(rng, "float32")
    got = agreeing(
        two_operands(lambda z, x, y: T.tile.axpy(z, x, 0.3), "float16", "float32"), a, b
    )[0]
    np.testing.assert_array_equal(got, b + a.astype(np.float32) * np.float32(np.float16(0.3)))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float16", float("-inf"), -np.inf),
        ("float32", 0.1, np.float32(0.1)),
        ("int16", 70000, 4464),
        ("uint8", -1, 255),
        ("uint32", -1, 2**32 - 1),
        ("int32", 2.7, 2),
        ("int32", float("inf"), 2**31 - 1),
        ("bfloat16", 1.0, 1.0),
    ],
)
def test_fill(agreeing: Callable[..., Any], dtype: str, value: Any, expected: Any) -> None:
    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((ROWS, COLS), dtype)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([ROWS, COLS], dtype)
                T.tile.fill(a, value)
                T.copy(a, y)

        return kernel

    y = agreeing(factory())[0]
    np.testing.assert_array_equal(y, np.full((ROWS, COLS), expected).astype(numpy_dtype(dtype)))
