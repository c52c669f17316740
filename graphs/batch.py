"""The decode batch: five tensors, one row per sequence, and what a row of padding looks like."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from graphs.errors import GraphError

InputName = Literal["token_ids", "positions", "slot_mapping", "block_table", "seq_lens"]

INPUT_NAMES: tuple[InputName, ...] = (
    "token_ids",
    "positions",
    "slot_mapping",
    "block_table",
    "seq_lens",
)
INPUT_DTYPES: dict[InputName, torch.dtype] = {
    "token_ids": torch.int64,
    "positions": torch.int64,
    "slot_mapping": torch.int32,
    "block_table": torch.int32,
    "seq_lens": torch.int32,
}
# A padding row computes token 0 at position 0, writes no slot, owns no block
# and attends to nothing.
PADDING: dict[InputName, int] = {
    "token_ids": 0,
    "positions": 0,
    "slot_mapping": -1,
    "block_table": 0,
    "seq_lens": 0,
}


@dataclass(frozen=True, kw_only=True)
class DecodeBatch:
    """One decode step: each row is one sequence that gets one new token.

    The same class holds the host's batch, a batch on a device and a slice of the static buffers:
    every step function is `step(batch: DecodeBatch) -> logits [size, vocab]`.

    Args:
        token_ids: int64 [size], the token to embed.
        positions: int64 [size], its position; `seq_lens - 1` for a sequence without holes.
        slot_mapping: int32 [size], `block * block_size + offset` of the cache row that this
            token's K and V are written to; -1 writes nothing.
        block_table: int32 [size, blocks], the blocks of each sequence in order; entries that
            `seq_lens` does not reach are not read.
        seq_lens: int32 [size], tokens to attend to, the new one included; 0 attends to nothing.

    Raises:
        GraphError: AI-GRAPH-003 when shapes or dtypes differ from the above.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor

    def __post_init__(self) -> None:
        size = self.token_ids.shape[0] if self.token_ids.dim() else -1
        for name in INPUT_NAMES:
            tensor: torch.Tensor = getattr(self, name)
            dims = 2 if name == "block_table" else 1
            if (
                tensor.dtype is INPUT_DTYPES[name]
                and tensor.dim() == dims
                and tensor.shape[0] == size
            ):
                continue
            expected = f"[{size}, blocks]" if dims == 2 else f"[{size}]"
            raise GraphError(
                "AI-GRAPH-003",
                f"{name} is {tensor.dtype} {list(tensor.shape)}, expected {INPUT_DTYPES[name]} "
                f"{expected}",
                rule="all inputs of a decode batch have one row per sequence and a fixed dtype",
                fix="build the batch with DecodeBatch.from_lists, which pads and converts",
            )

    @property
    def size(self) -> int:
        """Rows, padding included when this is a slice of static buffers."""
        return self.token_ids.shape[0]

    @classmethod
    def from_lists(
        cls,
        *,
        token_ids: Sequence[int],
        positions: Sequence[int],
        slot_mapping: Sequence[int],
        block_table: Sequence[Sequence[int]],
        seq_lens: Sequence[int],
    ) -> DecodeBatch:
        """A host batch from Python numbers; short rows of `block_table` are filled with block 0."""
        width = max((len(row) for row in block_table), default=0)
        table = [[*row, *[PADDING["block_table"]] * (width - len(row))] for row in block_table]
        return cls(
            token_ids=torch.tensor(token_ids, dtype=torch.int64),
            positions=torch.tensor(positions, dtype=torch.int64),
            slot_mapping=torch.tensor(slot_mapping, dtype=torch.int32),
            block_table=torch.tensor(table, dtype=torch.int32).reshape(len(table), width),
            seq_lens=torch.tensor(seq_lens, dtype=torch.int32),
        )

    @classmethod
    def empty(cls) -> DecodeBatch:
        """A host batch without rows; filled into a bucket it leaves nothing but padding."""
        return cls.from_lists(
            token_ids=(), positions=(), slot_mapping=(), block_table=(), seq_lens=()
        )

    def to(self, device: torch.device) -> DecodeBatch:
        """The same rows on `device`, in tensors of their own."""
        return dataclasses.replace(
            self, **{name: getattr(self, name).to(device, copy=True) for name in INPUT_NAMES}
        )

    def padded(self, rows: int, blocks: int) -> DecodeBatch:
        """A copy with `rows` rows and `blocks` columns of `block_table`, filled up with padding."""

        def pad(name: InputName) -> torch.Tensor:
            tensor: torch.Tensor = getattr(self, name)
            shape = (rows, blocks) if name == "block_table" else (rows,)
            result = tensor.new_full(shape, PADDING[name])
            result[tuple(slice(n) for n in tensor.shape)] = tensor
            return result

        return DecodeBatch(**{name: pad(name) for name in INPUT_NAMES})
