"""Variations of a scenario that must not matter, or whose effect is reported and not judged."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import torch

from graphs.batch import INPUT_NAMES, DecodeBatch
from graphs.verification.scenarios import Geometry, Scenario


def poisoned_blocks(scenario: Scenario, geometry: Geometry) -> Scenario | None:
    """NaN in every block that no row's block table names; None when there is no such block.

    Block 0 is left: short rows of the table are filled up with it, and a kernel may load what it
    masks afterwards.
    """
    named = {0, *scenario.batch.block_table.flatten().tolist()}
    free = [block for block in range(geometry.num_blocks) if block not in named]
    if not free:
        return None
    content = {name: tensor.clone() for name, tensor in scenario.content.items()}
    for tensor in content.values():
        tensor[free] = float("nan")
    return dataclasses.replace(scenario, content=content)


def with_padding(
    scenario: Scenario, bucket: int, geometry: Geometry, generator: random.Random | None = None
) -> Scenario:
    """Explicit padding rows up to `bucket`; with a generator, poisoned as far as that is legal.

    What makes a row padding is slot -1 and length 0. Its token, position and blocks mean nothing,
    so any that are in range must do.
    """
    batch = scenario.batch.padded(bucket, geometry.max_blocks)
    if generator is not None:
        rows = range(scenario.size, bucket)
        for row in rows:
            batch.token_ids[row] = generator.randrange(geometry.vocab_size)
            batch.positions[row] = generator.randrange(geometry.max_context)
            for column in range(geometry.max_blocks):
                batch.block_table[row, column] = generator.randrange(geometry.num_blocks)
    return dataclasses.replace(scenario, batch=batch)


def take_rows(scenario: Scenario, rows: Sequence[int]) -> Scenario:
    """The given rows in the given order; the cache and the owned blocks stay."""
    index = torch.tensor(rows, dtype=torch.int64)
    batch = DecodeBatch(**{name: getattr(scenario.batch, name)[index] for name in INPUT_NAMES})
    return dataclasses.replace(scenario, batch=batch)


def shorter_neighbours(scenario: Scenario) -> Scenario:
    """Row 0 as it is; every other row attends to half of its tokens."""
    lengths = scenario.batch.seq_lens.clone()
    lengths[1:] = (lengths[1:] + 1) // 2
    return dataclasses.replace(
        scenario, batch=dataclasses.replace(scenario.batch, seq_lens=lengths)
    )
