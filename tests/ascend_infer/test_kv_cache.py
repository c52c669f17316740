"""The block manager: no block has two owners, whatever is allocated, appended and freed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.kv_cache import BlockManager
from kernels_npu.errors import AscendInferError


def test_slots_follow_the_block_table():
    manager = BlockManager(num_blocks=8, block_size=4)
    slots = manager.allocate(0, 6)
    slots += [manager.append(0) for _ in range(3)]
    table = manager.block_table(0)
    assert slots == [table[p // 4] * 4 + p % 4 for p in range(9)]
    assert len(table) == 3 and manager.length(0) == 9 and manager.num_free == 5


def test_a_failed_allocation_takes_nothing():
    manager = BlockManager(num_blocks=2, block_size=4)
    with pytest.raises(AscendInferError) as caught:
        manager.allocate(1, 9)
    assert caught.value.code == "AI-MODEL-030" and "3 KV cache blocks" in caught.value.what
    assert manager.num_free == 2
    assert len(manager.allocate(1, 8)) == 8


def test_append_past_the_last_block():
    manager = BlockManager(num_blocks=1, block_size=2)
    manager.allocate(0, 2)
    with pytest.raises(AscendInferError) as caught:
        manager.append(0)
    assert caught.value.code == "AI-MODEL-030"
    assert manager.length(0) == 2


def test_a_key_is_allocated_once():
    manager = BlockManager(num_blocks=4, block_size=2)
    manager.allocate(0, 1)
    with pytest.raises(ValueError, match="already"):
        manager.allocate(0, 1)


@given(
    block_size=st.integers(1, 5),
    actions=st.lists(
        st.tuples(
            st.sampled_from(["allocate", "append", "free"]), st.integers(0, 4), st.integers(1, 9)
        ),
        max_size=60,
    ),
)
def test_blocks_are_never_shared_or_lost(block_size: int, actions: list[tuple[str, int, int]]):
    manager = BlockManager(num_blocks=10, block_size=block_size)
    slots: dict[int, list[int]] = {}
    for action, key, tokens in actions:
        try:
            if action == "allocate" and key not in slots:
                slots[key] = manager.allocate(key, tokens)
            elif action == "append" and key in slots:
                slots[key] = [*slots[key], manager.append(key)]
            elif action == "free" and key in slots:
                manager.free(key)
                del slots[key]
        except AscendInferError:
            assert manager.num_free < 10
    used = [slot for owned in slots.values() for slot in owned]
    assert len(set(used)) == len(used)
    blocks = [block for key in slots for block in manager.block_table(key)]
    assert len(set(blocks)) == len(blocks) == 10 - manager.num_free
    for key, owned in slots.items():
        assert manager.length(key) == len(owned)
        assert len(manager.block_table(key)) == manager.blocks_for(len(owned))
