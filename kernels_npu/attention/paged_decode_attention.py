"""Attention of one new token per sequence over its keys and values in the paged cache."""

from __future__ import annotations

import functools
from typing import Any

import torch

from kernels_npu import arguments, reference, requirements
from kernels_npu.attention.decode_kernel import paged_decode_attention_kernel
from kernels_npu.attention.tiling import DecodeTiling, decode_tiling
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.launch import launch
from kernels_npu.spec import ITEMSIZE, OpSpec, Tolerance, Traffic, Workload

_compiled = functools.cache(paged_decode_attention_kernel)


def paged_decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    sliding_window: int = 0,
    logits_soft_cap: float = 0.0,
) -> torch.Tensor:
    """`softmax(scale * q k^T) v` over the first `seq_lens[i]` keys of row i; float32 inside.

    Args:
        query: `[batch, num_q_heads, head_dim]` float16 or bfloat16, contiguous; 0 rows launch
            nothing.
        key_cache, value_cache: `[num_blocks, block_size, num_kv_heads, head_dim]` of the same
            dtype. Keys and values beyond a sequence's length are neither read nor used, whatever
            they hold.
        block_table: `[batch, max_blocks]` int32. Only the blocks that hold keys of row i are read,
            so that the rest of a row may be anything.
        seq_lens: `[batch]` int32, read on the device; at most `max_blocks * block_size`. 0
            (padding) reads nothing of the cache and gives zeros.
        scale: factor of the scores, usually `head_dim ** -0.5`.
        sliding_window: only the last so many keys count; 0 is all.
        logits_soft_cap: scores become `cap * tanh(score / cap)`; 0 is off.

    Returns:
        `[batch, num_q_heads, head_dim]` of query's dtype.

    Raises:
        UsageError: AI-OP-001 to AI-OP-005. UnsupportedError: AI-OP-006 for a head_dim, block_size
            or number of query heads per KV head that does not fit (`DecodeTiling`).
    """
    check(
        query, key_cache, value_cache, block_table, seq_lens, scale, sliding_window, logits_soft_cap
    )
    if query.shape[0] == 0:
        return torch.empty_like(query)
    kernel = _compiled(
        query.shape[1],
        key_cache.shape[2],
        query.shape[2],
        key_cache.shape[1],
        dialect_dtype(query.dtype),
        scale,
        sliding_window,
        logits_soft_cap,
    )
    out: torch.Tensor = launch(kernel, query, key_cache, value_cache, block_table, seq_lens)
    return out


