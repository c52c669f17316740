"""Attention over packed sequences, with keys and values packed as well or in a paged cache.

Lengths are lists of the host, which the operator cuts its work by: a graph keeps those that it was
captured with until a task update gives it others. Everything is computed in float32 and rounded
once. Rows without a key (padding) become zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels_npu.sim.device.operators.refusal import refused


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """Which keys a query sees, counted from where the two sequences end together.

    A query at position p sees the keys from p - `before` to p + `after`; None is no limit.
    """

    before: int | None = None
    after: int | None = None

    def mask(self, queries: int, keys: int) -> Tensor | None:
        """True [queries, keys] where a key is hidden."""
        if self.before is None and self.after is None:
            return None
        distance = torch.arange(keys) - torch.arange(keys - queries, keys).unsqueeze(1)
        hidden = torch.zeros(queries, keys, dtype=torch.bool)
        if self.before is not None:
            hidden |= distance < -self.before
        if self.after is not None:
            hidden |= distance > self.after
        return hidden


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, sees: Visibility
) -> tuple[Tensor, Tensor]:
    """One sequence: query [queries, heads, size], key and value [keys, kv heads, size].

    Returns:
        [queries, heads, value size] and the logarithm of the sums [queries, heads, 1], in float32;
        zeros and +inf for queries that see nothing, as the operator marks them.
    """
    queries, heads, size = query.shape
    keys, kv_heads, width = value.shape
    if not keys:
        return query.new_zeros(queries, heads, width, dtype=torch.float32), torch.full(
            (queries, heads, 1), float("inf")
        )
    grouped = query.float().view(queries, kv_heads, heads // kv_heads, size)
    scores = torch.einsum("qkgd,skd->kgqs", grouped, key.float()) * scale
    hidden = sees.mask(queries, keys)
    if hidden is not None:
        scores.masked_fill_(hidden, float("-inf"))
    sums = scores.logsumexp(-1, keepdim=True)
    blind = torch.isneginf(sums)
    weights = (scores - sums.masked_fill(blind, 0.0)).exp()
    result = torch.einsum("kgqs,skd->qkgd", weights, value.float())
    logs = sums.masked_fill(blind, float("inf")).permute(2, 0, 1, 3)
    return result.reshape(queries, heads, width), logs.reshape(queries, heads, 1)


def pages(cache: Tensor, block_table: Tensor, length: int, operator: str) -> Tensor:
    """The first `length` rows of a sequence out of `cache` [blocks, block size, kv heads, size]."""
    size = cache.shape[1]
    blocks = block_table[: -(-length // size)].long()
    if blocks.numel() * size < length:
        raise refused(
            operator,
            f"{length} keys need {-(-length // size)} blocks, the block table has "
            f"{block_table.numel()}",
            rule="a row of the block table names the block of every key of its sequence",
            fix="give the block table as many columns as the longest sequence has blocks",
        )
    if length and not 0 <= int(blocks.min()) <= int(blocks.max()) < cache.shape[0]:
        raise refused(
            operator,
            f"the block table names blocks {int(blocks.min())} to {int(blocks.max())} of a cache "
            f"with {cache.shape[0]} blocks",
            rule="blocks count from 0; entries behind a sequence's length are not read",
            fix="check the block table of the sequence",
            acl_error=507015,
        )
    return cache.index_select(0, blocks).flatten(0, 1)[:length]


def spans(ends: Sequence[int], operator: str, name: str) -> Iterator[tuple[int, int]]:
    """(start, stop) of packed sequences that end at `ends`."""
    start = 0
    for stop in ends:
        if stop < start:
            raise refused(
                operator,
                f"{name} goes down from {start} to {stop}",
                rule="the layout TND takes sums of lengths, each at least the one before",
                fix="pass torch.cumsum of the lengths as a list",
            )
        yield start, stop
        start = stop
