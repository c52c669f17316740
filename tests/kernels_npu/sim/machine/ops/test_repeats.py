"""Operations that address UB in iterations of 32-byte blocks with strides."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T
from tests.kernels_npu.sim.machine.ops.conftest import UNUSED, tile_kernel

HALF, FLOAT = "float16", "float32"


def one_source(
    body: Callable[..., Any], size: int, results: int, dtype: str, **options: Any
) -> Any:
    return tile_kernel(
        lambda z, x, y, w: body(z, x), ((size,), dtype), ((results,), dtype), **options
    )


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(("dtype", "mask"), [(HALF, 128), (HALF, 50), (FLOAT, 64), (FLOAT, 7)])
def test_whole_reduce(
    launch: Callable[..., Any], rng: np.random.Generator, kind: str, dtype: str, mask: int
) -> None:
    repeat, stride = 3, 8
    per_repeat = 256 // np.dtype(dtype).itemsize
    a = rng.standard_normal(repeat * per_repeat).astype(dtype)
    width = 1 if kind == "sum" else 2
    before = np.zeros(32, dtype)
    operation = getattr(T.tile, f"wholereduce{kind}")
    kernel = one_source(lambda z, x: operation(z, x, mask, repeat, 2, 1, stride), a.size, 32, dtype)
    result = launch(kernel, a, UNUSED, UNUSED, before)
    assert result.codes == set()
    expected = before.copy()
    for r in range(repeat):
        lanes = a[r * per_repeat : r * per_repeat + mask]
        if kind == "sum":
            expected[2 * r] = lanes.astype(np.float64).sum()
            continue
        expected[2 * r * width] = getattr(np, kind)(lanes)
        place = np.array([getattr(np, f"arg{kind}")(lanes)], f"u{a.itemsize}")
        expected[2 * r * width + 1] = place.view(dtype)[0]
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-3, atol=1e-2)
    if kind != "sum":
        np.testing.assert_array_equal(
            result.outputs[0].view(f"u{a.itemsize}"), expected.view(f"u{a.itemsize}")
        )


def test_order_of_value_and_position(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    a = rng.standard_normal(64).astype(FLOAT)
    for order, place in (("ORDER_INDEX_VALUE", 1), ("ORDER_ONLY_VALUE", 0)):
        kernel = one_source(
            lambda z, x, o=order: T.tile.wholereducemax(z, x, 64, 1, 1, 1, 8, o), 64, 8, FLOAT
        )
        got = launch(kernel, a, UNUSED, UNUSED, np.zeros(8, FLOAT)).outputs[0]
        assert got[place] == a.max()


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_block_reduce(
    launch: Callable[..., Any], rng: np.random.Generator, kind: str, dtype: str
) -> None:
    per_block = 32 // np.dtype(dtype).itemsize
    a = rng.standard_normal(2 * 16 * per_block).astype(dtype)  # every other block is used
    operation = getattr(T.tile, f"block_reduce_{kind}")
    kernel = one_source(lambda z, x: operation(z, x, 2, 8 * per_block, 1, 2, 16), a.size, 16, dtype)
    result = launch(kernel, a, UNUSED, UNUSED, np.zeros(16, dtype))
    assert result.codes == set()
    blocks = a.reshape(32, per_block)[::2].astype(np.float64)
    np.testing.assert_allclose(
        result.outputs[0], getattr(np, kind)(blocks, axis=1), rtol=2e-3, atol=2e-3
    )


def test_a_mask_within_a_block_is_said(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    a = rng.standard_normal(64).astype(FLOAT)
    for mask, codes in ((24, set()), (20, {"AI-BOUND-034"})):
        kernel = one_source(
            lambda z, x, m=mask: T.tile.block_reduce_max(z, x, 1, m, 1, 1, 8), 64, 8, FLOAT
        )
        assert launch(kernel, a, UNUSED, UNUSED, np.zeros(8, FLOAT)).codes == codes


SUMS: list[tuple[Callable[..., Any], Callable[..., Any], set[str]]] = [
    (lambda z, x: T.tile.reduce_sum_experiment(z, x, 77), lambda a: [a[:77].sum()], set()),
    (
        lambda z, x: T.tile.reduce_sum_mask_experiment(z, x, 50, 2, 8),
        lambda a: [a[:50].sum() + a[64:114].sum()],
        set(),
    ),
    (
        lambda z, x: T.tile.sum_experiment(z, x, [3, 40, 37]),
        lambda a: [a[i * 40 : i * 40 + 37].sum() for i in range(3)],
        {"AI-MEM-025"},
    ),
]


@pytest.mark.parametrize(("body", "oracle", "codes"), SUMS)
def test_sums(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    body: Callable[..., Any],
    oracle: Callable[..., Any],
    codes: set[str],
) -> None:
    a = rng.standard_normal(128).astype(FLOAT)
    before = rng.standard_normal(8).astype(FLOAT)
    result = launch(one_source(body, 128, 8, FLOAT), a, UNUSED, UNUSED, before)
    assert result.codes == codes
    expected = before.copy()
    sums = oracle(a.astype(np.float64))
    expected[: len(sums)] = sums
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_brcb_with_strides(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str
) -> None:
    per_block = 32 // np.dtype(dtype).itemsize
    a = rng.standard_normal(16).astype(dtype)
    before = np.zeros(2 * 16 * per_block, dtype)
    kernel = one_source(lambda z, x: T.tile.brcb_experiment(z, x, 2, 2, 16), 16, before.size, dtype)
    result = launch(kernel, a, UNUSED, UNUSED, before)
    assert result.codes == set()
    expected = before.copy().reshape(32, per_block)
    expected[::2] = a[:, None]
    np.testing.assert_array_equal(result.outputs[0], expected.reshape(-1))


def test_pto_replicates_along_the_rows(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    a = rng.standard_normal(8).astype(FLOAT)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.brcb_experiment(z, x, 1, 1, 8),
        ((8,), FLOAT),
        ((8, 24), FLOAT),
        target="pto",
    )
    got = launch(kernel, a, UNUSED, UNUSED, np.zeros((8, 24), FLOAT)).outputs[0]
    np.testing.assert_array_equal(got, np.repeat(a[:, None], 24, axis=1))


@pytest.mark.parametrize(("dtype", "codes"), [(FLOAT, set()), (HALF, {"AI-BOUND-034"})])
def test_fill_by_mask(launch: Callable[..., Any], dtype: str, codes: set[str]) -> None:
    bits = 0b1011
    per_repeat = 256 // np.dtype(dtype).itemsize
    before = np.zeros(2 * per_repeat, dtype)
    kernel = one_source(
        lambda z, x: T.tile.fill_experiment(z, 2.5, [bits], 2, 1, 8), 16, before.size, dtype
    )
    result = launch(kernel, np.zeros(16, dtype), UNUSED, UNUSED, before)
    assert result.codes == codes
    expected = before.reshape(2, -1).copy()
    expected[:, [0, 1, 3]] = 2.5
    np.testing.assert_array_equal(result.outputs[0], expected.reshape(-1))


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32", FLOAT])
def test_gather_of_blocks(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str, target: str
) -> None:
    per_block = 32 // np.dtype(dtype).itemsize
    a = rng.integers(0, 999, 24 * per_block).astype(dtype)
    blocks = rng.integers(0, 24, 16)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gatherb(z, x, y, 2, 1, 8),
        ((a.size,), dtype),
        ((16 * per_block,), dtype),
        ((16,), "uint32"),
        target=target,
    )
    offsets = (blocks * 32).astype(np.uint32)
    result = launch(kernel, a, offsets, UNUSED, np.zeros(16 * per_block, dtype))
    assert result.codes == set()
    np.testing.assert_array_equal(result.outputs[0], a.reshape(24, per_block)[blocks].reshape(-1))


@pytest.mark.parametrize("per_block", [False, True])
def test_bilinear_interpolation(
    launch: Callable[..., Any], rng: np.random.Generator, per_block: bool
) -> None:
    rounds, steps = 2, 3
    a = rng.standard_normal(40 * 16).astype(HALF)
    blocks = rng.integers(0, 40, rounds * steps * 8)
    factors = rng.standard_normal(64).astype(HALF)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.bilinear_interpolation(
            z, x, y, w, 100, steps, per_block, 1, 128, rounds
        ),
        ((a.size,), HALF),
        ((rounds * 128,), HALF),
        ((blocks.size,), "uint32"),
        ((64,), HALF),
    )
    before = np.zeros(rounds * 128, HALF)
    result = launch(kernel, a, (blocks * 32).astype(np.uint32), factors, before)
    assert result.codes == set()
    expected = np.zeros((rounds, 128))
    for v in range(rounds):
        for h in range(steps):
            for b in range(8):
                place = (v * steps + h) * 8 + b
                factor = factors[place if per_block else v * steps + h]
                data = a.reshape(40, 16)[blocks[place]].astype(np.float64)
                expected[v, 16 * b : 16 * b + 16] += data * float(factor)
    expected[:, 100:] = 0
    np.testing.assert_allclose(result.outputs[0].reshape(rounds, 128), expected, atol=2e-2)


def test_lanes_beyond_the_source_are_reported(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    a = rng.standard_normal(64).astype(FLOAT)

    def run(mask: int) -> Any:
        kernel = tile_kernel(
            lambda z, x, y, w: T.tile.wholereducesum(z, x, mask, 1, 1, 1, 8),
            ((64,), FLOAT),
            ((8,), FLOAT),
        )
        return launch(kernel, a, UNUSED, UNUSED, np.zeros(8, FLOAT))

    assert run(64).codes == set()
    assert {f.code for f in run(65).errors} == {"AI-BOUND-002"}
