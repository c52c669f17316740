"""Operations on the first `count` elements, and what the pto generator makes of the count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.ops.conftest import SYNCED, UNUSED, tile_kernel

SHAPE = (3, 48)
COUNTED: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[str]]] = {
    "clamp": (
        lambda z, x, y, n: T.tile.clamp(z, x, -1.5, 2.0, n),
        lambda a, b: np.clip(a, a.dtype.type(-1.5), a.dtype.type(2)),
        ["float32", "float16"],
    ),
    "clamp_max": (
        lambda z, x, y, n: T.tile.clamp_max(z, x, 1.0, n),
        lambda a, b: np.minimum(a, 1),
        ["float32", "float16", "int32"],
    ),
    "clamp_min": (
        lambda z, x, y, n: T.tile.clamp_min(z, x, -1.0, n),
        lambda a, b: np.maximum(a, -1),
        ["float32", "float16", "int16"],
    ),
    "round": (
        lambda z, x, y, n: T.tile.round(z, x, n),
        lambda a, b: np.rint(a),
        ["float32", "float16"],
    ),
    "sub_experiment": (
        lambda z, x, y, n: T.tile.sub_experiment(z, x, y, n),
        lambda a, b: a - b,
        ["float32", "float16", "int32", "int16"],
    ),
    "abs_experiment": (
        lambda z, x, y, n: T.tile.abs_experiment(z, x, n),
        lambda a, b: np.abs(a),
        ["float32", "float16"],
    ),
    "mins_experiment": (
        lambda z, x, y, n: T.tile.mins_experiment(z, x, 1.0, n),
        lambda a, b: np.minimum(a, 1),
        ["float32", "float16", "int32"],
    ),
}
CASES = [(name, dtype) for name, row in COUNTED.items() for dtype in row[2]]


@pytest.mark.parametrize("count", [1, 37, 144])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_first_elements(
    launch: Callable[..., Any], sample: Callable[..., Any], name: str, dtype: str, count: int
) -> None:
    operation, oracle, _ = COUNTED[name]
    a, b, before = (sample(SHAPE, dtype) for _ in range(3))
    kernel = tile_kernel(
        lambda z, x, y, w: operation(z, x, y, count), (SHAPE, dtype), (SHAPE, dtype), (SHAPE, dtype)
    )
    expected = before.copy()
    with np.errstate(over="ignore"):
        expected.reshape(-1)[:count] = oracle(a, b).reshape(-1)[:count]
    result = launch(kernel, a, b, UNUSED, before)
    assert result.codes == set()
    np.testing.assert_array_equal(result.outputs[0], expected)


@pytest.mark.parametrize("name", ["clamp", "round"])
def test_in_place_under_all_schedules(
    agreeing: Callable[..., Any], sample: Callable[..., Any], name: str
) -> None:
    operation, oracle, _ = COUNTED[name]
    a = sample(SHAPE, "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: operation(z, z, y, 99), (SHAPE, "float32"), (SHAPE, "float32")
    )
    expected = a.copy()
    expected.reshape(-1)[:99] = oracle(a, a).reshape(-1)[:99]
    np.testing.assert_array_equal(agreeing(kernel, a, UNUSED, UNUSED, a)[0], expected)


def test_a_count_beyond_the_buffer_is_reported(
    launch: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a = sample(SHAPE, "float32")
    for count, codes in ((144, set()), (145, {"AI-BOUND-013"})):
        kernel = tile_kernel(
            lambda z, x, y, w, n=count: T.tile.round(z, x, n),
            (SHAPE, "float32"),
            (SHAPE, "float32"),
        )
        assert launch(kernel, a, UNUSED, UNUSED, a).codes == codes


@pytest.mark.parametrize(("count", "codes"), [(144, set()), (50, {"AI-BOUND-030"})])
def test_pto_ignores_the_count(
    launch: Callable[..., Any], sample: Callable[..., Any], count: int, codes: set[str]
) -> None:
    a, before = sample(SHAPE, "float32"), sample(SHAPE, "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.clamp_min(z, x, 0.0, count),
        (SHAPE, "float32"),
        (SHAPE, "float32"),
        target="pto",
    )
    result = launch(kernel, a, UNUSED, UNUSED, before)
    assert result.codes == codes
    np.testing.assert_array_equal(result.outputs[0], np.maximum(a, 0))


@pytest.mark.parametrize("target", ["ascendc", "pto"])
def test_ties_round_to_even_or_away(launch: Callable[..., Any], target: str) -> None:
    a = np.array([0.5, 1.5, -0.5, -2.5, 0.49999997, 2.4999998, -3.5, 8388609.0], np.float32)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.round(z, x, 8),
        ((8,), "float32"),
        ((8,), "float32"),
        target=target,
    )
    away = np.array([1, 2, -1, -3, 0, 2, -4, 8388609], np.float32)
    expected = away if target == "pto" else np.rint(a)
    np.testing.assert_array_equal(launch(kernel, a, UNUSED, UNUSED, a).outputs[0], expected)


def test_missing_dtypes_are_reported(
    launch: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a = sample((64,), "int8")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.clamp_max(z, x, 3, 64), ((64,), "int8"), ((64,), "int8")
    )
    assert {f.code for f in launch(kernel, a, UNUSED, UNUSED, a).errors} == {"AI-TYPE-001"}


def test_a_count_beyond_a_slice_goes_on_behind_it(
    launch: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a = sample((4, 64), "float32")

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((4, 64), "float32"), b: T.Tensor((4, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub((4, 64), "float32")
                z = T.alloc_ub((4, 64), "float32")
                T.copy(a, x)
                for i in T.serial(4):
                    T.tile.clamp(z[i, :], x[i, :], -1.0, 1.0, 4 * 64)
                T.copy(z, b)

        return kernel

    result = launch(factory(), a)
    assert result.codes == {"AI-BOUND-013"}
    np.testing.assert_array_equal(result.outputs[0], np.clip(a, -1, 1))
