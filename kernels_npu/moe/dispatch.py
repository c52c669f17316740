"""The dispatch contract of a fused MoE kernel: four tables that the host makes from the routing.

Rows are (token, expert) pairs, put in the order of their experts without gaps. A block of the
kernel computes `block_rows` rows of one expert. Its start lies in a second, padded numbering, in
which every expert begins at a multiple of `block_rows`:

    start  = block * block_rows - padded_offsets[e] + offsets[e]      e = expert_of_block[block]
    rows   = clip(counts[e] - (block * block_rows - padded_offsets[e]), 0, block_rows)

The grid has to be known before the routing, so it has `most_blocks` blocks; those that are not
needed have no rows. Such a block's start may lie beyond the last row: it must not load there.

Source: examples/fusedmoe of tilelang 0.1.15, whose padding rule is `plus-one`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels_npu.errors import UsageError

Int32 = NDArray[np.int32]
_INT32_MAX = 2**31 - 1

#: Rule -> blocks that an expert of `count` rows takes in the padded numbering.
#: `plus-one` is ceil((count + 1) / rows): one block more where rows divides count, 0 included. So
#: padded offsets ascend strictly. `ceil` has no such blocks; offsets of empty experts repeat.
PADDING_RULES: Mapping[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "plus-one": lambda counts, rows: counts // rows + 1,
    "ceil": lambda counts, rows: -(-counts // rows),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class DispatchTables:
    """What the host uploads; all int32.

    token_ids: [rows] token of each row, experts ascending, tokens ascending within an expert.
    pair_ids: [rows] index of the row's pair in the flattened routing, for the routing weights.
    counts, offsets, padded_offsets: [experts] rows of each expert, where they begin, and where
    they begin in the padded numbering.
    expert_of_block: [blocks].
    block_rows: rows of a block, which is also what padded offsets are multiples of.
    """

    token_ids: Int32
    pair_ids: Int32
    counts: Int32
    offsets: Int32
    padded_offsets: Int32
    expert_of_block: Int32
    block_rows: int

    @property
    def num_rows(self) -> int:
        """Pairs: the length of the array without gaps."""
        return len(self.token_ids)

    @property
    def num_blocks(self) -> int:
        """Blocks of the grid."""
        return len(self.expert_of_block)

    @property
    def block_starts(self) -> Int32:
        """[blocks] first row of each block, in the array without gaps."""
        experts = self.expert_of_block
        return self._padded_starts() - self.padded_offsets[experts] + self.offsets[experts]

    @property
    def rows_of_block(self) -> Int32:
        """[blocks] rows that each block computes, 0 to block_rows."""
        experts = self.expert_of_block
        within = self._padded_starts() - self.padded_offsets[experts]
        return np.clip(self.counts[experts] - within, 0, self.block_rows).astype(np.int32)

    @property
    def used_blocks(self) -> int:
        """Blocks that have rows."""
        return int((self.rows_of_block > 0).sum())

    @property
    def wasted_rows(self) -> int:
        """Rows of the grid that compute nothing."""
        return self.num_blocks * self.block_rows - self.num_rows

    def _padded_starts(self) -> Int32:
        return np.asarray(np.arange(self.num_blocks) * self.block_rows, dtype=np.int32)


def most_blocks(rows: int, num_experts: int, block_rows: int) -> int:
    """Blocks that suffice for any routing of `rows` pairs: `ceil(rows / block_rows) + experts`.

    Enough for both padding rules: `sum(count // block_rows + 1)` is at most
    `rows // block_rows + experts`.
    """
    return -(-rows // block_rows) + num_experts


def build_dispatch(
    expert_ids: ArrayLike, *, num_experts: int, block_rows: int = 128, padding: str = "plus-one"
) -> DispatchTables:
    """The tables of a routing.

    Args:
        expert_ids: [tokens, top_k] expert of each pair; there may be no tokens.
        num_experts: experts of this rank; those without tokens keep their place.
        block_rows: rows of a block.
        padding: one of `PADDING_RULES`.

    Raises:
        UsageError: AI-MOE-001 for a routing that is no table of experts; AI-MOE-002 for sizes that
            are not positive, too large for int32, or an unknown rule.
    """
    routing = _routing(expert_ids, num_experts)
    _require_sizes(routing, num_experts, block_rows, padding)
    pairs = routing.reshape(-1)
    # Stable, so that tokens of an expert keep their order and a run can be repeated bit by bit.
    order = np.argsort(pairs, kind="stable")
    counts = np.bincount(pairs, minlength=num_experts)
    blocks = PADDING_RULES[padding](counts, block_rows)
    first_blocks = np.cumsum(blocks) - blocks
    grid = np.arange(most_blocks(pairs.size, num_experts, block_rows))
    # The last expert that begins at or before a block: empty ones before it begin there, too.
    experts = np.searchsorted(first_blocks, grid, side="right") - 1
    return DispatchTables(
        token_ids=(order // max(routing.shape[1], 1)).astype(np.int32),
        pair_ids=order.astype(np.int32),
        counts=counts.astype(np.int32),
        offsets=(np.cumsum(counts) - counts).astype(np.int32),
        padded_offsets=(first_blocks * block_rows).astype(np.int32),
        expert_of_block=experts.astype(np.int32),
        block_rows=block_rows,
    )


def _routing(expert_ids: ArrayLike, num_experts: int) -> NDArray[np.int64]:
    routing = np.asarray(expert_ids)
    empty = routing.size == 0 and routing.ndim == 2  # an empty list is an array of floats
    if routing.ndim == 2 and (empty or np.issubdtype(routing.dtype, np.integer)):
        if empty or (routing.min() >= 0 and routing.max() < num_experts):
            return routing.astype(np.int64)
    found = f"dtype {routing.dtype}, shape {list(routing.shape)}"
    if routing.size and np.issubdtype(routing.dtype, np.number):
        found += f", experts {routing.min()}..{routing.max()}"
    raise UsageError(
        "AI-MOE-001",
        f"a routing of {found} for {num_experts} experts",
        rule="expert_ids[tokens, top_k] holds whole numbers from 0 to below num_experts",
        fix="give the local numbers of the experts, with pairs of other ranks left out",
    )


def _require_sizes(
    routing: NDArray[np.int64], num_experts: int, block_rows: int, padding: str
) -> None:
    if (
        min(num_experts, block_rows) < 1
        or padding not in PADDING_RULES
        or most_blocks(routing.size, num_experts, block_rows) * block_rows > _INT32_MAX
    ):
        raise UsageError(
            "AI-MOE-002",
            f"{routing.size} pairs, {num_experts} experts, blocks of {block_rows} rows, padding "
            f"{padding!r}",
            rule="sizes are positive, the rows of the grid fit into int32, and the padding is "
            f"{' or '.join(PADDING_RULES)}",
            fix="split the batch, or take fewer rows per block",
        )
