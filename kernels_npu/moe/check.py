"""Whether dispatch tables keep their contract, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels_npu.errors import UsageError
from kernels_npu.moe.dispatch import DispatchTables


def check_dispatch(tables: DispatchTables, expert_ids: ArrayLike) -> None:
    """Refuse tables with which a kernel would skip, repeat, mix up or overrun rows.

    Looked at, in this order: shapes; every pair once, with its token and expert; offsets without
    gaps; blocks within the experts; every row computed by exactly one block of its expert.

    Args:
        expert_ids: [tokens, top_k], the routing that the tables claim to be of.

    Raises:
        UsageError: AI-MOE-003 naming the first thing that is wrong, with both values.
    """
    for what, rule in _violations(tables, np.asarray(expert_ids)):
        raise UsageError(
            "AI-MOE-003",
            what,
            rule=rule,
            fix="make the tables with build_dispatch(), after the last change of the routing",
        )


def _violations(tables: DispatchTables, routing: NDArray[Any]) -> Iterator[tuple[str, str]]:
    """What is wrong and the rule; later rules hold the earlier ones for given."""
    yield from _shapes(tables, routing)
    yield from _pairs(tables, routing)
    yield from _offsets(tables)
    yield from _blocks(tables)


def _shapes(tables: DispatchTables, routing: NDArray[Any]) -> Iterator[tuple[str, str]]:
    experts = len(tables.counts)
    for name, length in (
        ("token_ids", routing.size),
        ("pair_ids", routing.size),
        ("offsets", experts),
        ("padded_offsets", experts),
    ):
        found = getattr(tables, name).shape
        if found != (length,):
            yield f"{name} has shape {list(found)}, expected [{length}]", "one entry per item"
    if tables.block_rows < 1:
        yield f"block_rows is {tables.block_rows}", "a block has at least one row"


def _pairs(tables: DispatchTables, routing: NDArray[Any]) -> Iterator[tuple[str, str]]:
    pairs, order = routing.reshape(-1), tables.pair_ids
    if (np.sort(order) != np.arange(pairs.size)).any():
        values, times = np.unique(order, return_counts=True)
        twice = values[times > 1]
        what = (
            f"pair {twice[0]} occurs {times[times > 1][0]} times"
            if twice.size
            else (f"pairs {values.min()}..{values.max()} of {pairs.size}")
        )
        yield f"pair_ids: {what}", "every (token, expert) pair is exactly one row"
    expected = order // max(routing.shape[1], 1)
    yield from _first_difference("token_ids", tables.token_ids, expected, "the token of its pair")
    experts = np.repeat(np.arange(len(tables.counts)), np.maximum(tables.counts, 0))
    if (tables.counts < 0).any() or experts.size != pairs.size:
        total = int(tables.counts.sum())
        yield f"counts add up to {total} rows of {pairs.size}", "every pair is counted once"
    yield from _first_difference(
        "expert of row", pairs[order], experts, "rows of one expert are neighbours, in its range"
    )


def _offsets(tables: DispatchTables) -> Iterator[tuple[str, str]]:
    expected = np.cumsum(tables.counts) - tables.counts
    yield from _first_difference("offsets", tables.offsets, expected, "the counts before, added up")
    padded = tables.padded_offsets
    if (padded % tables.block_rows).any():
        yield (
            f"padded_offsets {padded[padded % tables.block_rows != 0][0]} in blocks of "
            f"{tables.block_rows} rows",
            "an expert begins with a block",
        )
    room = np.diff(padded)
    small = np.flatnonzero(room < tables.counts[:-1])
    if small.size:
        e = small[0]
        yield (
            f"expert {e} has {tables.counts[e]} rows and {room[e]} places in the padded numbering",
            "a padded range holds its expert's rows",
        )


def _blocks(tables: DispatchTables) -> Iterator[tuple[str, str]]:
    experts = tables.expert_of_block
    outside = (experts < 0) | (experts >= len(tables.counts))
    if outside.any():
        yield (
            f"block {np.flatnonzero(outside)[0]} is of expert {experts[outside][0]} of "
            f"{len(tables.counts)}",
            "a block belongs to an expert",
        )
    rows, starts = tables.rows_of_block, tables.block_starts
    busy = rows > 0
    first, end, owners = starts[busy], (starts + rows)[busy], experts[busy]
    low = tables.offsets[owners]
    astray = np.flatnonzero((first < low) | (end > low + tables.counts[owners]))
    if astray.size:
        at = astray[0]
        yield (
            f"block {np.flatnonzero(busy)[at]} computes rows {first[at]}..{end[at] - 1}, expert "
            f"{owners[at]} has {low[at]}..{low[at] + tables.counts[owners[at]] - 1}",
            "a block stays within its expert's rows",
        )
    changes = np.zeros(tables.num_rows + 1, dtype=np.int64)
    np.add.at(changes, first, 1)
    np.add.at(changes, end, -1)
    yield from _first_difference(
        "blocks that compute row",
        np.cumsum(changes)[:-1],
        np.ones(tables.num_rows, dtype=np.int64),
        "every row is computed by exactly one block",
    )


def _first_difference(
    name: str, found: NDArray[Any], expected: NDArray[Any], rule: str
) -> Iterator[tuple[str, str]]:
    wrong = np.flatnonzero(found != expected)
    if wrong.size:
        at = wrong[0]
        yield f"{name} {at}: {found[at]}, expected {expected[at]}", rule
