"""Counters per block and core: counted by hand, equal to the sums, absent unless asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels_npu import sim
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.core_counters import CoreCounters, Work

ROWS, COLS, BLOCKS = 8, 100, 3
M, N, K = 32, 48, 96


def scaled() -> Any:
    """y = exp(x) * x + x on rows that leave the last block half empty."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((ROWS * BLOCKS - 4, COLS), "float32"),
            y: T.Tensor((ROWS * BLOCKS - 4, COLS), "float32"),
        ):
            with T.Kernel(BLOCKS, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([ROWS, COLS], "float32")
                b = T.alloc_ub([ROWS, COLS], "float32")
                T.copy(x[cid * ROWS, 0], a)
                T.barrier_all()
                T.tile.exp(b, a)
                T.tile.mul(b, b, a)
                T.tile.add(b, b, a)
                T.barrier_all()
                T.copy(b, y[cid * ROWS, 0])

        return kernel

    return factory()


def product() -> Any:
    """c = a b on the cube."""

    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def matmul(
            a: T.Tensor((M, K), "float16"),
            b: T.Tensor((K, N), "float16"),
            c: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a_l1 = T.alloc_L1([M, K], "float16")
                b_l1 = T.alloc_L1([K, N], "float16")
                c_l0 = T.alloc_L0C([M, N], "float32")
                with T.Scope("C"):
                    T.copy(a[0, 0], a_l1)
                    T.copy(b[0, 0], b_l1)
                    T.barrier_all()
                    T.gemm_v0(a_l1, b_l1, c_l0, init=True)
                    T.barrier_all()
                    T.copy(c_l0, c[0, 0])

        return matmul

    return factory()


def summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_by_hand(launch: Callable[..., Any], rng: np.random.Generator, schedule: str) -> None:
    x = rng.standard_normal((ROWS * BLOCKS - 4, COLS)).astype(np.float32)
    with sim.configure(count_cores=True):
        cores = launch(scaled(), x, schedule=(schedule, 1)).record.cores
    assert [(c.block, c.core) for c in cores] == [(0, 1), (1, 1), (2, 1)]
    # 800 elements are 12.5 repeats of 64; the move model counts the whole tile
    for core, rows in zip(cores, (8, 8, 4)):
        moved = rows * COLS * 4
        assert core.gm_paths == {"GM->UB": moved, "UB->GM": moved}
        # where the border clips the copy, the rest of the tile is filled first
        filled = rows < ROWS
        assert core.instructions == {"MTE2": 1, "V": 3 + filled, "MTE3": 1}
        passes = {"exp": 4, "mul": 1, "add": 1}
        arithmetic = sum(16 + n * 13 for n in passes.values())
        assert core.cycles["V"] == arithmetic + filled * (16 + 13)
        assert core.arithmetic == {
            "float32": Work(instructions=3, cycles=arithmetic, operations=3 * 13 * 64)
        }
        assert core.total_cycles is None


def test_a_product_counts_in_fractals(launch: Callable[..., Any], rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    with sim.configure(count_cores=True):
        (core,) = launch(product(), a, b).record.cores
    assert core.core == 0
    assert core.gm_paths == {"GM->L1": (M * K + K * N) * 2, "L0C->GM": M * N * 4}
    assert core.arithmetic["float16"].operations == 2 * M * N * K
    assert cost.product(17, 1, 1, "int8", 1).operations == 2 * 32 * 16 * 32


def test_blocks_add_up_to_the_launch(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    x = rng.standard_normal((ROWS * BLOCKS - 4, COLS)).astype(np.float32)
    kernel = scaled()
    with sim.configure(count_cores=True), sim.trace(tmp_path / "t.json", blocks=1):
        record = launch(kernel, x).record
    totals, cores = record.counters, record.cores
    assert summed(c.gm_paths for c in cores) == totals.gm_paths
    assert summed(c.instructions for c in cores) == totals.instructions
    assert summed(c.cycles for c in cores) == totals.cycles
    # every block has its own core of the chip, and the trace has only the first of them
    assert record.critical_path == max(c.total_cycles or 0 for c in cores)
    for core in cores:
        assert core.total_cycles is not None
        assert core.total_cycles >= max(core.cycles.values())
    # the next launch of the same kernel starts from zero, and is asked for sums only
    again = launch(kernel, x).record
    assert again.counters == totals and again.cores == ()


def test_only_the_blocks_that_ran_are_counted(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((ROWS * BLOCKS - 4, COLS)).astype(np.float32)
    with sim.configure(count_cores=True, blocks=(1,)):
        (core,) = launch(scaled(), x).record.cores
    assert core.block == 1


def test_moves_and_conversions_are_no_arithmetic(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def convert(x: T.Tensor((8, 64), "float16"), y: T.Tensor((8, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _:
                a = T.alloc_ub([8, 64], "float16")
                b = T.alloc_ub([8, 64], "float32")
                T.copy(x[0, 0], a)
                T.barrier_all()
                T.tile.cast(b, a, "CAST_NONE", 512)
                T.barrier_all()
                T.copy(b, y[0, 0])

        return convert

    with sim.configure(count_cores=True):
        (core,) = launch(factory(), rng.standard_normal((8, 64)).astype(np.float16)).record.cores
    assert core.instructions["V"] == 1 and core.arithmetic == {}
    assert isinstance(core, CoreCounters)
