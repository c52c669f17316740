"""Sorted lists of (value, index) pairs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T
from tests.kernels_npu.sim.machine.ops.conftest import UNUSED, tile_kernel


def ordered(values: Any) -> Any:
    """Positions of the values, greatest first, by Python's own sort."""
    return np.array(sorted(range(len(values)), key=lambda i: (-float(values[i]), i)))


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("count", [1, 31, 64, 131])
def test_sort(
    launch: Callable[..., Any], rng: np.random.Generator, count: int, dtype: str, target: str
) -> None:
    size = -(-count // 32) * 32
    a = rng.integers(-9, 9, size).astype(dtype)  # many ties
    before = np.zeros(2 * size, dtype)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.sort(z, x, count),
        ((size,), dtype),
        ((2 * size,), dtype),
        target=target,
    )
    result = launch(kernel, a, UNUSED, UNUSED, before)
    assert result.codes == set()
    pairs = result.outputs[0].reshape(-1, 2)
    order = ordered(a[:count])
    np.testing.assert_array_equal(pairs[:count, 0], a[:count][order])
    np.testing.assert_array_equal(pairs[:count, 1], order)
    assert (pairs[count:, 0] == -np.inf).all()


@pytest.mark.parametrize(("dtype", "source_changes"), [("float32", True), ("float16", False)])
def test_sort_pads_float_in_place(
    launch: Callable[..., Any], rng: np.random.Generator, dtype: str, source_changes: bool
) -> None:
    a = rng.standard_normal(64).astype(dtype)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.sort(y, z, 40),
        ((64,), dtype),
        ((64,), dtype),
        ((128,), dtype),
    )
    left = launch(kernel, a, np.zeros(128, dtype), UNUSED, a).outputs[0]
    expected = a.copy()
    if source_changes:
        expected[40:] = -np.inf
    np.testing.assert_array_equal(left, expected)


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("top", "count"), [(4, 96), (10, 51), (16, 33)])
def test_topk(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    top: int,
    count: int,
    dtype: str,
    target: str,
) -> None:
    a = rng.permutation(96).astype(dtype)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.topk(z, x, top, count),
        ((96,), dtype),
        ((2 * top,), dtype),
        target=target,
    )
    result = launch(kernel, a, UNUSED, UNUSED, np.zeros(2 * top, dtype))
    assert result.codes == set()
    order = ordered(a[:count])[:top]
    pairs = result.outputs[0].reshape(-1, 2)
    np.testing.assert_array_equal(pairs[:, 0], a[order])
    np.testing.assert_array_equal(pairs[:, 1], order)


def test_topk_adds_up_the_sizes_of_its_source(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    a = rng.standard_normal((2, 48)).astype(np.float32)

    def run(count: int) -> Any:
        kernel = tile_kernel(
            lambda z, x, y, w: T.tile.topk(z, x, 4, count), ((2, 48), "float32"), ((8,), "float32")
        )
        return launch(kernel, a, UNUSED, UNUSED, np.zeros(8, np.float32))

    assert run(64).codes == set()  # 2 + 48, rounded up to 64
    assert {f.code for f in run(96).errors} == {"AI-BOUND-031"}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sort32(launch: Callable[..., Any], rng: np.random.Generator, dtype: str) -> None:
    a = rng.integers(-50, 50, 96).astype(dtype)
    index = rng.integers(0, 2**32, 96, dtype=np.uint32)
    per_record = 8 // a.itemsize
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.sort32(z, x, y),
        ((96,), dtype),
        ((96 * per_record,), dtype),
        ((96,), "uint32"),
    )
    result = launch(kernel, a, index, UNUSED, np.ones(96 * per_record, dtype))
    assert result.codes == set()
    records = result.outputs[0].view(np.uint8).reshape(3, 32, 8)
    for group in range(3):
        part = slice(32 * group, 32 * group + 32)
        order = ordered(a[part])
        values = np.ascontiguousarray(records[group, :, : a.itemsize]).view(dtype)[:, 0]
        found = np.ascontiguousarray(records[group, :, 4:]).view(np.uint32)[:, 0]
        np.testing.assert_array_equal(values, a[part][order])
        np.testing.assert_array_equal(found, index[part][order])


def pairs_of(rng: np.random.Generator, count: int) -> Any:
    values = np.sort(rng.integers(-20, 20, count))[::-1]
    return np.stack([values, rng.integers(0, 1000, count)], axis=1).astype(np.float32).reshape(-1)


@pytest.mark.parametrize("ways", [2, 3])
def test_merge_sort(agreeing: Callable[..., Any], rng: np.random.Generator, ways: int) -> None:
    lists = [pairs_of(rng, 32), pairs_of(rng, 48), pairs_of(rng, 8)][:ways]
    total = sum(len(part) for part in lists)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.merge_sort(*(z, x, y, w)[: ways + 1]),
        ((64,), "float32"),
        ((total,), "float32"),
        ((96,), "float32"),
        ((len(lists[2]) if ways > 2 else 8,), "float32"),
    )
    third = lists[2] if ways > 2 else UNUSED
    got = agreeing(kernel, lists[0], lists[1], third, np.zeros(total, np.float32))[0]
    every = np.concatenate(lists).reshape(-1, 2)
    np.testing.assert_array_equal(got.reshape(-1, 2), every[ordered(every[:, 0])])


@pytest.mark.parametrize(("target", "codes"), [("ascendc", set()), ("pto", {"AI-BOUND-032"})])
def test_pto_merges_lists_of_one_length(
    launch: Callable[..., Any], rng: np.random.Generator, target: str, codes: set[str]
) -> None:
    for length, expected in ((32, set()), (48, codes)):
        kernel = tile_kernel(
            lambda z, x, y, w: T.tile.merge_sort(z, x, y),
            ((64,), "float32"),
            ((64 + 2 * length,), "float32"),
            ((2 * length,), "float32"),
            target=target,
        )
        out = np.zeros(64 + 2 * length, np.float32)
        lists = pairs_of(rng, 32), pairs_of(rng, length)
        assert launch(kernel, *lists, UNUSED, out).codes == expected


def test_sorting_needs_floats(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    a = rng.integers(0, 99, 32, dtype=np.int32)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.sort(z, x, 32), ((32,), "int32"), ((64,), "int32")
    )
    codes = {f.code for f in launch(kernel, a, UNUSED, UNUSED, np.zeros(64, np.int32)).errors}
    assert codes == {"AI-TYPE-001", "AI-SRC-063"}  # rejected, and not to be computed either
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.sort32(z, x, y),
        ((32,), "float32"),
        ((64,), "float32"),
        ((32,), "float32"),
    )
    floats = a.astype(np.float32)
    launched = launch(kernel, floats, floats, UNUSED, np.zeros(64, np.float32))
    assert {f.code for f in launched.errors} == {"AI-TYPE-005"}


@pytest.mark.parametrize(("reserved", "codes"), [(192, set()), (0, {"AI-BOUND-033"})])
def test_init_sort_buf(launch: Callable[..., Any], reserved: int, codes: set[str]) -> None:
    before = np.ones(200, np.float32)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.init_sort_buf(z, 192, reserved),
        ((8,), "float32"),
        ((200,), "float32"),
    )
    result = launch(kernel, UNUSED, UNUSED, UNUSED, before)
    assert result.codes == codes
    if not codes:
        pairs = result.outputs[0][:192].reshape(-1, 2)
        assert (pairs[:, 0] == -np.inf).all()
        assert (pairs[:, 1].copy().view(np.int32) == -1).all()
        assert (result.outputs[0][192:] == 1).all()
