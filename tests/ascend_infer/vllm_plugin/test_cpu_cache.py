"""Our layout in the bytes of vLLM's CPU cache: the host's blocks stay blocks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_infer.vllm_plugin.cpu_cache import cache_reason, halves, prefill, slots_in_halves
from kernels_npu import reference

BLOCKS, KV_HEADS, BLOCK, HEAD_DIM = 6, 2, 16, 32


def empty_cache(dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """As the host shapes it; what nobody has written is NaN."""
    shape = (BLOCKS, KV_HEADS, BLOCK, 2 * HEAD_DIM)
    return torch.full(shape, float("nan"), dtype=dtype)


def filled(table: list[int], length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A cache with one sequence in the blocks of `table`, and its keys and values."""
    cache = empty_cache()
    key, value = torch.randn(2, length, KV_HEADS, HEAD_DIM).half()
    position = torch.arange(length)
    slots = torch.tensor(table)[position // BLOCK] * BLOCK + position % BLOCK
    written = slots_in_halves(slots, BLOCK)
    reference.reshape_and_cache(key, value, *halves(cache), written)
    return cache, key, value


def test_both_halves_are_the_hosts_memory_in_one_piece() -> None:
    cache = empty_cache()
    for half in halves(cache):
        assert half.is_contiguous() and half.shape == (2 * BLOCKS - 1, BLOCK, KV_HEADS, HEAD_DIM)
        half.fill_(3)
    assert bool((cache == 3).all())
    keys, values = halves(cache)
    assert keys.data_ptr() == cache.data_ptr()
    assert values.data_ptr() == keys[1].data_ptr()  # of a block, keys before values


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_token_is_written_inside_its_own_block(block: int) -> None:
    cache, key, value = filled([block], BLOCK)
    others = [b for b in range(BLOCKS) if b != block]
    assert bool(cache[others].isnan().all()) and not bool(cache[block].isnan().any())
    keys, values = halves(cache)
    assert torch.equal(keys[2 * block], key) and torch.equal(values[2 * block], value)


@given(st.lists(st.integers(-1, BLOCKS * BLOCK - 1), max_size=9))
def test_padding_stays_padding(slots: list[int]) -> None:
    found = slots_in_halves(torch.tensor(slots, dtype=torch.int64), BLOCK)
    assert found.dtype == torch.int32
    expected = [-1 if s < 0 else 2 * (s // BLOCK) * BLOCK + s % BLOCK for s in slots]
    assert found.tolist() == expected


@settings(deadline=None)
@given(st.data())
def test_a_piece_of_a_prompt_sees_what_came_before_it(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 3 * BLOCK))
    tokens = data.draw(st.integers(1, length))
    heads = KV_HEADS * data.draw(st.sampled_from([1, 3]))
    table = data.draw(st.permutations(range(BLOCKS)))
    cache, key, value = filled(list(table), length)
    query = torch.randn(tokens, heads, HEAD_DIM).half()
    blocks = torch.tensor([2 * b for b in table], dtype=torch.int32)
    found = prefill(query, *halves(cache), blocks, length, 0.3)
    for i in range(tokens):
        seen = length - tokens + i + 1
        k, v = (t[:seen].double().repeat_interleave(heads // KV_HEADS, dim=1) for t in (key, value))
        scores = torch.einsum("hd,nhd->hn", query[i].double(), k) * 0.3
        expected = torch.einsum("hn,nhd->hd", scores.softmax(-1), v)
        torch.testing.assert_close(found[i].double(), expected, rtol=2e-3, atol=2e-3)


def test_an_unexpected_cache_is_the_hosts() -> None:
    cache, half = empty_cache(), torch.float16
    assert cache_reason(cache, BLOCK, half) is None
    assert cache_reason(cache, 32, half) == f"cache blocks of {BLOCK}, where 32 were tried"
    assert "a cache of torch.float16" in str(cache_reason(cache, BLOCK, torch.bfloat16))
    turned = cache.transpose(0, 1).contiguous().transpose(0, 1)
    assert "strides" in str(cache_reason(turned, BLOCK, half))
    huge = torch.empty(2**31 // (BLOCK * 64), 1, BLOCK, 64, device="meta", dtype=half)
    assert "2147483648 elements" in str(cache_reason(huge, BLOCK, half))
