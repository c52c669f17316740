"""The toy model against the same computation row by row, because everything else relies on it."""

from __future__ import annotations

import torch

from graphs.batch import DecodeBatch
from graphs.toy_model import ToyDecoder
from tests.graphs.harness import fill_cache


def reference(model: ToyDecoder, batch: DecodeBatch) -> torch.Tensor:
    size = model.block_size
    hidden = model.embedding[batch.token_ids] + model.position_table[batch.positions]
    query, key, value = (hidden @ model.qkv).chunk(3, dim=1)
    flat_keys, flat_values = (
        c.view(-1, model.hidden) for c in (model.key_cache, model.value_cache)
    )
    for row, slot in enumerate(batch.slot_mapping.tolist()):
        if slot >= 0:
            flat_keys[slot], flat_values[slot] = key[row], value[row]
    attended = torch.zeros_like(hidden)
    for row, length in enumerate(batch.seq_lens.tolist()):
        if length:
            slots = [
                int(batch.block_table[row, t // size]) * size + t % size for t in range(length)
            ]
            weights = (flat_keys[slots] @ query[row] / model.hidden**0.5).softmax(0)
            attended[row] = weights @ flat_values[slots]
    return (hidden + attended) @ model.head


def test_step_matches_the_reference() -> None:
    batch = DecodeBatch.from_lists(
        token_ids=[1, 2, 3, 0],
        positions=[0, 8, 3, 0],
        slot_mapping=[92, 20, 7, -1],
        block_table=[[23], [2, 9, 5], [1], []],
        seq_lens=[1, 9, 4, 0],
    )
    models = [ToyDecoder("cpu"), ToyDecoder("cpu")]
    for model in models:
        fill_cache(model)
    expected, actual = reference(models[0], batch), models[1].step(batch)
    torch.testing.assert_close(actual, expected)
    assert torch.equal(models[0].key_cache, models[1].key_cache)
    assert torch.equal(models[0].value_cache, models[1].value_cache)
