"""Decode batches for verification: block ownership, sequence lengths and variations.

A scenario is a batch together with the cache content it starts from
and the slots that no sequence owns.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphs.batch import DecodeBatch, InputName
from graphs.errors import VerificationError
from graphs.kv_state import KvState, Snapshot, random_content, rolled, with_other_slots
from graphs.runner import DecodeGraphRunner


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The limits within which batches are made.

    num_blocks: blocks of the cache. block_size: tokens per block. vocab_size: token ids.
    max_blocks: columns of the runner's block table. max_context: longest sequence made, in tokens.
    """

    num_blocks: int
    block_size: int
    max_blocks: int
    vocab_size: int
    max_context: int

    def blocks_per_row(self, rows: int) -> int:
        """Blocks that each of `rows` sequences may own while one block at least stays unowned.

        Raises:
            VerificationError: AI-VERIFY-002 when the cache is too small for that.
        """
        share = (self.num_blocks - 1) // rows
        if share < 1:
            raise VerificationError(
                "AI-VERIFY-002",
                f"the KV cache has {self.num_blocks} blocks, {rows} sequences need {rows + 1}",
                rule="each sequence owns a block and one guard block is owned by none",
                fix=f"verify with a cache of at least {2 * rows + 1} blocks, so that lengths can "
                "cross a block border",
            )
        longest = -(-self.max_context // self.block_size)
        return min(share, self.max_blocks, longest)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A host batch, the cache content before the step, and which blocks belong to a sequence."""

    batch: DecodeBatch
    content: Snapshot
    owned_blocks: frozenset[int]

    @property
    def size(self) -> int:
        return self.batch.size


class ScenarioMaker:
    """Makes scenarios from a seed; the same seed and calls give the same scenarios.

    Args:
        content: random cache content that all scenarios are cut from.
    """

    def __init__(self, geometry: Geometry, content: Snapshot, seed: int) -> None:
        self.geometry = geometry
        self._content = content
        self._random = random.Random(seed)
        self._made = 0

    @classmethod
    def for_runner(
        cls, runner: DecodeGraphRunner, state: KvState, seed: int, max_context: int | None = None
    ) -> ScenarioMaker:
        """What fits the buffers of `runner` and the cache; four blocks per sequence by default.

        Raises:
            VerificationError: AI-VERIFY-002 when the cache is too small for the largest bucket.
        """
        buffers = runner.buffers
        geometry = Geometry(
            num_blocks=state.num_blocks,
            block_size=state.block_size,
            max_blocks=buffers.max_blocks,
            vocab_size=buffers.logits.shape[1],
            max_context=max_context or min(buffers.max_blocks, 4) * state.block_size,
        )
        geometry.blocks_per_row(runner.plan.largest)  # refuses a cache that is too small
        return cls(geometry, random_content(state, torch.Generator().manual_seed(seed)), seed)

    def make(self, size: int, *, lengths: Sequence[int] | None = None) -> Scenario:
        """A fresh batch of `size` sequences with new blocks, lengths, tokens and cache content.

        Lengths take turns at both sides of block borders, at one token and at the longest that
        fits. Block 0 (which padding rows name) and the last block (which index -1 would hit) are
        unowned in every second scenario, where the cache has room for it.
        """
        g = self.geometry
        share = g.blocks_per_row(size)
        longest = min(share * g.block_size, g.max_context)
        if lengths is None:
            lengths = [self._length(row, longest) for row in range(size)]
        blocks = self._shuffled_blocks(size * share)
        table = [blocks[row * share : (row + 1) * share] for row in range(size)]
        used = [row[: -(-n // g.block_size)] for row, n in zip(table, lengths)]
        self._made += 1
        return Scenario(
            batch=_batch(
                [self._random.randrange(g.vocab_size) for _ in range(size)],
                used,
                lengths,
                g.block_size,
            ),
            content=rolled(self._content, self._random.randrange(g.num_blocks)),
            owned_blocks=frozenset(block for row in used for block in row),
        )

    def mutate(self, scenario: Scenario, name: InputName) -> Scenario | None:
        """The scenario with one input changed in the first row so that a live input must show.

        None where the cache leaves no room for the change (every block is owned).
        """
        batch, g = scenario.batch, self.geometry
        changed = {n: t.clone() for n, t in _tensors(batch).items()}
        if name == "token_ids":
            changed[name][0] = (changed[name][0] + 1) % g.vocab_size
        elif name == "positions":
            changed[name][0] += 1 if changed[name][0] == 0 else -1
        elif name == "seq_lens":
            changed[name][0] -= 1
        elif name == "slot_mapping":
            # Not written at all: the row then attends to what the slot held before.
            changed[name][0] = -1
        else:
            free = [b for b in range(g.num_blocks) if b not in scenario.owned_blocks]
            if not free:
                return None
            changed[name][0, 0] = self._random.choice(free)
        return dataclasses.replace(scenario, batch=DecodeBatch(**changed))

    def next_step(self, batch: DecodeBatch) -> DecodeBatch:
        """The following decode step of the same sequences: one more token each, new token ids."""
        block_size = self.geometry.block_size
        lengths = [int(n) + 1 for n in batch.seq_lens]
        table = [[int(block) for block in row] for row in batch.block_table]
        tokens = [self._random.randrange(self.geometry.vocab_size) for _ in lengths]
        return _batch(tokens, table, lengths, block_size)

    def border_scenario(self, size: int) -> Scenario | None:
        """Sequences that fill their block exactly, with the next block reserved.

        The following step crosses the border. None when the cache has not two blocks per sequence.
        """
        g = self.geometry
        if g.blocks_per_row(size) < 2:
            return None
        scenario = self.make(size, lengths=[g.block_size + 1] * size)
        batch = scenario.batch
        table = [[int(block) for block in row] for row in batch.block_table]
        tokens = [int(token) for token in batch.token_ids]
        step = _batch(tokens, table, [g.block_size] * size, g.block_size)
        return dataclasses.replace(scenario, batch=step)

    def other_rows(self, scenario: Scenario) -> Scenario:
        """Row 0 as it is; the other rows get other tokens, and their KV slots other values."""
        batch = scenario.batch
        tokens = batch.token_ids.clone()
        tokens[1:] = (tokens[1:] + 1) % self.geometry.vocab_size
        kept = set(batch.block_table[0].tolist()[: self._used_blocks(batch, 0)])
        others = scenario.owned_blocks - kept
        return dataclasses.replace(
            scenario,
            batch=dataclasses.replace(batch, token_ids=tokens),
            content=self._changed_blocks(scenario.content, others),
        )

    def unowned_content(self, scenario: Scenario) -> Scenario:
        """The same batch; unowned blocks, and slots past each length, hold other values."""
        batch, size = scenario.batch, self.geometry.block_size
        slots = [
            block * size + offset
            for block in range(self.geometry.num_blocks)
            if block not in scenario.owned_blocks
            for offset in range(size)
        ]
        for row in range(batch.size):
            length, used = int(batch.seq_lens[row]), self._used_blocks(batch, row)
            last = int(batch.block_table[row, used - 1])
            slots += range(last * size + length - (used - 1) * size, (last + 1) * size)
        content = with_other_slots(scenario.content, size, torch.tensor(slots))
        return dataclasses.replace(scenario, content=content)

    def _used_blocks(self, batch: DecodeBatch, row: int) -> int:
        return -(-int(batch.seq_lens[row]) // self.geometry.block_size)

    def _changed_blocks(self, content: Snapshot, blocks: frozenset[int]) -> Snapshot:
        size = self.geometry.block_size
        slots = [block * size + offset for block in sorted(blocks) for offset in range(size)]
        return with_other_slots(content, size, torch.tensor(slots, dtype=torch.int64))

    def _length(self, row: int, longest: int) -> int:
        size = self.geometry.block_size
        edges = (size, size + 1, longest, 1, size - 1, 2 * size, 2 * size + 1)
        turn = row + self._made
        wanted = edges[turn % len(edges)] if turn % 3 else self._random.randint(1, longest)
        return max(1, min(wanted, longest))

    def _shuffled_blocks(self, needed: int) -> list[int]:
        blocks = list(range(self.geometry.num_blocks))
        if self._made % 2 == 0 and needed <= len(blocks) - 2:
            blocks = blocks[1:-1]
        self._random.shuffle(blocks)
        return blocks[:needed]


def _tensors(batch: DecodeBatch) -> dict[str, torch.Tensor]:
    return {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}


def _batch(
    tokens: Sequence[int],
    table: Sequence[Sequence[int]],
    lengths: Sequence[int],
    block_size: int,
) -> DecodeBatch:
    positions = [n - 1 for n in lengths]
    return DecodeBatch.from_lists(
        token_ids=tokens,
        positions=positions,
        slot_mapping=[
            row[p // block_size] * block_size + p % block_size for row, p in zip(table, positions)
        ],
        block_table=table,
        seq_lens=lengths,
    )
