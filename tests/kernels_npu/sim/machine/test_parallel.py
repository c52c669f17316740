"""`T.Parallel` against NumPy: patterns, dtypes, GM, bounds, bytes, races, written bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
M, N = 6, 32


def tile_kernel(
    body: Callable[..., None], dtype: str = "float32", out: str = "", **shape: Any
) -> Any:
    """Loads a[M, N], b[M, N], r[N] and s[M] into UB, runs `body`, stores c[M, N]."""
    out = out or dtype

    @tilelang.jit(out_idx=[4], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((M, N), dtype),
            b: T.Tensor((M, N), dtype),
            r: T.Tensor((N,), dtype),
            s: T.Tensor((M,), dtype),
            c: T.Tensor((M, N), out),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([M, N], dtype)
                y = T.alloc_ub([M, N], dtype)
                row = T.alloc_ub([N], dtype)
                col = T.alloc_ub([M], dtype)
                z = T.alloc_ub([M, N], out)
                T.copy(a, x)
                T.copy(b, y)
                T.copy(r, row)
                T.copy(s, col)
                T.tile.fill(z, 0.0)
                body(x, y, row, col, z)
                T.copy(z, c)

        return kernel

    return factory()


def tile_data(rng: np.random.Generator, dtype: str = "float32") -> list[Any]:
    shapes = [(M, N), (M, N), (N,), (M,)]
    if dtype.startswith("int"):
        return [rng.integers(-50, 50, s).astype(dtype) for s in shapes]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


@T.macro
def _elementwise(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] * y[i, j] + x[i, j]


@T.macro
def _broadcast(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] * row[j] - col[i]


@T.macro
def _element(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] + col[2]


@T.macro
def _one_dimension(x, y, row, col, z):
    for k in T.serial(M):
        for j in T.Parallel(N):
            z[k, j] = T.max(x[k, j], y[k, j])


@T.macro
def _offset(x, y, row, col, z):
    for i, j in T.Parallel(M, N // 2):
        z[i, j + 16] = x[i, j] + y[i, j + 16]


@T.macro
def _transposed(x, y, row, col, z):
    for j, i in T.Parallel(N, M):
        z[i, j] = x[i, j]


@T.macro
def _strided(x, y, row, col, z):
    for i, j in T.Parallel(M, N // 2):
        z[i, 2 * j] = x[i, j]


@T.macro
def _flat_index(x, y, row, col, z):
    for k in T.Parallel(M * N):
        z[k // N, k % N] = x[k // N, N - 1 - k % N]


@T.macro
def _branches(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        if x[i, j] > 0.0:
            z[i, j] = x[i, j]
        else:
            z[i, j] = y[i, j] * 2.0


@T.macro
def _choice(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = T.if_then_else(j > 0, x[i, j - 1], 7.0)


@T.macro
def _two_statements(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        y[i, j] = x[i, j] * 2.0
        z[i, j] = y[i, j] + 1.0


@T.macro
def _in_place(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = z[i, j] + x[i, j]
        z[i, j] += y[i, j]


@T.macro
def _functions(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = T.exp(x[i, j]) + T.abs(y[i, j])


@T.macro
def _unused_variable(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[0, j] = x[i, j]


@T.macro
def _accumulated(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, 0] = z[i, 0] + x[i, j]


@T.macro
def _carried(x, y, row, col, z):
    for j in T.Parallel(N - 1):
        row[j + 1] = row[j] + row[j + 1]
    for i, j in T.Parallel(M, N):
        z[i, j] = row[j]


def _carried_oracle(a: Any, b: Any, r: Any, s: Any) -> Any:
    # An in-place shift matches a vector pattern: every element adds its old neighbour.
    return np.broadcast_to(np.concatenate([r[:1], r[:-1] + r[1:]]), (M, N))


def _accumulate_oracle(a: Any, b: Any, r: Any, s: Any) -> Any:
    out = np.zeros((M, N), a.dtype)
    for j in range(N):
        out[:, 0] = out[:, 0] + a[:, j]
    return out


def _half(a: Any, at: Any, value: Any) -> Any:
    out = np.zeros((M, N), a.dtype)
    out[at] = value
    return out


def exp_rounded_once(a: Any) -> Any:
    """NumPy's own float32 function is off by a bit now and then."""
    return np.exp(a.astype(np.float64)).astype(a.dtype)


