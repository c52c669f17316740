"""Rotary position embedding of queries and keys, in place and in one launch."""

import functools
from typing import Any

import torch

from kernels_npu import arguments, reference, requirements
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.launch import block_count, launch
from kernels_npu.rotary.half_split import half_split_kernel
from kernels_npu.rotary.interleaved import interleaved_kernel
from kernels_npu.spec import ITEMSIZE, OpSpec, Tolerance, Traffic, Workload

_compiled_half_split = functools.cache(half_split_kernel)
_compiled_interleaved = functools.cache(interleaved_kernel)


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool = False,
) -> None:
    """Rotate the first `rotary_dim` elements of every head by its token's angles; float32 inside.

    Args:
        positions: `[tokens]` int32 or int64, each below max_position; read on the device.
        query: `[tokens, num_q_heads, head_dim]`, key: `[tokens, num_kv_heads, head_dim]`: float16
            or bfloat16, contiguous, updated in place. 0 tokens launch nothing.
        cos_sin_cache: `[max_position, rotary_dim]` of query's dtype or float32: cosines, then
            sines.
        interleaved: rotate pairs (2i, 2i + 1) as GPT-J does, else (i, i + rotary_dim / 2) as NeoX
            does.

    Raises:
        UsageError: AI-OP-001 to AI-OP-004. UnsupportedError: AI-OP-006 for a rotary_dim that is not
            a multiple of 32 (16 when interleaved).
    """
    check(positions, query, key, cos_sin_cache, interleaved)
    if query.shape[0] == 0:
        return
    build = _compiled_interleaved if interleaved else _compiled_half_split
    kernel = build(
        query.shape[1],
        key.shape[1],
        query.shape[2],
        cos_sin_cache.shape[1],
        dialect_dtype(query.dtype),
        dialect_dtype(cos_sin_cache.dtype),
        dialect_dtype(positions.dtype),
        block_count(query.device),
    )
    launch(kernel, positions, query, key, cos_sin_cache)


def check(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool,
) -> None:
    """Refuse what the kernel would misread."""
    op = "rotary_embedding"
    require_dtype(op, "query", query, *KERNEL_DTYPES)
    arguments.rotary_embedding(positions, query, key, cos_sin_cache, interleaved)
    require_together(op, query=query, key=key, positions=positions, cos_sin_cache=cos_sin_cache)
    requirements.rotary_embedding(positions, query, key, cos_sin_cache, interleaved)


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """Heads of unit variance, random positions, and the cache of a model with theta 10000."""
    tokens, head_dim = workload["tokens"], workload["head_dim"]
    rotary_dim, max_position = (
        workload.get("rotary_dim", head_dim),
        workload.get("max_position", 512),
    )
    inverse = 10000.0 ** -(torch.arange(0, rotary_dim, 2) / rotary_dim)
    angles = torch.arange(max_position)[:, None] * inverse
    cache = torch.cat((angles.cos(), angles.sin()), dim=-1)
    positions = torch.randint(max_position, (tokens,), generator=generator)

    def heads(count: int) -> torch.Tensor:
        return torch.randn(tokens, count, head_dim, generator=generator).to(dtype).to(device)

    return {
        "positions": positions.to(workload.get("position_dtype", torch.int64)).to(device),
        "query": heads(workload["q_heads"]),
        "key": heads(workload["kv_heads"]),
        "cos_sin_cache": cache.to(workload.get("cache_dtype", dtype)).to(device),
        "interleaved": workload.get("interleaved", False),
    }


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """The rotated part of every head once in and once out; one row of the cache per token."""
    tokens, size = workload["tokens"], ITEMSIZE[dtype]
    rotary_dim = workload.get("rotary_dim", workload["head_dim"])
    cache_dtype: torch.dtype | None = workload.get("cache_dtype", None)
    position_dtype: torch.dtype = workload.get("position_dtype", torch.int64)
    query = tokens * workload["q_heads"] * rotary_dim * size
    key = tokens * workload["kv_heads"] * rotary_dim * size
    return {
        "positions": Traffic(read=tokens * position_dtype.itemsize, scalar=True),
        "query": Traffic(read=query, written=query),
        "key": Traffic(read=key, written=key),
        "cos_sin_cache": Traffic(
            read=tokens * rotary_dim * (cache_dtype.itemsize if cache_dtype else size)
        ),
    }


_MODELS = {"smollm2-135m": (9, 3, 64), "qwen2.5-7b": (28, 4, 128), "llama-3-8b": (32, 8, 128)}

SPEC = OpSpec(
    name="rotary_embedding",
    workloads=tuple(
        Workload(
            name=f"{model}-{phase}",
            dims={"tokens": tokens, "q_heads": q, "kv_heads": kv, "head_dim": d},
        )
        for model, (q, kv, d) in _MODELS.items()
        for phase, tokens in {"decode-1": 1, "decode-32": 32}.items()
    ),
    make_inputs=make_inputs,
    reference=reference.rotary_embedding,
    traffic=traffic,
    flops=lambda w: (
        w["tokens"] * (w["q_heads"] + w["kv_heads"]) * 3 * w.get("rotary_dim", w["head_dim"])
    ),
    tolerance={
        "float16": Tolerance(
            atol=1e-6, rtol=2**-10, reason="one rounding of 2^-11, float32 inside"
        ),
        "bfloat16": Tolerance(atol=1e-6, rtol=2**-7, reason="one rounding of 2^-8, float32 inside"),
    },
    results=(),
    updated=("query", "key"),
)
