"""References against formulas written out element by element, and torch's own attention."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from kernels_npu import reference


def test_rms_norm_is_the_formula():
    x, weight = torch.randn(3, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    got = reference.rms_norm(x, weight, 1e-3)
    for row in range(3):
        scale = math.sqrt(sum(float(v) ** 2 for v in x[row]) / 8 + 1e-3)
        for i in range(8):
            assert math.isclose(got[row, i], float(x[row, i] * weight[i]) / scale, rel_tol=1e-12)


def test_rms_norm_agrees_with_torch():
    x, weight = torch.randn(5, 64), torch.randn(64)
    torch.testing.assert_close(
        reference.rms_norm(x, weight, 1e-5), F.rms_norm(x, (64,), weight, 1e-5)
    )


def test_add_rms_norm_updates_the_residual_and_normalises_the_rounded_sum():
    x, residual, weight = (torch.randn(4, 32).bfloat16() for _ in range(3))
    total = x + residual
    expected = reference.rms_norm(total, weight[0], 1e-5)
    assert torch.equal(reference.add_rms_norm(x, residual, weight[0], 1e-5), expected)
    assert torch.equal(residual, total)


def test_silu_and_mul_is_the_formula():
    x = torch.tensor([[1.0, -2.0, 3.0, 4.0]], dtype=torch.float64)
    got = reference.silu_and_mul(x)[0]
    assert math.isclose(got[0], 1 / (1 + math.exp(-1)) * 3, rel_tol=1e-12)
    assert math.isclose(got[1], -2 / (1 + math.exp(2)) * 4, rel_tol=1e-12)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_turns_pairs_by_their_angle(interleaved):
    angle = torch.tensor([[0.3, 1.2]], dtype=torch.float64)
    cache = torch.cat((angle.cos(), angle.sin()), dim=-1)
    query = torch.randn(1, 2, 6, dtype=torch.float64)  # rotary_dim 4 of 6
    key = torch.randn(1, 1, 6, dtype=torch.float64)
    before = query.clone()
    reference.rotary_embedding(torch.tensor([0]), query, key, cache, interleaved)
    for head in range(2):
        for pair in range(2):
            a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 2)
            turned = complex(before[0, head, a], before[0, head, b]) * complex(
                math.cos(angle[0, pair]), math.sin(angle[0, pair])
            )
            assert math.isclose(query[0, head, a], turned.real, rel_tol=1e-9)
            assert math.isclose(query[0, head, b], turned.imag, rel_tol=1e-9)
    assert torch.equal(query[..., 4:], before[..., 4:])


@pytest.mark.parametrize("slots", [[3, -1, 0], [-1, -1, 7], [-1, -1, -1], [5, 6, 7]])
def test_reshape_and_cache_writes_the_named_slots_only(slots):
    key, value = torch.randn(2, 3, 2, 4).half()
    caches = torch.randn(2, 4, 2, 2, 4).half()
    expected = caches.clone()
    for token, slot in enumerate(slots):
        if slot >= 0:
            expected[0, slot // 2, slot % 2] = key[token]
            expected[1, slot // 2, slot % 2] = value[token]
    reference.reshape_and_cache(key, value, caches[0], caches[1], torch.tensor(slots))
    assert torch.equal(caches, expected)


def paged(keys: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`keys[tokens, heads, dim]` in blocks in reverse order with NaN in between, and the table."""
    tokens, heads, dim = keys.shape
    blocks = -(-tokens // block_size)
    cache = torch.full((2 * blocks, block_size, heads, dim), math.nan, dtype=keys.dtype)
    table = torch.arange(2 * blocks - 1, -1, -2)
    for token in range(tokens):
        cache[table[token // block_size], token % block_size] = keys[token]
    return cache, table[None].int()


@pytest.mark.parametrize("window", [0, 5])
def test_attention_agrees_with_torch(window):
    tokens, q_heads, kv_heads, dim = 21, 6, 2, 8
    query = torch.randn(1, q_heads, dim, dtype=torch.float64)
    keys, values = torch.randn(2, tokens, kv_heads, dim, dtype=torch.float64)
    key_cache, table = paged(keys, 4)
    value_cache, _ = paged(values, 4)
    got = reference.paged_decode_attention(
        query, key_cache, value_cache, table, torch.tensor([tokens]), 0.4, window
    )
    seen = slice(tokens - window if window else 0, tokens)
    expected = F.scaled_dot_product_attention(
        query[0, :, None],
        keys[seen].transpose(0, 1).repeat_interleave(3, dim=0),
        values[seen].transpose(0, 1).repeat_interleave(3, dim=0),
        scale=0.4,
    )
    torch.testing.assert_close(got[0], expected[:, 0])


def test_attention_caps_the_scores():
    query, keys = torch.tensor([[[100.0]]]), torch.tensor([[[1.0]], [[-1.0]]])
    values = torch.tensor([[[1.0]], [[0.0]]])
    key_cache, table = paged(keys, 2)
    value_cache, _ = paged(values, 2)
    got = reference.paged_decode_attention(
        query, key_cache, value_cache, table, torch.tensor([2]), 1.0, 0, 0.5
    )
    assert math.isclose(got.item(), 1 / (1 + math.exp(-1.0)), rel_tol=1e-5)


def test_attention_without_keys_is_zero():
    cache = torch.full((2, 4, 1, 8), math.nan)
    got = reference.paged_decode_attention(
        torch.randn(2, 2, 8),
        cache,
        cache,
        torch.tensor([[9], [0]]).int(),
        torch.tensor([0, 0]),
        1.0,
    )
    assert torch.equal(got, torch.zeros(2, 2, 8))