PATTERNS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "elementwise": (_elementwise, lambda a, b, r, s: a * b + a),
    "broadcast": (_broadcast, lambda a, b, r, s: a * r[None] - s[:, None]),
    "element": (_element, lambda a, b, r, s: a + s[2]),
    "rows": (_one_dimension, lambda a, b, r, s: np.maximum(a, b)),
    "offset": (_offset, lambda a, b, r, s: _half(a, np.s_[:, 16:], a[:, :16] + b[:, 16:])),
    "transposed": (_transposed, lambda a, b, r, s: a),
    "strided": (_strided, lambda a, b, r, s: _half(a, np.s_[:, ::2], a[:, :16])),
    "flat": (_flat_index, lambda a, b, r, s: a[:, ::-1]),
    "branches": (_branches, lambda a, b, r, s: np.where(a > 0, a, b * 2)),
    "choice": (
        _choice,
        lambda a, b, r, s: np.concatenate([np.full((M, 1), 7, a.dtype), a[:, :-1]], 1),
    ),
    "two": (_two_statements, lambda a, b, r, s: a * 2 + 1),
    "in-place": (_in_place, lambda a, b, r, s: a + b),
    "functions": (_functions, lambda a, b, r, s: exp_rounded_once(a) + np.abs(b)),
    "last-wins": (_unused_variable, lambda a, b, r, s: _half(a, np.s_[0], a[-1])),
    "accumulated": (_accumulated, _accumulate_oracle),
    "carried": (_carried, _carried_oracle),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(
    agreeing: Callable[..., Any], rng: np.random.Generator, pattern: str, dtype: str
) -> None:
    body, oracle = PATTERNS[pattern]
    data = tile_data(rng, dtype)
    got = agreeing(tile_kernel(body, dtype), *data)[0]
    np.testing.assert_array_equal(got, np.asarray(oracle(*data)).astype(dtype))


@T.macro
def _int_division(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] // 7 * 1000 + x[i, j] % 7


@T.macro
def _int_wrap(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] * 123456789 + i


def _trunc(a: Any) -> Any:
    quotient = np.trunc(a / 7).astype(np.int64)
    return quotient * 1000 + (a - quotient * 7)


@pytest.mark.parametrize(
    ("body", "oracle"),
    [
        (_int_division, _trunc),
        (_int_wrap, lambda a: a.astype(np.int64) * 123456789 + np.arange(M)[:, None]),
    ],
    ids=["division", "wrap"],
)
def test_integers(
    agreeing: Callable[..., Any], rng: np.random.Generator, body: Any, oracle: Any
) -> None:
    data = tile_data(rng, "int32")
    got = agreeing(tile_kernel(body, "int32"), *data)[0]
    np.testing.assert_array_equal(got, oracle(data[0].astype(np.int64)).astype(np.int32))


@T.macro
def _convert(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = T.cast(x[i, j], "int32")


@T.macro
def _convert_sum(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = T.cast(x[i, j], "int32") + 1


@T.macro
def _divide_by_scalar(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        z[i, j] = x[i, j] / 3.0


@T.macro
def _divide_in_branch(x, y, row, col, z):
    for i, j in T.Parallel(M, N):
        if j < N:
            z[i, j] = x[i, j] / 3.0


def test_vector_instructions_round_and_divide_in_their_own_way(
    agreeing: Callable[..., Any], rng: np.random.Generator
) -> None:
    data = tile_data(rng)
    data[0] *= 10
    a = data[0]
    # One conversion instruction rounds to nearest; a loop of assignments truncates as C does.
    got = agreeing(tile_kernel(_convert, "float32", "int32"), *data)[0]
    np.testing.assert_array_equal(got, np.rint(a).astype(np.int32))
    got = agreeing(tile_kernel(_convert_sum, "float32", "int32"), *data)[0]
    np.testing.assert_array_equal(got, np.trunc(a).astype(np.int32) + 1)
    # A vector is divided by a scalar through its reciprocal.
    got = agreeing(tile_kernel(_divide_by_scalar), *data)[0]
    np.testing.assert_array_equal(got, a * (np.float32(1) / np.float32(3)))
    got = agreeing(tile_kernel(_divide_in_branch), *data)[0]
    np.testing.assert_array_equal(got, a / np.float32(3))
