from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs.batch import INPUT_NAMES, PADDING, DecodeBatch
from graphs.buffers import DecodeBuffers
from graphs.device_api import CpuDeviceApi, DeviceApi
from graphs.errors import GraphError
from graphs.staging import StagingRing
from tests.graphs.harness import some_batch

ROWS, BLOCKS = 8, 5


def allocate(api: DeviceApi) -> DecodeBuffers:
    return DecodeBuffers.allocate(
        api, max_batch=ROWS, max_blocks=BLOCKS, vocab_size=7, logits_dtype=torch.float16
    )


@st.composite
def batches(draw: st.DrawFn) -> tuple[DecodeBatch, int]:
    """A batch of 0 to 8 rows and a bucket that holds it."""
    rows = draw(st.integers(0, ROWS))
    width = draw(st.integers(0, BLOCKS))
    numbers = st.lists(st.integers(1, 99), min_size=rows, max_size=rows)
    table = st.lists(st.integers(1, 99), min_size=width, max_size=width)
    batch = DecodeBatch(
        token_ids=torch.tensor(draw(numbers), dtype=torch.int64),
        positions=torch.tensor(draw(numbers), dtype=torch.int64),
        slot_mapping=torch.tensor(draw(numbers), dtype=torch.int32),
        block_table=torch.tensor(
            draw(st.lists(table, min_size=rows, max_size=rows)), dtype=torch.int32
        ).reshape(rows, width),
        seq_lens=torch.tensor(draw(numbers), dtype=torch.int32),
    )
    return batch, draw(st.integers(max(rows, 1), ROWS))


def contents(buffers: DecodeBuffers, bucket: int) -> DecodeBatch:
    return buffers.slice(bucket).to(torch.device("cpu"))


def assert_equal(expected: DecodeBatch, actual: DecodeBatch) -> None:
    for name in INPUT_NAMES:
        assert torch.equal(getattr(actual, name).cpu(), getattr(expected, name)), name


@given(st.lists(batches(), min_size=1, max_size=4))
def test_fill_leaves_the_batch_and_padding_and_nothing_of_before(
    steps: list[tuple[DecodeBatch, int]],
) -> None:
    buffers = allocate(CpuDeviceApi())
    for batch, bucket in steps:
        buffers.fill(batch, bucket)
        assert_equal(batch.padded(bucket, BLOCKS), contents(buffers, bucket))


def test_fill_from_host_and_from_the_device_agree(api: DeviceApi) -> None:
    batch = some_batch(3)
    for source in (batch, batch.to(api.device)):
        buffers = allocate(api)
        buffers.fill(some_batch(ROWS), ROWS)
        buffers.fill(source, 5)
        assert_equal(batch.padded(5, BLOCKS), contents(buffers, 5))


def test_a_slice_is_a_cut_of_the_full_buffers(api: DeviceApi) -> None:
    buffers = allocate(api)
    for name in INPUT_NAMES:
        cut, full = getattr(buffers.slice(3), name), getattr(buffers, name)
        assert cut.shape[0] == 3 and api.address(cut) == api.address(full)
    assert buffers.slice(3) is buffers.slice(3)


def test_fresh_buffers_are_padding(api: DeviceApi) -> None:
    buffers = allocate(api)
    for name in INPUT_NAMES:
        assert (getattr(buffers, name).cpu() == PADDING[name]).all()


@pytest.mark.parametrize("rows, bucket, width", [(3, 2, 2), (1, ROWS + 1, 2), (1, 1, BLOCKS + 1)])
def test_what_does_not_fit_is_refused(rows: int, bucket: int, width: int) -> None:
    batch = some_batch(rows).padded(rows, width)
    with pytest.raises(GraphError, match="AI-GRAPH-005"):
        allocate(CpuDeviceApi()).fill(batch, bucket)


@pytest.mark.parametrize("name", ["max_batch", "max_blocks", "vocab_size"])
def test_buffers_have_at_least_one_of_everything(name: str) -> None:
    sizes: dict[str, Any] = {"max_batch": 1, "max_blocks": 1, "vocab_size": 1, name: 0}
    with pytest.raises(GraphError, match=f"AI-GRAPH-004: {name} is 0"):
        DecodeBuffers.allocate(CpuDeviceApi(), **sizes, logits_dtype=torch.float16)


class LateCopies(CpuDeviceApi):
    """A device that reads the source of an asynchronous copy only when its event is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def new_event(self) -> LateEvent:
        return LateEvent(self)


class LateEvent:
    def __init__(self, api: LateCopies) -> None:
        self._api = api

    def record(self, stream: object) -> None:
        pass

    def synchronize(self) -> None:
        self._api.waits += 1


def test_a_staging_slot_is_reused_only_after_its_event() -> None:
    api = LateCopies()
    ring = StagingRing(api, ROWS, BLOCKS, slots=2)
    seen = []
    for expected_waits in (0, 0, 1, 2, 3):
        slot = ring.acquire()
        assert api.waits == expected_waits
        slot.mark_in_flight()
        seen.append(slot)
    assert seen[0] is not seen[1] and seen[0] is seen[2] is seen[4]


def test_a_copy_in_flight_is_protected_after_an_error_too() -> None:
    api = LateCopies()
    buffers = allocate(api)
    broken = some_batch(1)
    object.__setattr__(broken, "seq_lens", None)  # fails after other inputs were enqueued
    for _ in range(2):
        with pytest.raises(AttributeError):
            buffers.fill(broken, 1)
    buffers.fill(some_batch(1), 1)
    assert api.waits == 1
