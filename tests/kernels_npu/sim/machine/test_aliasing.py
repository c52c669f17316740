"""Different names for the same bytes: shared storage, addresses, reinterpretation, in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import GmArg

SYNCED = {"tl.ascend_auto_sync": True}
N = 64


def shift_kernel(blocks: int) -> Any:
    """y[i] = x[i] + 1, row by row, each row a block."""

    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((blocks, N), "float32"), y: T.Tensor((blocks, N), "float32")):
            with T.Kernel(blocks, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, :], a)
                T.tile.add(a, a, 1.0)
                T.copy(a, y[cid, :])

        return kernel

    return factory()


def launch_views(kernel: Any, storage: Any, rows: list[int], count: int) -> Any:
    """Launch on views of one storage that start at the given rows."""
    data = storage.reshape(-1).view(np.uint8)
    args = [
        GmArg(data[row * N * 4 :], (count, N), "float32", p.name)
        for row, p in zip(rows, kernel.prim_func.params)
    ]
    return kernel.compiled.launch(args, SimConfig(on_finding="report"))


def test_in_place_is_clean_and_overlapping_views_race(rng: np.random.Generator) -> None:
    kernel = shift_kernel(4)
    storage = rng.standard_normal((12, N)).astype(np.float32)
    before = storage.copy()
    for rows in ([0, 0], [0, 4], [5, 1]):
        storage[...] = before
        record = launch_views(kernel, storage, rows, 4)
        assert record.findings == (), rows
        np.testing.assert_array_equal(
            storage[rows[1] : rows[1] + 4], before[rows[0] : rows[0] + 4] + 1
        )
    # One row further: block i writes what block i+1 reads.
    record = launch_views(kernel, storage, [0, 1], 4)
    assert {f.code for f in record.findings} & {"AI-RACE-001", "AI-RACE-002"}
    sides = {(a.tensor, a.kind) for f in record.findings for a in f.accesses}
    assert sides == {("x", "Read"), ("y", "Write")}
    for finding in record.findings:
        for access in finding.accesses:
            assert access.start == access.block * N * 4, "relative to its own tensor"


def test_reports_name_the_tensor_of_this_launch(rng: np.random.Generator) -> None:
    """The order of the tensors in memory may differ from launch to launch."""

    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                T.tile.fill(a, 1.0)
                T.copy(a, x[cid, :])
                T.copy(a, y[0, :])

        return kernel

    kernel = factory()
    storage = np.zeros((8, N), np.float32)
    for rows in ([0, 4], [4, 0]):
        record = launch_views(kernel, storage, rows, 2)
        assert [f.code for f in record.findings] == ["AI-RACE-004"]
        assert {a.tensor for a in record.findings[0].accesses} == {"y"}


def halves(*, disjoint: bool) -> Any:
    """Columns of a wide tensor per vector core: boxes of one pitch that interleave."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16, 2 * N), "float32"), y: T.Tensor((16, 2 * N), "float32")):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                a = T.alloc_ub([8, N], "float32")
                start = vid * N if disjoint else vid * (N - 8)
                T.copy(x[cid * 8 : cid * 8 + 8, start : start + N], a)
                T.copy(a, y[cid * 8 : cid * 8 + 8, start : start + N])

        return kernel

    return factory()


