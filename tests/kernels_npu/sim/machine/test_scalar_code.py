"""Scalar code against C arithmetic: widths, division, conversions, loops, registers, lazy reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine.scalar_math import SERVICES


def binary_kernel(compute: Callable[[Any, Any], Any], dtype: str, out: str, n: int) -> Any:
    """c[i] = compute(a[i], b[i]) element by element, through UB."""

    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((n,), dtype), b: T.Tensor((n,), dtype), c: T.Tensor((n,), out)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([n], dtype)
                y = T.alloc_ub([n], dtype)
                z = T.alloc_ub([n], out)
                with T.Scope("V"):
                    T.copy(a, x)
                    T.copy(b, y)
                    T.barrier_all()
                    for i in T.serial(n):
                        z[i] = compute(x[i], y[i])
                    T.barrier_all()
                    T.copy(z, c)

        return kernel

    return factory()


INTEGERS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "xor": (lambda a, b: a ^ b, lambda a, b: a ^ b),
    "lcg": (lambda a, b: a * 1103515245 + 12345, lambda a, b: a * 1103515245 + 12345),
    "floordiv": (lambda a, b: a // b, lambda a, b: int(np.trunc(int(a) / int(b)))),
    "mod": (lambda a, b: a % b, lambda a, b: int(np.fmod(int(a), int(b)))),
    "shift": (lambda a, b: a << 5, lambda a, b: a << 5),
    "right": (lambda a, b: a >> 3, lambda a, b: a >> 3),
    "min": (lambda a, b: T.min(a, b), min),
    "compare": (lambda a, b: (a < b) + (a == b), lambda a, b: int(a < b) + int(a == b)),
}


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_and_divide_like_c(
    agreeing: Callable[..., Any], rng: np.random.Generator, name: str, dtype: str
) -> None:
    kernel, oracle = INTEGERS[name]
    limits = np.iinfo(dtype)
    small = 100 if name in ("floordiv", "mod") else limits.max
    a = rng.integers(-100 if limits.min else 0, small, 24).astype(dtype)
    b = rng.integers(1, small, 24).astype(dtype)
    a[:4] = [limits.max, limits.min, 1, 0] if name not in ("floordiv", "mod") else [7, 0, 8, 9]
    if limits.min and name in ("floordiv", "mod"):
        b[::2] *= -1
    got = agreeing(binary_kernel(kernel, dtype, dtype, 24), a, b)[0]
    span = 1 << (limits.bits)
    exact = [int(oracle(int(x), int(y))) for x, y in zip(a, b)]
    wrapped = [(v - int(limits.min)) % span + int(limits.min) for v in exact]
    assert got.tolist() == wrapped


@pytest.mark.parametrize(
    ("compute", "oracle"),
    [
        (lambda a, b: a * b + a, lambda a, b: a * b + a),
        (lambda a, b: (a - b) / (a + 0.1), lambda a, b: (a - b) / (a + np.float32(0.1))),
        (lambda a, b: a * 3e38 * b, lambda a, b: a * np.float32(3e38) * b),
        (lambda a, b: a / (b - b), lambda a, b: a / (b - b)),
        (lambda a, b: T.max(a, b) - T.min(b, a), lambda a, b: np.abs(a - b)),
    ],
    ids=["fma", "quotient", "overflow", "by-zero", "extremes"],
)
def test_floats_round_after_every_operation_and_never_raise(
    agreeing: Callable[..., Any], rng: np.random.Generator, compute: Any, oracle: Any
) -> None:
    a, b = (rng.standard_normal(16).astype(np.float32) for _ in range(2))
    got = agreeing(binary_kernel(compute, "float32", "float32", 16), a, b)[0]
    with np.errstate(all="ignore"):
        expected = oracle(a, b).astype(np.float32)
    np.testing.assert_array_equal(got, expected)


def test_register_sums_in_its_own_precision(agreeing: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((1,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                total = T.alloc_var("float32", init=0.0)
                for i in T.serial(64):
                    total = total + x[i]
                y[0] = total

        return kernel

    x = np.full(64, 0.1, np.float32)
    x[0] = 2.0**24
    expected = np.float32(0)
    for value in x:
        expected = np.float32(expected + value)
    assert agreeing(factory(), x)[0][0] == expected != np.float32(x.astype(float).sum())


CASTS = [
    (
        "float32",
        "int32",
        [1.7, -1.7, 3e9, -3e9, np.nan, np.inf],
        [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1],
    ),
    ("float32", "uint8", [255.9, -1.0, 256.0, 0.5, 7.0, np.nan], [255, 0, 255, 0, 7, 0]),
    (
        "int64",
        "int32",
        [2**31, -(2**31) - 1, 5, -5, 2**40 + 3, 0],
        [-(2**31), 2**31 - 1, 5, -5, 3, 0],
    ),
    ("uint32", "int32", [2**32 - 1, 5, 2**31, 0, 1, 2], [-1, 5, -(2**31), 0, 1, 2]),
    ("int32", "float16", [70000, 2049, -3, 0, 1, 65504], [np.inf, 2048, -3, 0, 1, 65504]),
]


@pytest.mark.parametrize(("source", "target", "values", "expected"), CASTS)
def test_conversions(
    agreeing: Callable[..., Any], source: str, target: str, values: list[Any], expected: list[Any]
) -> None:
    a = np.array(values, dtype=source)
    kernel = binary_kernel(lambda x, y: T.cast(x, target), source, target, len(values))
    got = agreeing(kernel, a, a)[0]
    np.testing.assert_array_equal(got, np.array(expected, dtype=target))


def guarded(kind: str, n: int) -> Any:
    """Reads x[i] only where i is inside; the loop runs past the end."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((n,), "int32"), y: T.Tensor((n + 3,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                z = T.alloc_ub([n + 3], "int32")
                with T.Scope("V"):
                    for i in T.serial(n + 3):
                        if kind == "select":
                            z[i] = T.if_then_else(i < n, x[i], -1)
                        if kind == "and":
                            z[i] = T.And(i < n, x[i] > 0)
                        if kind == "or":
                            z[i] = T.Or(i >= n, x[i] > 0)
                        if kind == "plain":
                            z[i] = x[i]
                    T.barrier_all()
                    T.copy(z, y)

        return kernel

    return factory()


