"""Values of tile operations against NumPy, under all schedules, with and without checks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
ROWS, COLS = 8, 64


def two_operands(body: Callable[..., Any], dtype: str, out: str = "", **options: Any) -> Any:
    """z = body(z, x, y) on whole UB tiles; z starts as y."""
    out = out or dtype

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED, **options)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((ROWS, COLS), dtype),
            b: T.Tensor((ROWS, COLS), out),
            c: T.Tensor((ROWS, COLS), out),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([ROWS, COLS], dtype)
                y = T.alloc_ub([ROWS, COLS], out)
                z = T.alloc_ub([ROWS, COLS], out)
                T.copy(a, x)
                T.copy(b, y)
                T.copy(b, z)
                body(z, x, y)
                T.copy(z, c)

        return kernel

    return factory()


def sample(rng: np.random.Generator, dtype: str, positive: bool = False) -> Any:
    element = numpy_dtype(dtype)
    if element.kind in "iu":
        limits = np.iinfo(element)
        return rng.integers(limits.min, limits.max, (ROWS, COLS), element, endpoint=True)
    values = rng.standard_normal((ROWS, COLS)) * 3
    return (np.abs(values) + 0.1 if positive else values).astype(element)


FLOATS = ["float32", "float16"]
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


# --------------------------------------------------------------------------- fills


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


# --------------------------------------------------------------------------- casts

PAIRS = [
    ("float32", "float16"), ("float32", "bfloat16"), ("float32", "int32"), ("float32", "int16"),
    ("float32", "int64"), ("float32", "float32"), ("float16", "int8"), ("float16", "uint8"),
    ("float16", "int16"), ("float16", "int32"), ("bfloat16", "int32"), ("int32", "float32"),
    ("int32", "float16"), ("int16", "float16"), ("int64", "int32"), ("int32", "int16"),
    ("float16", "float32"), ("bfloat16", "float32"), ("int8", "float16"), ("uint8", "float16"),
]  # fmt: skip
MODES = ["CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC"]


def neighbours(value: float, element: np.dtype) -> tuple[float, float]:
    """The representable values around `value` (equal when it is one)."""
    if element.kind in "iu":
        info = np.iinfo(element)
        low, high = int(np.floor(value)), int(np.ceil(value))
        return min(max(low, info.min), info.max), min(max(high, info.min), info.max)
    near = np.array([value]).astype(element)
    if float(near[0]) == value:
        return value, value
    bits = near.view(np.dtype(f"i{element.itemsize}"))
    below = float(near[0])
    step = 1 if (below < value) == (below > 0 or (below == 0 and value > 0)) else -1
    if below == 0:
        other = np.array([1 if value > 0 else -(2 ** (8 * element.itemsize - 1)) + 1], bits.dtype)
    else:
        other = bits + np.array(step, bits.dtype)
    far = float(other.view(element)[0])
    return min(below, far), max(below, far)


def rounded(value: float, element: np.dtype, mode: str) -> float:
    low, high = neighbours(value, element)
    if low == high:
        return low
    if mode == "CAST_FLOOR":
        return low
    if mode == "CAST_CEIL":
        return high
    if mode == "CAST_TRUNC":
        return low if value > 0 else high
    if value - low == high - value:
        if mode == "CAST_ROUND":
            return high if value > 0 else low
        if element.kind in "iu":
            return low if int(low) % 2 == 0 else high
        even = np.array([low]).astype(element).view(np.dtype(f"u{element.itemsize}"))[0] % 2 == 0
        return low if even else high
    return low if value - low < high - value else high


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_cast(
    launch: Callable[..., Any], rng: np.random.Generator, source: str, target: str, mode: str
) -> None:
    element, goal = numpy_dtype(source), numpy_dtype(target)
    a = sample(rng, source)
    if element.kind == "f" or source == "bfloat16":
        a = (a * rng.choice([0.01, 1, 50], a.shape)).astype(element)
        ties = np.array(
            [0.5, 1.5, -0.5, -2.5, 3.0, 0.0, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 1 + 2**-8]
        )
        a[0, : ties.size] = ties.astype(element)
    elif source == "int32" and target == "float16":
        a = (a % 60000).astype(element)
    got = launch(
        two_operands(lambda z, x, y: T.tile.cast(z, x, mode, ROWS * COLS), source, target),
        a,
        np.zeros((ROWS, COLS), goal),
    ).outputs[0]
    if source == target:
        expected = np.array(
            [
                a.ravel()[i] if mode == "CAST_NONE" else rounded(float(v), np.dtype("int64"), mode)
                for i, v in enumerate(a.ravel().tolist())
            ]
        )
    else:
        expected = np.array(
            [rounded(v, goal, mode) for v in a.astype(object).ravel().tolist()]
            if goal.kind in "iu" and element.kind in "iu"
            else [rounded(float(v), goal, mode) for v in a.ravel()]
        )
    np.testing.assert_array_equal(got.ravel().astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("mode", ["CAST_RINT", "CAST_FLOOR", "CAST_TRUNC"])
def test_casts_at_the_ends_of_the_range(launch: Callable[..., Any], mode: str) -> None:
    a = np.zeros((ROWS, COLS), np.float32)
    a[0, :8] = [np.inf, -np.inf, np.nan, 3e9, -3e9, 2.0**31, 70000, -70000]

    def run(target: str) -> Any:
        kernel = two_operands(
            lambda z, x, y: T.tile.cast(z, x, mode, ROWS * COLS), "float32", target
        )
        return launch(kernel, a, np.zeros((ROWS, COLS), numpy_dtype(target))).outputs[0][0, :8]

    top = 2**31 - 1
    assert run("int32").tolist() == [top, -top - 1, 0, top, -top - 1, top, 70000, -70000]
    assert run("int16").tolist() == [32767, -32768, 0, 32767, -32768, 32767, 32767, -32768]
    assert run("int64").tolist()[:2] == [2**63 - 1, -(2**63)]
    half = run("float16")
    assert np.isnan(half[2])
    over = np.inf if mode == "CAST_RINT" else 65504
    assert half[6] == over and half[0] == np.inf


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_cast_from_int32_to_half_scales(
    agreeing: Callable[..., Any], rng: np.random.Generator, scale: float
) -> None:
    @T.macro
    def body(z, x, y):
        T.set_deq_scale(scale)
        T.tile.cast(z, x, "CAST_NONE", ROWS * COLS)

    a = rng.integers(-9000, 9000, (ROWS, COLS)).astype(np.int32)
    got = agreeing(two_operands(body, "int32", "float16"), a, np.zeros((ROWS, COLS), np.float16))[0]
    np.testing.assert_array_equal(got, (a * scale).astype(np.float16))


# --------------------------------------------------------------------------- compare, select

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


# --------------------------------------------------------------------------- reduce and rearrange


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
