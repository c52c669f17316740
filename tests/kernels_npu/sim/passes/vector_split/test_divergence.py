"""`threads=2`: kernels that the compiler gets wrong are named, their clean twins are not.

What the compiler generates was read from its own output for these kernels.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kernels_npu.sim.frontend import T, tilelang

M, N = 64, 32


def notes_of(body: Callable[..., None], target: str = "ascendc") -> list[tuple[str, str]]:
    """(code, message) of the notes for a kernel with tiles x, y, z [M, N] and vectors."""

    @tilelang.jit(target=target, pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((4 * M, N), "float32"),
            s: T.Tensor((M, 4, N), "float32"),
            r: T.Tensor((N,), "float32"),
        ):
            with T.Kernel(4, is_npu=True, threads=2) as cid:
                x = T.alloc_ub([M, N], "float32")
                y = T.alloc_ub([M, N], "float32")
                one = T.alloc_ub([1, N], "float32")
                row = T.alloc_ub([N], "float32")
                col = T.alloc_ub([M], "float32")
                T.copy(a[cid * M, 0], x)
                body(a, s, r, cid, x, y, one, row, col)
                T.copy(y, a[cid * M, 0])

        return kernel

    used = factory().compiled.lowered
    return [(note.code, note.message) for note in used.notes]


@T.macro
def silu(a, s, r, cid, x, y, one, row, col):
    T.tile.silu(y, x)


@T.macro
def exp(a, s, r, cid, x, y, one, row, col):
    T.tile.exp(y, x)


@T.macro
def cast_counted(a, s, r, cid, x, y, one, row, col):
    T.tile.cast(y, x, "CAST_RINT", M * N)


@T.macro
def row_buffer(a, s, r, cid, x, y, one, row, col):
    for i in T.serial(M):
        T.tile.relu(one, x[i, :])
        T.copy(one, y[i, :])


@T.macro
def rows_in_place(a, s, r, cid, x, y, one, row, col):
    for i in T.serial(M):
        T.tile.relu(y[i, :], x[i, :])


@T.macro
def bias_row(a, s, r, cid, x, y, one, row, col):
    T.copy(r, row)
    for i in T.serial(M):
        T.tile.add(y[i, :], x[i, :], row)


@T.macro
def bias_in_parallel(a, s, r, cid, x, y, one, row, col):
    T.copy(r, row)
    for i, j in T.Parallel(M, N):
        y[i, j] = x[i, j] + row[j]


@T.macro
def factor_per_row(a, s, r, cid, x, y, one, row, col):
    T.reduce_max(x, col, dim=-1)
    for i, j in T.Parallel(M, N):
        y[i, j] = x[i, j] + col[i]


@T.macro
def column_sums(a, s, r, cid, x, y, one, row, col):
    T.reduce_sum(x, row, dim=0)
    T.copy(x, y)


@T.macro
def sorted_rows(a, s, r, cid, x, y, one, row, col):
    T.tile.transpose(y, x)


@T.macro
def row_by_number(a, s, r, cid, x, y, one, row, col):
    T.tile.add(y[5, :], x[5, :], 1.0)


@T.macro
def row_number_as_value(a, s, r, cid, x, y, one, row, col):
    T.copy(x, y)
    for i in T.serial(M):
        col[i] = T.cast(i, "float32")


@T.macro
def tensor_in_parallel(a, s, r, cid, x, y, one, row, col):
    for i, j in T.Parallel(M, N):
        y[i, j] = a[cid * M + i, j]


@T.macro
def tensor_row_in_a_loop(a, s, r, cid, x, y, one, row, col):
    for i in T.serial(M):
        T.copy(a[cid * M + i, 0], y[i, :])


@T.macro
def numbered(a, s, r, cid, x, y, one, row, col):
    T.tile.createvecindex(col, 0.0)
    T.copy(x, y)


@T.macro
def some_rows(a, s, r, cid, x, y, one, row, col):
    for i in T.serial(10):
        T.tile.add(y[i, :], x[i, :], 1.0)


@T.macro
def part_of_each_row(a, s, r, cid, x, y, one, row, col):
    for i in T.serial(M):
        T.tile.add(y[i, :16], x[i, :16], 1.0)


@T.macro
def strided_rows(a, s, r, cid, x, y, one, row, col):
    T.copy(s[0:M, cid, :], y)


@T.macro
def atomic(a, s, r, cid, x, y, one, row, col):
    T.copy(x, y)
    T.tile.atomic_add(a[cid * M, 0], x)


@T.macro
def one_row_copied(a, s, r, cid, x, y, one, row, col):
    T.copy(x, y)
    T.copy(a[cid * M, 0], one)


@T.macro
def sum_over_rows(a, s, r, cid, x, y, one, row, col):
    total = T.alloc_var("float32", init=0.0)
    T.copy(x, y)
    for i in T.serial(M):
        total += x[i, 0]
    T.tile.add(y, y, total)


@T.macro
def last_row_kept(a, s, r, cid, x, y, one, row, col):
    T.copy(x, y)
    for i in T.serial(M):
        T.copy(x[i, :], one)
    T.tile.exp(one, one)


@T.macro
def scalar_per_row(a, s, r, cid, x, y, one, row, col):
    total = T.alloc_var("float32", init=0.0)
    for i in T.serial(M):
        total = x[i, 0] * 2.0
        T.tile.add(y[i, :], x[i, :], total)
    total = 1.0
    T.tile.add(y, y, total)


WRONG = {
    silu: "AI-VID-002",
    cast_counted: "AI-VID-002",
    row_buffer: "AI-VID-003",
    bias_row: "AI-VID-004",
    bias_in_parallel: "AI-VID-004",
    column_sums: "AI-VID-005",
    sorted_rows: "AI-VID-005",
    sum_over_rows: "AI-VID-005",
    last_row_kept: "AI-VID-005",
    row_by_number: "AI-VID-006",
    row_number_as_value: "AI-VID-007",
    tensor_in_parallel: "AI-VID-007",
    numbered: "AI-VID-007",
    some_rows: "AI-VID-008",
    part_of_each_row: "AI-VID-008",
    strided_rows: "AI-VID-009",
    atomic: "AI-VID-009",
    one_row_copied: "AI-VID-009",
}
CLEAN = (exp, rows_in_place, factor_per_row, tensor_row_in_a_loop, scalar_per_row)


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body.__name__)
def test_what_the_hardware_gets_wrong_is_named(body: Callable[..., None]) -> None:
    codes = [code for code, _ in notes_of(body)]
    assert WRONG[body] in codes


@pytest.mark.parametrize("body", CLEAN, ids=lambda body: body.__name__)
def test_clean_kernels_are_not_flagged(body: Callable[..., None]) -> None:
    assert notes_of(body) == []


def test_numbers_of_both_sides_are_given() -> None:
    (_, message), *_ = notes_of(silu)
    assert str(M * N) in message and str(M * N // 2) in message
    messages = dict(notes_of(row_buffer))
    assert f"{N // 2} of the {N} elements" in messages["AI-VID-003"]


def test_on_pto_an_operation_takes_its_size_from_the_halved_tile() -> None:
    assert notes_of(silu, "pto") == []
    assert [code for code, _ in notes_of(row_buffer, "pto")] == ["AI-VID-003"]


def test_a_tile_with_an_odd_number_of_rows_is_an_error() -> None:
    @tilelang.jit()
    def factory(rows: int) -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((128, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=2) as cid:
                x = T.alloc_ub([rows, N], "float32")
                T.copy(a[cid, 0], x)

        return kernel

    found = factory(33).compiled.lowered.notes
    assert [(n.code, n.severity) for n in found] == [("AI-VID-010", "error")]
    assert factory(32).compiled.lowered.notes == ()
