"""Casts and their rounding modes against NumPy, under all schedules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T
from tests.kernels_npu.sim.machine.tiles import COLS, ROWS, sample, two_operands

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
