"""The attention loop as two Triton kernels; imported only with TRITON_INTERPRET=1."""

import triton
import triton.language as tl


@triton.jit
def attention_tile_masked(
    query,
    key,
    value,
    output,
    keys,
    scale,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One tile of queries against all keys: float32 accumulation, online softmax.

    A last block that is shorter is masked, as the moves of the NPU kernel are clipped.
    """
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, DIM)[None, :]
    block = tl.arange(0, BLOCK)
    q = tl.load(query + rows * DIM + columns)
    acc = tl.zeros((ROWS, DIM), tl.float32)
    row_max = tl.full((ROWS,), float("-inf"), tl.float32)
    row_sum = tl.zeros((ROWS,), tl.float32)
    for start in range(0, keys, BLOCK):
        there = start + block < keys
        places = (start + block)[:, None] * DIM + columns
        k = tl.load(key + places, mask=there[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(there[None, :], s, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, 1)
        v = tl.load(value + places, mask=there[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        row_max = new_max
    tl.store(output + rows * DIM + columns, acc / row_sum[:, None])


@triton.jit
def attention_tile_lean(
    query,
    key,
    value,
    output,
    keys,
    scale,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The same for a multiple of BLOCK keys: no masks, and pointers that move on."""
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, DIM)
    block = tl.arange(0, BLOCK)
    q = tl.load(query + rows * DIM + columns[None, :])
    key_places = key + block[None, :] * DIM + columns[:, None]
    value_places = value + block[:, None] * DIM + columns[None, :]
    acc = tl.zeros((ROWS, DIM), tl.float32)
    row_max = tl.full((ROWS,), float("-inf"), tl.float32)
    row_sum = tl.zeros((ROWS,), tl.float32)
    for _ in range(0, keys, BLOCK):
        s = tl.dot(q, tl.load(key_places)) * scale
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, 1)
        v = tl.load(value_places)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        row_max = new_max
        key_places += BLOCK * DIM
        value_places += BLOCK * DIM
    tl.store(output + rows * DIM + columns[None, :], acc / row_sum[:, None])
