"""T.Parallel on global memory and on chip: bounds, unwritten elements, footprints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
M, N = 6, 32


def global_kernel(kind: str, *, shift: int = 0, blocks: int = 3, stride: int = 4) -> Any:
    """Each block works on `stride` rows of x and y in global memory."""

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((blocks * 4, N), "float32"),
            index: T.Tensor((4,), "int32"),
            y: T.Tensor((blocks * 4, N), "float32"),
        ):
            with T.Kernel(blocks, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([4, N], "float32")
                order = T.alloc_ub([4], "int32")
                T.tile.fill(a, 0.0)
                if kind == "load":
                    for i, j in T.Parallel(4, N):
                        a[i, j] = x[cid * 4 + i + shift, j]
                    T.copy(a, y[cid * 4 : cid * 4 + 4, :])
                if kind == "store":
                    T.copy(x[cid * 4 : cid * 4 + 4, :], a)
                    for i, j in T.Parallel(4, N):
                        y[cid * stride + i + shift, j] = a[i, j] * 2.0
                if kind == "through":
                    for i, j in T.Parallel(4, N):
                        y[cid * stride + i, j] = x[cid * 4 + i, j]
                if kind == "guarded":
                    for i, j in T.Parallel(4, N):
                        if i + cid * 4 + shift < blocks * 4:
                            a[i, j] = x[cid * 4 + i + shift, j]
                    T.copy(a, y[cid * 4 : cid * 4 + 4, :])
                if kind == "gather":
                    T.copy(index, order)
                    for i, j in T.Parallel(4, N):
                        a[i, j] = x[cid * 4 + order[i], j]
                    T.copy(a, y[cid * 4 : cid * 4 + 4, :])

        return kernel

    return factory()


ORDER = np.array([2, 0, 3, 1], np.int32)


@pytest.mark.parametrize("kind", ["load", "store", "through", "guarded", "gather"])
def test_global_operands(
    agreeing: Callable[..., Any], launch: Callable[..., Any], rng: np.random.Generator, kind: str
) -> None:
    x = rng.standard_normal((12, N)).astype(np.float32)
    expected = {"store": x * 2, "gather": x.reshape(3, 4, N)[:, ORDER].reshape(12, N)}.get(kind, x)
    np.testing.assert_array_equal(agreeing(global_kernel(kind), x, ORDER)[0], expected)
    counters = launch(global_kernel(kind), x, ORDER).record.counters
    assert counters.gm_read.get("x") == x.nbytes
    assert counters.gm_written.get("y") == x.nbytes


@pytest.mark.parametrize(("kind", "tensor"), [("load", "x"), ("store", "y"), ("gather", "x")])
@pytest.mark.parametrize("checks", [Checks(), Checks.none()])
def test_global_index_outside_is_reported(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    kind: str,
    tensor: str,
    checks: Checks,
) -> None:
    x = rng.standard_normal((12, N)).astype(np.float32)
    order = np.array([2, 0, 3, 9], np.int32) if kind == "gather" else ORDER
    result = launch(global_kernel(kind, shift=2), x, order, checks=checks)
    if not checks.bounds:
        return  # whatever the device does, but no Python exception
    (finding,) = result.errors
    assert finding.code == "AI-BOUND-001"
    assert (
        f"{tensor}[" in finding.message
        and f"block {1 if kind == 'gather' else 2}" in finding.message
    )
    assert finding.loc is not None and finding.loc.file == __file__


def test_condition_keeps_reads_inside(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    x = rng.standard_normal((12, N)).astype(np.float32)
    result = launch(global_kernel("guarded", shift=2), x, ORDER)
    assert result.errors == []
    np.testing.assert_array_equal(result.outputs[0][:10], x[2:])


@pytest.mark.parametrize("kind", ["store", "through"])
def test_blocks_that_store_the_same_rows_race(
    launch: Callable[..., Any], rng: np.random.Generator, kind: str
) -> None:
    x = rng.standard_normal((12, N)).astype(np.float32)
    assert launch(global_kernel(kind), x, ORDER).errors == []
    (race,) = launch(global_kernel(kind, stride=3), x, ORDER).errors
    assert race.code == "AI-RACE-003"
    assert {a.tensor for a in race.accesses} == {"y"}


def on_chip_index(last: int) -> Any:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(n: T.int32, y: T.Tensor((16,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([32], "float32")
                b = T.alloc_ub([16], "float32")
                T.tile.createvecindex(a, 0.0)
                for j in T.Parallel(16):
                    b[j] = a[j + n]
                T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize("checks", [Checks(), Checks.none()])
def test_index_outside_a_buffer(launch: Callable[..., Any], checks: Checks) -> None:
    result = launch(on_chip_index(0), 16, checks=checks)
    np.testing.assert_array_equal(result.outputs[0], np.arange(16, 32))
    assert result.errors == []
    for n in (17, -1):
        codes = launch(on_chip_index(0), n, checks=checks).codes
        assert codes == ({"AI-BOUND-002"} if checks.bounds else set())


def partly_written(columns: int, stored: int, masked: bool = False) -> Any:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 32), "float32"), y: T.Tensor((8, 32), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 32], "float32")
                b = T.alloc_ub([8, 32], "float32")
                T.copy(x, a)
                for i, j in T.Parallel(8, columns):
                    if masked:
                        if j < 8:
                            b[i, j] = a[i, j]
                    else:
                        b[i, j] = a[i, j]
                for i, j in T.Parallel(8, 32):
                    a[i, j] = b[i, j] + 1.0
                for i, j in T.Parallel(8, stored):
                    y[i, j] = a[i, j]

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("columns", "stored", "masked", "found"),
    [
        (32, 32, False, False),
        (16, 16, False, False),
        (16, 17, False, True),
        (16, 8, True, False),
        (16, 9, True, True),
    ],
)
def test_unwritten_elements_are_followed(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    columns: int,
    stored: int,
    masked: bool,
    found: bool,
) -> None:
    x = rng.standard_normal((8, 32)).astype(np.float32)
    result = launch(partly_written(columns, stored, masked), x)
    assert result.codes == ({"AI-INIT-001"} if found else set())
    if not found:
        np.testing.assert_array_equal(result.outputs[0][:, :stored], x[:, :stored] + 1)


def slots_kernel(other: int, *, wait: bool = True) -> Any:
    """MTE2 loads slot 0 while a T.Parallel works on slot `other`."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 32), "float32"), y: T.Tensor((8, 32), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([2, 8, 32], "float32")
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    T.barrier_all()
                    T.copy(x, a[0, :, :])
                    for i, j in T.Parallel(8, 32):
                        a[other, i, j] = a[other, i, j] * 2.0
                    if wait:
                        T.barrier_all()
                    T.copy(a[other, :, :], y)

        return kernel

    return factory()


def test_footprint_is_the_slot_and_not_the_buffer(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((8, 32)).astype(np.float32)
    clean = launch(slots_kernel(1), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0], np.full((8, 32), 2, np.float32))
    twin = launch(slots_kernel(0), x)
    assert "AI-RACE-001" in {f.code for f in twin.errors}
    missing = launch(slots_kernel(1, wait=False), x)
    assert [f.code for f in missing.errors] == ["AI-RACE-001"]


def test_accumulator_to_global_memory(
    agreeing: Callable[..., Any], rng: np.random.Generator
) -> None:
    """A conversion of the accumulator into global memory is a fixpipe store."""
    target = "float16"

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((32, 32), "float16"), y: T.Tensor((32, 32), target)):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                T.copy(x, a)
                T.gemm_v0(a, a, c, init=True)
                for i, j in T.Parallel(32, 32):
                    y[i, j] = T.cast(c[i, j], target)

        return kernel

    x = rng.integers(-3, 4, (32, 32)).astype(np.float16)
    y = agreeing(factory(), x)[0]
    np.testing.assert_array_equal(y, (x.astype(np.float32) @ x.astype(np.float32)).astype(target))
