"""`T.Kernel(threads=2)`: what the two vector cores compute together, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.conftest import launch_kernel, run_agreeing

DEVELOPER = {
    "tl.ascend_auto_sync": True,
    "tl.ascend_auto_cv_combine": True,
    "tl.ascend_auto_cross_core_sync": True,
    "tl.ascend_memory_planning": True,
}
BLOCKS, M, N = 3, 12, 32
ROWS, PICKED, WIDTH = 40, 8, 24  # of the gathering kernel


def kernel_of(body: Callable[..., None], threads: int = 2, dtype: str = "float32") -> Any:
    """Each block loads x[M, N] and v[M], runs `body`, stores z[M, N] and w[M]."""

    @tilelang.jit(out_idx=[2, 3], pass_configs=DEVELOPER)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((BLOCKS * M, N), dtype),
            b: T.Tensor((BLOCKS * M,), dtype),
            c: T.Tensor((BLOCKS * M, N), dtype),
            d: T.Tensor((BLOCKS * M,), dtype),
        ):
            with T.Kernel(BLOCKS, is_npu=True, threads=threads) as cid:
                x = T.alloc_ub([M, N], dtype)
                z = T.alloc_ub([M, N], dtype)
                v = T.alloc_ub([M], dtype)
                w = T.alloc_ub([M], dtype)
                T.copy(a[cid * M, 0], x)
                T.copy(b[cid * M], v)
                T.tile.fill(z, 1.0)
                T.tile.fill(w, 2.0)
                body(x, v, z, w, a, cid)
                T.copy(z, c[cid * M, 0])
                T.copy(w, d[cid * M])

        return kernel

    return factory()


def data(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((BLOCKS * M, N)).astype(dtype)
    return a, rng.uniform(1, 2, BLOCKS * M).astype(dtype)


@T.macro
def whole_tiles(x, v, z, w, a, cid):
    T.tile.mul(z, x, x)
    T.tile.exp(w, v)


@T.macro
def reductions(x, v, z, w, a, cid):
    T.reduce_max(x, w, dim=-1)
    T.copy(x, z)


@T.macro
def rows_in_a_loop(x, v, z, w, a, cid):
    for i in T.serial(M):
        T.tile.mul(z[i, :], x[i, :], v[i])
        w[i] = v[i] + 1.0


@T.macro
def rows_in_parallel(x, v, z, w, a, cid):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] - v[i]
    for i in T.Parallel(M):
        w[i] = v[i] * 2.0


@T.macro
def two_rows_per_step(x, v, z, w, a, cid):
    for i in T.serial(M // 2):
        T.tile.add(dst=z[i * 2 : i * 2 + 2, :], src0=x[i * 2 : i * 2 + 2, :], src1=3.0)
    T.copy(v, w)


@T.macro
def broadcast_rows(x, v, z, w, a, cid):
    T.tile.broadcast(z, v, axis=1)
    T.copy(v, w)


@T.macro
def one_row_at_a_time(x, v, z, w, a, cid):
    """The compiler halves the count of the exponential; the meaning is a whole row."""
    one = T.alloc_ub([1, N], "float32")
    for i in T.serial(M):
        T.tile.exp(one, x[i, :])
        T.copy(one, z[i, :])


@T.macro
def vector_along_columns(x, v, z, w, a, cid):
    row = T.alloc_ub([N], "float32")
    T.tile.createvecindex(row, 0.0)
    for i in T.serial(M):
        T.tile.add(z[i, :], x[i, :], row)


@T.macro
def numbered_elements(x, v, z, w, a, cid):
    T.tile.createvecindex(w, 1.0)
    T.tile.arith_progression(v, 2.0, 3.0, M)
    T.tile.add(w, w, v)


@T.macro
def row_numbers(x, v, z, w, a, cid):
    for i in T.serial(M):
        w[i] = T.cast(i, "float32") + a[cid * M + i, 1]


@T.macro
def some_of_the_rows(x, v, z, w, a, cid):
    for i in T.serial(3, M - 1):
        T.tile.add(z[i, :], x[i, :], 2.0)


@T.macro
def tensor_in_parallel(x, v, z, w, a, cid):
    for i, j in T.Parallel(M, N):
        z[i, j] = a[cid * M + i, j] + 1.0


@T.macro
def counted(x, v, z, w, a, cid):
    T.tile.silu(z, x)
    T.tile.sigmoid(w, v)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def between(a: Any) -> Any:
    z = np.ones_like(a)
    for block in range(BLOCKS):
        rows = slice(block * M + 3, block * M + M - 1)
        z[rows] = a[rows] + 2
    return z


ONES, TWOS = np.ones((BLOCKS * M, N), np.float32), np.full(BLOCKS * M, 2, np.float32)
ROW = np.tile(np.arange(M), BLOCKS)

#: What the program means where the compiler generates something else (a note says so).
MEANINGS: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    "one row at a time": (one_row_at_a_time, lambda a, b: (np.exp(a), TWOS)),
    "along columns": (vector_along_columns, lambda a, b: (a + np.arange(N), TWOS)),
    "numbered": (numbered_elements, lambda a, b: (ONES, 3 + 4 * ROW)),
    "row numbers": (row_numbers, lambda a, b: (ONES, ROW + a[:, 1])),
    "some rows": (some_of_the_rows, lambda a, b: (between(a), TWOS)),
    "tensor in parallel": (tensor_in_parallel, lambda a, b: (a + 1, TWOS)),
    "counted": (counted, lambda a, b: (a * sigmoid(a), sigmoid(b))),
}

CASES: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    "whole tiles": (whole_tiles, lambda a, b: (a * a, np.exp(b))),
    "reductions": (reductions, lambda a, b: (a, a.max(1))),
    "rows in a loop": (rows_in_a_loop, lambda a, b: (a * b[:, None], b + 1)),
    "rows in parallel": (rows_in_parallel, lambda a, b: (a - b[:, None], b * 2)),
    "two rows per step": (two_rows_per_step, lambda a, b: (a + 3, b)),
    "broadcast": (broadcast_rows, lambda a, b: (np.broadcast_to(b[:, None], a.shape), b)),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_the_compiler_gets_wrong_is_named_and_executed_as_meant(case: str) -> None:
    compiled = kernel_of(MEANINGS[case][0]).compiled
    assert any(note.code.startswith("AI-VID") for note in compiled.lowered.notes)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_said_about_clean_kernels(case: str) -> None:
    notes = kernel_of(CASES[case][0]).compiled.lowered.notes
    assert [n.code for n in notes if n.code != "AI-VID-002"] == []  # broadcast counts


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", [*CASES, *MEANINGS])
def test_values(case: str, threads: int) -> None:
    body, expected = {**CASES, **MEANINGS}[case]
    a, b = data()
    z, w = run_agreeing(kernel_of(body, threads), a, b)[:2]
    want_z, want_w = expected(a, b)
    np.testing.assert_allclose(z, want_z, rtol=1e-6)
    np.testing.assert_allclose(w, want_w, rtol=1e-6)


def test_each_vector_core_does_half_of_the_work() -> None:
    a, b = data()
    two = launch_kernel(kernel_of(whole_tiles, 2), a, b).record.counters
    one = launch_kernel(kernel_of(whole_tiles, 1), a, b).record.counters
    assert two.gm_read == one.gm_read and two.gm_written == one.gm_written


def test_bytes_are_halved() -> None:
    assert kernel_of(whole_tiles, 1).compiled.used_bytes["UB"] == 2 * M * N * 4 + 2 * 64
    assert kernel_of(whole_tiles, 2).compiled.used_bytes["UB"] == M * N * 4 + 2 * 32


def test_gathered_rows_stay_whole_and_are_shared_out() -> None:
    @tilelang.jit(out_idx=[2], pass_configs=DEVELOPER)
    def factory() -> Any:
        @T.prim_func
        def gather(
            table: T.Tensor((ROWS, WIDTH), "float16"),
            index: T.Tensor((2, PICKED), "int32"),
            out: T.Tensor((2, PICKED, WIDTH), "float16"),
        ):
            with T.Kernel(2, is_npu=True, threads=2) as cid:
                idx = T.alloc_ub([PICKED], "int32")
                row = T.alloc_ub([WIDTH], "float16")
                T.copy(index[cid, 0:PICKED], idx)
                for i in range(PICKED):
                    T.copy(table[idx[i], :], row)
                    T.copy(row, out[cid, i, :])

        return gather

    rng = np.random.default_rng(3)
    table = rng.standard_normal((ROWS, WIDTH)).astype(np.float16)
    index = rng.integers(0, ROWS, (2, PICKED)).astype(np.int32)
    kernel = factory()
    np.testing.assert_array_equal(run_agreeing(kernel, table, index)[0], table[index])
    assert kernel.compiled.used_bytes["UB"] == 32 + 64  # half of the indices, all of the row
