"""Mistakes that decode kernels make with lengths, pages and slots."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.twins.twin import twin

SYNCED = {"tl.ascend_auto_sync": True}
REQUESTS, PAGES, PAGE, WIDTH = 3, 6, 4, 64


def paged(rng: np.random.Generator) -> tuple[Any, ...]:
    """A paged cache, its block table (-1 where a request has no page), and lengths in pages."""
    cache = rng.integers(-9, 10, (PAGES, PAGE, WIDTH)).astype(np.float32)
    table = np.full((REQUESTS, PAGES), -1, np.int32)
    lengths = np.array([2, 1, 3], np.int32)
    order = iter(rng.permutation(PAGES))
    for request, length in enumerate(lengths):
        table[request, :length] = [next(order) for _ in range(length)]
    return cache, table, lengths


def summed(cache: Any, table: Any, lengths: Any) -> Any:
    rows = [cache[table[i, :n]].reshape(-1, WIDTH).sum(axis=0) for i, n in enumerate(lengths)]
    return np.stack(rows)


@twin("AI-BOUND-001", inputs=paged, expected=summed)
def stale_length_of_the_cache(broken: bool) -> Any:
    """A request is read to the length that another batch had: its table has no page there."""

    @T.prim_func
    def kernel(
        cache: T.Tensor((PAGES, PAGE, WIDTH), "float32"),
        table: T.Tensor((REQUESTS, PAGES), "int32"),
        lengths: T.Tensor((REQUESTS,), "int32"),
        y: T.Tensor((REQUESTS, WIDTH), "float32"),
    ):
        with T.Kernel(REQUESTS, is_npu=True, threads=1) as cid:
            rows = T.alloc_ub([PAGE, WIDTH], "float32")
            total = T.alloc_ub([1, WIDTH], "float32")
            T.tile.fill(total, 0.0)
            request = 2 if broken else cid
            for i in T.serial(lengths[request]):
                page = table[cid, i]
                T.copy(cache[page, :, :], rows)  # named
                for j in T.serial(PAGE):
                    T.tile.add(total[0, :], total[0, :], rows[j, :])
            T.copy(total, y[cid, :])

    return tilelang.compile(kernel, out_idx=[3], pass_configs=SYNCED)


def slots(rng: np.random.Generator, padding: int) -> tuple[Any, ...]:
    """New keys, of which the last is padding, their slots, and a cache."""
    keys = rng.standard_normal((REQUESTS, WIDTH)).astype(np.float32)
    mapping = np.array([PAGE + 1, 0, padding], np.int32)
    return rng.standard_normal((PAGES * PAGE, WIDTH)).astype(np.float32), keys, mapping


def stored(cache: Any, keys: Any, mapping: Any) -> Any:
    cache[mapping[:-1]] = keys[:-1]
    return cache


@twin("AI-BOUND-001", inputs=lambda rng: slots(rng, -1), expected=stored)
def padding_row_written_to_slot_minus_one(broken: bool) -> Any:
    @T.prim_func
    def kernel(
        cache: T.Tensor((PAGES * PAGE, WIDTH), "float32"),
        keys: T.Tensor((REQUESTS, WIDTH), "float32"),
        mapping: T.Tensor((REQUESTS,), "int32"),
    ):
        with T.Kernel(REQUESTS, is_npu=True, threads=1) as cid:
            row = T.alloc_ub([1, WIDTH], "float32")
            slot = mapping[cid]
            if broken:
                T.copy(keys[cid, :], row)
                T.copy(row, cache[slot, :])  # named
            else:
                if slot >= 0:
                    T.copy(keys[cid, :], row)
                    T.copy(row, cache[slot, :])

    return tilelang.compile(kernel, pass_configs=SYNCED)


@twin("AI-RACE-003", inputs=lambda rng: slots(rng, 0), expected=stored)
def padding_row_written_to_a_real_slot(broken: bool) -> Any:
    """Padding points at slot 0, which belongs to a request."""
    rows = REQUESTS if broken else REQUESTS - 1

    @T.prim_func
    def kernel(
        cache: T.Tensor((PAGES * PAGE, WIDTH), "float32"),
        keys: T.Tensor((REQUESTS, WIDTH), "float32"),
        mapping: T.Tensor((REQUESTS,), "int32"),
    ):
        with T.Kernel(REQUESTS, is_npu=True, threads=1) as cid:
            row = T.alloc_ub([1, WIDTH], "float32")
            if cid < rows:
                slot = mapping[cid]
                T.copy(keys[cid, :], row)
                T.copy(row, cache[slot, :])  # named

    return tilelang.compile(kernel, pass_configs=SYNCED)
