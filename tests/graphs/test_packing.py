"""One piece of memory for all inputs of a step."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs.batch import INPUT_DTYPES, INPUT_NAMES
from graphs.packing import PackedInputs


@given(st.integers(1, 300), st.integers(1, 70), st.data())
def test_a_bucket_is_one_range_that_holds_its_rows_of_every_input(
    max_batch: int, max_blocks: int, data: st.DataObject
) -> None:
    layout = PackedInputs(max_batch=max_batch, max_blocks=max_blocks)
    memory = torch.zeros(layout.size(max_batch), dtype=torch.uint8)
    views = layout.views(memory)
    assert set(views) == set(INPUT_NAMES)
    bucket = data.draw(st.integers(1, max_batch))
    for name, view in views.items():
        assert view.shape == layout.shape(name) and view.dtype is INPUT_DTYPES[name]
        assert view.is_contiguous() and layout.offsets[name] % 512 == 0
        view.fill_(-1)
        # Every byte belongs to one input at most.
        assert int((memory == 255).sum()) == view.numel() * view.element_size()
        view.fill_(0)
        view[:bucket] = -1
        assert int((memory[: layout.size(bucket)] == 255).sum()) == (
            view[:bucket].numel() * view.element_size()
        )
        view.fill_(0)
