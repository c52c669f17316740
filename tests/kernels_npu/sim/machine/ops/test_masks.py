"""Gathers by a mask."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.ops.conftest import SYNCED, UNUSED, tile_kernel

PATTERNS = {
    "P0101": slice(0, None, 2),
    "P1010": slice(1, None, 2),
    "P0001": slice(0, None, 4),
    "P0010": slice(1, None, 4),
    "P0100": slice(2, None, 4),
    "P1000": slice(3, None, 4),
    "P1111": slice(None),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "uint32"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(
    launch: Callable[..., Any], sample: Callable[..., Any], pattern: str, dtype: str
) -> None:
    a, before = sample((256,), dtype), sample((256,), dtype)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gather_mask(z, x, pattern), ((256,), dtype), ((256,), dtype)
    )
    result = launch(kernel, a, UNUSED, UNUSED, before)
    assert result.codes == set()
    kept = a[PATTERNS[pattern]]
    np.testing.assert_array_equal(result.outputs[0][: kept.size], kept)
    np.testing.assert_array_equal(result.outputs[0][kept.size :], before[kept.size :])


@pytest.mark.parametrize(
    ("target", "results", "codes"),
    [
        ("ascendc", 20, {"AI-BOUND-013"}),
        ("ascendc", 32, set()),
        ("pto", 20, set()),
    ],
)
def test_a_pattern_works_on_whole_iterations(
    launch: Callable[..., Any],
    sample: Callable[..., Any],
    target: str,
    results: int,
    codes: set[str],
) -> None:
    a = sample((40,), "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gather_mask(z, x, "P1010"),
        ((40,), "float32"),
        ((results,), "float32"),
        target=target,
    )
    result = launch(kernel, a, UNUSED, UNUSED, np.zeros(results, np.float32))
    assert result.codes == codes
    np.testing.assert_array_equal(result.outputs[0][:20], a[1::2])


@pytest.mark.parametrize(("target", "scaled"), [("ascendc", True), ("pto", False)])
def test_a_list_of_places(
    launch: Callable[..., Any],
    sample: Callable[..., Any],
    rng: np.random.Generator,
    target: str,
    scaled: bool,
) -> None:
    a = sample((100,), "float16")
    places = rng.integers(0, 100, 48, dtype=np.uint32)

    def run(body: Callable[..., Any], out: Any) -> Any:
        kernel = tile_kernel(
            body,
            ((100,), "float16"),
            (out.shape, out.dtype.name),
            ((48,), "uint32" if out.dtype.name == "float16" else "float16"),
            target=target,
        )
        second = places if out.dtype.name == "float16" else np.zeros(48, np.float16)
        result = launch(kernel, a, second, UNUSED, out)
        assert result.codes == set()
        return result.outputs[0]

    gathered = run(lambda z, x, y, w: T.tile.gather_mask(z, x, y), np.zeros(48, np.float16))
    np.testing.assert_array_equal(gathered, a[places])
    left = run(lambda z, x, y, w: T.tile.gather_mask(y, x, z), places.copy())
    np.testing.assert_array_equal(left, places * 2 if scaled else places)


def test_a_place_outside_the_memory_is_reported(
    launch: Callable[..., Any], sample: Callable[..., Any]
) -> None:
    a = sample((64,), "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gather_mask(z, x, y),
        ((64,), "float32"),
        ((8,), "float32"),
        ((8,), "uint32"),
    )
    places = np.full(8, 1 << 20, np.uint32)
    launched = launch(kernel, a, places, UNUSED, np.zeros(8, np.float32))
    assert {f.code for f in launched.errors} == {"AI-BOUND-002"}


@pytest.mark.parametrize(("counter", "width"), [(True, 40), (False, 64)])
def test_bits(
    launch: Callable[..., Any],
    sample: Callable[..., Any],
    rng: np.random.Generator,
    counter: bool,
    width: int,
) -> None:
    a = sample((128,), "float32")
    bits = rng.integers(0, 2**32, 4, dtype=np.uint32)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gathermask_experiment(z, x, y, counter, 40, [1, 2, 8, 0], 0),
        ((128,), "float32"),
        ((128,), "float32"),
        ((8,), "uint32"),
    )
    result = launch(kernel, a, np.resize(bits, 8), UNUSED, np.zeros(128, np.float32))
    assert result.codes == set()
    keep = np.unpackbits(bits.view(np.uint8), bitorder="little")[:width].astype(bool)
    expected = np.concatenate([a[r * 64 : r * 64 + width][keep] for r in range(2)])
    np.testing.assert_array_equal(result.outputs[0][: expected.size], expected)


@pytest.mark.parametrize(("target", "changes"), [("ascendc", False), ("pto", True)])
def test_pto_overwrites_gather_offsets(
    launch: Callable[..., Any], sample: Callable[..., Any], target: str, changes: bool
) -> None:
    a = sample((64,), "float32")
    offsets = (np.arange(64, dtype=np.uint32)[::-1] * 4).copy()
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gather(y, x, z, 0),
        ((64,), "float32"),
        ((64,), "uint32"),
        ((64,), "float32"),
        target=target,
    )
    left = launch(kernel, a, a, UNUSED, offsets).outputs[0]
    np.testing.assert_array_equal(left, offsets // 4 if changes else offsets)


@pytest.mark.parametrize(("target", "codes"), [("ascendc", set()), ("pto", {"AI-BOUND-037"})])
def test_pto_ignores_the_base_of_a_gather(
    launch: Callable[..., Any], sample: Callable[..., Any], target: str, codes: set[str]
) -> None:
    a = sample((64,), "float32")
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.gather(z, x, y, 32),
        ((64,), "float32"),
        ((8,), "float32"),
        ((8,), "uint32"),
        target=target,
    )
    offsets = np.arange(8, dtype=np.uint32) * 4
    result = launch(kernel, a, offsets, UNUSED, np.zeros(8, np.float32))
    assert result.codes == codes
    if not codes:
        np.testing.assert_array_equal(result.outputs[0], a[8:16])


@pytest.mark.parametrize(("columns", "codes"), [(20, set()), (21, {"AI-INIT-001"})])
def test_unwritten_lanes_stay_apart_through_compare_and_select(
    launch: Callable[..., Any], sample: Callable[..., Any], columns: int, codes: set[str]
) -> None:
    """20 of 64 columns are loaded; storing them alone is fine although whole rows are computed."""
    a = sample((4, 20), "float32")

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED, target="pto")
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((4, 20), "float32"), b: T.Tensor((4, columns), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub((4, 64), "float32")
                z = T.alloc_ub((4, 64), "float32")
                mask = T.alloc_ub((32,), "uint8")
                for i in T.serial(4):
                    T.copy(a[i, 0], x[i, :20])
                T.tile.mul(z, x, 2.0)
                T.tile.compare(mask, x, 0.0, "GT")
                T.tile.select(z, mask, x, z, "VSEL_TENSOR_TENSOR_MODE")
                for i in T.serial(4):
                    T.copy(z[i, :columns], b[i, :])

        return kernel

    result = launch(factory(), a)
    assert {f.code for f in result.errors} == codes
    if not codes:
        np.testing.assert_array_equal(result.outputs[0], np.where(a > 0, a, 2 * a))


@pytest.mark.parametrize(("compacts", "codes"), [(True, {"AI-INIT-003"}), (False, {"AI-INIT-001"})])
def test_the_rest_behind_a_compacted_list_is_padding(
    launch: Callable[..., Any], sample: Callable[..., Any], compacts: bool, codes: set[str]
) -> None:
    """Who stores a whole list knows how long it is; half a tile that nothing wrote is missing."""
    a = sample((128,), "float32")

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((128,), "float32"), b: T.Tensor((128,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub((128,), "float32")
                z = T.alloc_ub((128,), "float32")
                T.copy(a, x)
                if compacts:
                    T.tile.gather_mask(z, x, "P0101")
                else:
                    T.tile.abs(z[:64], x[:64])
                T.copy(z, b)

        return kernel

    assert launch(factory(), a).codes == codes
