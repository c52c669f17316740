from __future__ import annotations

import dataclasses

import pytest
import torch

from graphs.batch import INPUT_DTYPES, INPUT_NAMES, PADDING, DecodeBatch
from graphs.errors import GraphError
from tests.graphs.harness import some_batch


def test_from_lists_pads_ragged_block_tables() -> None:
    batch = DecodeBatch.from_lists(
        token_ids=[5, 6],
        positions=[0, 9],
        slot_mapping=[12, 33],
        block_table=[[3], [1, 8, 2]],
        seq_lens=[1, 10],
    )
    assert batch.size == 2
    assert batch.block_table.tolist() == [[3, 0, 0], [1, 8, 2]]
    assert {name: getattr(batch, name).dtype for name in INPUT_NAMES} == INPUT_DTYPES


def test_an_empty_batch_has_all_dimensions() -> None:
    batch = DecodeBatch.empty()
    assert batch.size == 0 and batch.block_table.shape == (0, 0)


@pytest.mark.parametrize("name", INPUT_NAMES)
def test_wrong_dtype_is_refused_by_name(name: str) -> None:
    batch = some_batch(2)
    with pytest.raises(GraphError, match=f"AI-GRAPH-003: {name} is torch.float32"):
        dataclasses.replace(batch, **{name: getattr(batch, name).float()})


@pytest.mark.parametrize("name", INPUT_NAMES[1:])
def test_another_number_of_rows_is_refused(name: str) -> None:
    batch = some_batch(2)
    with pytest.raises(GraphError, match=f"{name} is .* expected"):
        dataclasses.replace(batch, **{name: getattr(batch, name)[:1]})


def test_a_flat_block_table_is_refused() -> None:
    batch = some_batch(2)
    with pytest.raises(GraphError, match=r"block_table is torch.int32 \[2\]"):
        dataclasses.replace(batch, block_table=batch.seq_lens)


def test_padded_adds_rows_that_do_nothing() -> None:
    batch = some_batch(2)
    padded = batch.padded(5, 7)
    for name in INPUT_NAMES:
        before, after = getattr(batch, name), getattr(padded, name)
        assert torch.equal(after[tuple(slice(n) for n in before.shape)], before)
        assert (after[2:] == PADDING[name]).all()
    assert padded.block_table.shape == (5, 7) and (padded.block_table[:, 2:] == 0).all()


def test_to_never_shares_memory() -> None:
    batch = some_batch(2)
    copy = batch.to(torch.device("cpu"))
    copy.seq_lens.zero_()
    assert batch.seq_lens.tolist() == [6, 6]