def check(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    sliding_window: int,
    logits_soft_cap: float,
) -> None:
    """Refuse what the kernel would misread; what is on the device is not looked at."""
    op = "paged_decode_attention"
    require_dtype(op, "query", query, *KERNEL_DTYPES)
    arguments.paged_decode_attention(
        query, key_cache, value_cache, block_table, seq_lens, scale, sliding_window, logits_soft_cap
    )
    require_together(
        op,
        query=query,
        key_cache=key_cache,
        value_cache=value_cache,
        block_table=block_table,
        seq_lens=seq_lens,
    )
    requirements.paged_decode_attention(query, key_cache, value_cache)


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """Sequences in scattered blocks; the rest of the cache is NaN, of the table far out."""
    seq_lens, block_size = workload["seq_lens"], workload["block_size"]
    heads = (workload["kv_heads"], workload["head_dim"])
    used = [-(-n // block_size) for n in seq_lens]
    num_blocks = sum(used) + 1
    order = torch.randperm(num_blocks, generator=generator).int()
    table = torch.full((len(seq_lens), max(*used, 1) + 1), 2**30, dtype=torch.int32)
    caches = torch.full((2, num_blocks, block_size, *heads), float("nan"))
    next_block = 0
    for row, length in enumerate(seq_lens):
        blocks = order[next_block : next_block + used[row]]
        next_block += len(blocks)
        table[row, : len(blocks)] = blocks
        for i, block in enumerate(blocks.tolist()):
            filled = min(block_size, length - i * block_size)
            caches[:, block, :filled] = torch.randn(2, filled, *heads, generator=generator)
    query = torch.randn(len(seq_lens), workload["q_heads"], heads[1], generator=generator)
    return {
        "query": query.to(dtype).to(device),
        "key_cache": caches[0].to(dtype).to(device),
        "value_cache": caches[1].to(dtype).to(device),
        "block_table": table.to(device),
        "seq_lens": torch.tensor(seq_lens, dtype=torch.int32).to(device),
        "scale": workload.get("scale", heads[1] ** -0.5),
        "sliding_window": workload.get("sliding_window", 0),
        "logits_soft_cap": workload.get("logits_soft_cap", 0.0),
    }


def _tiles(workload: Workload, tiling: DecodeTiling) -> list[tuple[int, int, int]]:
    """(keys read, cache blocks, tiles) of every sequence."""
    window, block_size = workload.get("sliding_window", 0), workload["block_size"]
    spans = []
    for length in workload["seq_lens"]:
        first = max(length - window, 0) if window else 0
        spanned = length - first // block_size * block_size  # from the first visible key's block on
        spans.append((length - first, -(-spanned // block_size), -(-spanned // tiling.keys)))
    return spans


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """Visible keys and values once per KV head.

    `seq_lens` is read by three cores of each block, a table entry once for keys and once for
    values; the workspaces carry the live rows of every tile there and back.
    """
    size, kv_heads, head_dim = ITEMSIZE[dtype], workload["kv_heads"], workload["head_dim"]
    tiling = decode_tiling(workload["q_heads"], kv_heads, head_dim, workload["block_size"])
    spans = _tiles(workload, tiling)
    keys, blocks, tiles = (sum(column) for column in zip(*spans))
    cache = keys * kv_heads * head_dim * size
    rows = tiles * kv_heads * tiling.live
    heads = workload["q_heads"] * head_dim * size
    scratch = {
        "workspace_s": rows * tiling.keys * 4,
        "workspace_p": rows * tiling.keys * size,
        "workspace_o": rows * head_dim * 4,
    }
    return {
        "query": Traffic(read=sum(read > 0 for read, _, _ in spans) * heads),
        "key_cache": Traffic(read=cache),
        "value_cache": Traffic(read=cache),
        "block_table": Traffic(read=2 * 4 * blocks * kv_heads, scalar=True),
        "seq_lens": Traffic(read=3 * 4 * len(spans) * kv_heads, scalar=True),
        "output": Traffic(written=len(spans) * heads),
        **{n: Traffic(read=b, written=b, workspace=True) for n, b in scratch.items()},
    }


def flops(workload: Workload) -> int:
    """Two products of every visible key and query head, and five operations per score."""
    window = workload.get("sliding_window", 0)
    keys = sum(min(n, window) if window else n for n in workload["seq_lens"])
    return int(keys * workload["q_heads"] * (4 * workload["head_dim"] + 5))


_MODELS = {
    "smollm2-135m": (9, 3, 64),
    "qwen2.5-7b": (28, 4, 128),
    "llama-3-8b": (32, 8, 128),
    "llama-3-70b": (64, 8, 128),
}
_PHASES = {"decode-1x1k": (1024,), "decode-8x2k": (2048,) * 8, "decode-mixed": (1, 0, 300, 4096)}
_REASON = "probabilities and result rounded to 2^-{0}, averages of unit weight in float32"

SPEC = OpSpec(
    name="paged_decode_attention",
    workloads=tuple(
        Workload(
            name=f"{model}-{phase}",
            dims={
                "q_heads": q,
                "kv_heads": kv,
                "head_dim": d,
                "block_size": 128,
                "seq_lens": seq_lens,
            },
        )
        for model, (q, kv, d) in _MODELS.items()
        for phase, seq_lens in _PHASES.items()
    ),
    make_inputs=make_inputs,
    reference=reference.paged_decode_attention,
    traffic=traffic,
    flops=flops,
    tolerance={
        "float16": Tolerance(atol=2**-10, rtol=2**-9, reason=_REASON.format(11)),
        "bfloat16": Tolerance(atol=2**-7, rtol=2**-6, reason=_REASON.format(8)),
    },
)
