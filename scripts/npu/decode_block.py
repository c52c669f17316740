"""One decoder layer made of our operators, with random weights and random batches."""

from __future__ import annotations

import torch

from kernels_npu import ops

ROWS, HIDDEN, INTER = 5, 256, 512
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
BLOCKS, BLOCK_SIZE = 24, 16
EPS = 1e-5
#: Operators whose kernels the block launches, each once.
OPERATORS = (
    "rms_norm",
    "rotary_embedding",
    "reshape_and_cache",
    "paged_decode_attention",
    "add_rms_norm",
    "silu_and_mul",
)
Tensors = dict[str, torch.Tensor]


def random_weights(generator: torch.Generator) -> Tensors:
    """Of one layer, in float16."""

    def matrix(rows: int, columns: int) -> torch.Tensor:
        values: torch.Tensor = torch.randn(rows, columns, generator=generator) / rows**0.5
        return values

    angles = torch.arange(BLOCKS * BLOCK_SIZE)[:, None] * 10000.0 ** -torch.arange(0, 1, 1 / 32)
    weights = {
        "norm": 1 + torch.randn(HIDDEN, generator=generator) / 8,
        "qkv": matrix(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM),
        "out": matrix(HEADS * HEAD_DIM, HIDDEN),
        "gate_up": matrix(HIDDEN, 2 * INTER),
        "down": matrix(INTER, HIDDEN),
        "cos_sin": torch.cat((angles.cos(), angles.sin()), -1),
    }
    return {name: weight.half() for name, weight in weights.items()}


def random_inputs(generator: torch.Generator) -> Tensors:
    """A batch over scattered blocks, with other lengths each time, and other cache content."""
    per_row = BLOCKS // ROWS
    table = torch.randperm(BLOCKS, generator=generator)[: ROWS * per_row].view(ROWS, per_row)
    last = torch.randint(per_row * BLOCK_SIZE, (ROWS,), generator=generator)
    block = table.gather(1, last[:, None] // BLOCK_SIZE)[:, 0]
    caches = torch.randn(2, BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_DIM, generator=generator).half()
    return {
        "hidden": torch.randn(ROWS, HIDDEN, generator=generator).half(),
        "positions": last,
        "slots": (block * BLOCK_SIZE + last % BLOCK_SIZE).int(),
        "block_table": table.int(),
        "seq_lens": last.int() + 1,
        "key_cache": caches[0],
        "value_cache": caches[1],
    }


def decode_block(w: Tensors, s: Tensors) -> torch.Tensor:
    """One layer of a decoder: each of `OPERATORS` once, in its place."""
    residual = s["hidden"].clone()
    qkv = ops.rms_norm(residual, w["norm"], EPS) @ w["qkv"]
    split = qkv.split([HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM], -1)
    query, key, value = (part.contiguous().view(ROWS, -1, HEAD_DIM) for part in split)
    ops.rotary_embedding(s["positions"], query, key, w["cos_sin"], False)
    ops.reshape_and_cache(key, value, s["key_cache"], s["value_cache"], s["slots"])
    attention = ops.paged_decode_attention(
        query, s["key_cache"], s["value_cache"], s["block_table"], s["seq_lens"], HEAD_DIM**-0.5
    )
    summed = attention.view(ROWS, -1) @ w["out"]
    normed = ops.add_rms_norm(summed, residual, w["norm"], EPS)
    return residual + ops.silu_and_mul(normed @ w["gate_up"]) @ w["down"]