def test_strided_boxes(
    agreeing: Callable[..., Any], launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((16, 2 * N)).astype(np.float32)
    np.testing.assert_array_equal(agreeing(halves(disjoint=True), x)[0], x)
    assert {f.code for f in launch(halves(disjoint=False), x).errors} == {"AI-RACE-003"}


def overlaid(offset: int) -> Any:
    """Two buffers at addresses of the user's choice."""

    @tilelang.jit(out_idx=[1, 2])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((8, 32), "float32"),
            y: T.Tensor((8, 32), "float32"),
            z: T.Tensor((8, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 32], "float32")
                b = T.alloc_ub([8, 32], "float32")
                T.annotate_address({a: 0, b: offset})
                with T.Scope("V"):
                    T.copy(x, a)
                    T.barrier_all()
                    T.copy(a, y)
                    T.copy(a, z)
                    T.barrier_all()
                    T.tile.fill(b, 5.0)
                    T.barrier_all()
                    T.copy(a, z)

        return kernel

    return factory()


@pytest.mark.parametrize("offset", [0, 512, 1024])
def test_annotated_addresses_share_bytes(
    agreeing: Callable[..., Any], rng: np.random.Generator, offset: int
) -> None:
    x = rng.standard_normal((8, 32)).astype(np.float32)
    y, z = agreeing(overlaid(offset), x)[:2]
    np.testing.assert_array_equal(y, x)
    expected = x.copy().ravel()
    expected[offset // 4 :] = 5
    np.testing.assert_array_equal(z.ravel(), expected)


def test_reinterpreted_and_reshaped_buffers(
    agreeing: Callable[..., Any], rng: np.random.Generator
) -> None:
    @tilelang.jit(out_idx=[1, 2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((8, 32), "float32"),
            y: T.Tensor((8, 32), "int32"),
            z: T.Tensor((256,), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 32], "float32")
                b = T.alloc_ub([8, 32], "int32")
                T.copy(x, a)
                T.reinterpretcast(b, a, "int32_t")
                T.copy(b, y)
                flat = T.reshape(a, [256])
                flat[3] = 9.0
                T.copy(flat, z)

        return kernel

    x = rng.standard_normal((8, 32)).astype(np.float32)
    y, z = agreeing(factory(), x)[:2]
    np.testing.assert_array_equal(y, x.view(np.int32))
    expected = x.ravel().copy()
    expected[3] = 9
    np.testing.assert_array_equal(z, expected)


def test_view_of_a_global_tensor(agreeing: Callable[..., Any], rng: np.random.Generator) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 32), "float32"), y: T.Tensor((8, 32), "float32")):
            with T.Kernel(4, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 64], "float32")
                wide = T.reshape(x, [4, 64])
                out = T.view(y, [4, 64], "float32")
                T.copy(wide[cid, :], a)
                T.copy(a, out[cid, :])

        return kernel

    x = rng.standard_normal((8, 32)).astype(np.float32)
    np.testing.assert_array_equal(agreeing(factory(), x)[0], x)


# --------------------------------------------------------------------------- shapes of a launch


def symbolic_kernel() -> Any:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        rows = T.symbolic("rows")
        cols = T.symbolic("cols")

        @T.prim_func
        def kernel(x: T.Tensor((rows, cols), "float32"), y: T.Tensor((rows * 2, cols), "float32")):
            with T.Kernel(T.ceildiv(rows, 4), is_npu=True, threads=1) as cid:
                a = T.alloc_ub([4, 32], "float32")
                for j in T.serial(T.ceildiv(cols, 32)):
                    T.copy(x[cid * 4 : cid * 4 + 4, j * 32 : j * 32 + 32], a)
                    T.copy(a, y[cid * 4 : cid * 4 + 4, j * 32 : j * 32 + 32])

        return kernel

    return factory()


@pytest.mark.parametrize("shape", [(1, 1), (7, 100), (8, 32), (0, 32), (5, 0), (33, 65)])
def test_symbolic_shapes_and_empty_tensors(
    agreeing: Callable[..., Any], rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    y = np.full((2 * shape[0], shape[1]), 7, np.float32)
    result = agreeing(symbolic_kernel(), x, y)[1]
    np.testing.assert_array_equal(result[: shape[0]], x)
    # Whole tiles are stored, clipped by the border of y only.
    end = min(-(-shape[0] // 4) * 4, 2 * shape[0])
    assert not result[shape[0] : end].any()
    assert (result[end:] == 7).all()


def test_thousand_blocks_and_empty_grid(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(n: T.int32, x: T.Tensor((1000, 32), "float32")):
            with T.Kernel(n, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 32], "float32")
                T.copy(x[cid, :], a)
                T.tile.add(a, a, 1.0)
                T.copy(a, x[cid, :])

        return kernel

    x = np.zeros((1000, 32), np.float32)
    for checks in (Checks(), Checks.none()):
        for n in (1000, 0, -3):
            result = launch(factory(), n, x, checks=checks)
            assert result.errors == []
            assert result.record.blocks == max(n, 0)
    assert (x == 2).all()