@pytest.mark.parametrize("kind", ["select", "and", "or"])
def test_reads_that_a_condition_excludes_do_not_happen(
    agreeing: Callable[..., Any], rng: np.random.Generator, kind: str
) -> None:
    x = rng.integers(-5, 5, 7).astype(np.int32)
    padded = np.concatenate([x, [-1, -1, -1]])
    expected = {"select": padded, "and": padded > 0, "or": (padded > 0) | (np.arange(10) >= 7)}
    np.testing.assert_array_equal(agreeing(guarded(kind, 7), x)[0], expected[kind])


def test_read_past_the_end_is_reported_once(launch: Callable[..., Any]) -> None:
    result = launch(guarded("plain", 7), np.zeros(7, np.int32))
    assert [f.code for f in result.errors] == ["AI-BOUND-001"]
    assert "x[7]" in result.errors[0].message


def division(divisor: int) -> Any:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((4,), "int32"), y: T.Tensor((4,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                for i in T.serial(4):
                    y[i] = 12 // (x[i] - divisor)

        return kernel

    return factory()


@pytest.mark.parametrize("checks", [Checks(), Checks.none()])
def test_division_by_zero_names_the_line(launch: Callable[..., Any], checks: Checks) -> None:
    x = np.arange(1, 5, dtype=np.int32)
    clean = launch(division(0), x, checks=checks)
    assert clean.outputs[0].tolist() == [12, 6, 4, 3]
    (finding,) = launch(division(2), x, checks=checks).errors
    assert finding.code == "AI-SRC-062"
    assert finding.loc is not None and finding.loc.file == __file__


def test_nested_loops_while_and_persistent(agreeing: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((5,), "int32"), y: T.Tensor((5, 8), "int32")):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                row = T.alloc_ub([1, 8], "int32")
                with T.Scope("V"):
                    for w in T.serial(3):
                        i = w * 2 + cid
                        if i < 5:
                            n = x[i]
                            steps = T.alloc_var("int32", init=0)
                            while n + steps < 20:
                                steps = steps + 3
                            for j in T.serial(8):
                                row[0, j] = j
                                for _k in range(j, 0):
                                    row[0, j] = 99
                                for k in T.serial(2, n):
                                    row[0, j] = row[0, j] + k * steps
                            T.barrier_all()
                            T.copy(row, y[i, :])
                            T.barrier_all()

        return kernel

    x = np.array([3, 19, 20, 25, 7], np.int32)
    expected = []
    for n in x:
        steps = 0
        while n + steps < 20:
            steps += 3
        expected.append([j + sum(range(2, n)) * steps for j in range(8)])
    np.testing.assert_array_equal(agreeing(factory(), x)[0], expected)


def many_elements(memory: str, n: int, synced: bool) -> Any:
    """Tens of thousands of single elements, then moves of the whole buffer."""

    @tilelang.jit(out_idx=[0], pass_configs={"tl.ascend_auto_sync": synced})
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((n,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([n], "int32")
                with T.Scope("V"):
                    for i in T.serial(n):
                        if memory == "ub":
                            a[i] = i
                        else:
                            y[i] = i
                    if memory == "ub":
                        for i in T.serial(n - 1):
                            a[i] = a[i] + a[i + 1]
                        for _i in T.serial(50):
                            T.barrier_all()
                            T.tile.add(a, a, 1)
                        T.barrier_all()
                        T.copy(a, y)

        return kernel

    return factory()


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("memory", ["ub", "global"])
def test_many_single_elements(launch: Callable[..., Any], memory: str, synced: bool) -> None:
    """With a cost per element that grows with their number, this would take minutes."""
    n = 40000
    result = launch(many_elements(memory, n, synced))
    assert result.record.findings == ()
    expected = np.arange(n)
    if memory == "ub":
        expected[:-1] += expected[1:]
        expected += 50
    np.testing.assert_array_equal(result.outputs[0], expected)


def test_folded_constants_wrap(launch: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[0])
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((2,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                y[0] = T.int32(2**31 - 1) + 1
                y[1] = T.int32(1) << 31

        return kernel

    assert launch(factory()).outputs[0].tolist() == [-(2**31)] * 2


def test_no_service_has_a_name_that_is_generated_for_a_buffer_or_a_site() -> None:
    generated = re.compile(r"[A-Za-z]v?\d+")
    assert [name for name in SERVICES if generated.fullmatch(name)] == []
