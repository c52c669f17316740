"""Writing the new tokens' keys and values into the paged KV cache."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
import functools
from typing import Any

import torch

from kernels_npu import arguments, reference, requirements
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.dialect import T, tilelang
from kernels_npu.launch import block_count, launch
from kernels_npu.spec import ITEMSIZE, OpSpec, Tolerance, Traffic, Workload


@tilelang.jit(target="ascendc")
def reshape_and_cache_kernel(
    kv_heads: int, head_dim: int, block_size: int, dtype: str, max_blocks: int
):
    """Tokens are dealt to the vector cores; keys and values pass through the unified buffer."""
    tokens = T.symbolic("tokens")
    num_blocks = T.symbolic("num_blocks")

    @T.prim_func
    def reshape_and_cache(
        key: T.Tensor([tokens, kv_heads, head_dim], dtype),
        value: T.Tensor([tokens, kv_heads, head_dim], dtype),
        key_cache: T.Tensor([num_blocks, block_size, kv_heads, head_dim], dtype),
        value_cache: T.Tensor([num_blocks, block_size, kv_heads, head_dim], dtype),
        slot_mapping: T.Tensor([tokens], "int32"),
    ):
        with T.Kernel(
            T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks), is_npu=True
        ) as (cid, vid):
            k_ub = T.alloc_ub([kv_heads, head_dim], dtype)
            v_ub = T.alloc_ub([kv_heads, head_dim], dtype)

            with T.Scope("V"):
                workers = 2 * T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks)
                worker = 2 * cid + vid
                for n in T.serial(T.ceildiv(tokens - worker, workers)):
                    token = worker + n * workers
                    slot = slot_mapping[token]
                    if slot >= 0:
                        block = slot // block_size
                        offset = slot % block_size
                        T.copy(key[token, :, :], k_ub)
                        T.copy(value[token, :, :], v_ub)
                        T.set_flag("mte2", "mte3", 1)
                        T.wait_flag("mte2", "mte3", 1)
                        T.copy(k_ub, key_cache[block, offset, :, :])
                        T.copy(v_ub, value_cache[block, offset, :, :])
                        # Only stored tokens come here, so the fence stands inside the branch.
                        T.set_flag("mte3", "mte2", 1)
                        T.wait_flag("mte3", "mte2", 1)

    return reshape_and_cache


_compiled = functools.cache(reshape_and_cache_kernel)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Store row i of `key` and `value` at slot `slot_mapping[i]` of the paged cache, bit for bit.

    Args:
        key, value: `[tokens, num_kv_heads, head_dim]` float16 or bfloat16, contiguous; 0 tokens
            launch nothing.
        key_cache, value_cache: `[num_blocks, block_size, num_kv_heads, head_dim]` of the same
            dtype, written in place.
        slot_mapping: `[tokens]` int32: `block * block_size + offset`; -1 (padding) writes nothing.
            No two tokens share a slot.

    Raises:
        UsageError: AI-OP-001 to AI-OP-004. UnsupportedError: AI-OP-006.
    """
    check(key, value, key_cache, value_cache, slot_mapping)
    if key.shape[0] == 0:
        return
    kernel = _compiled(
        key.shape[1],
        key.shape[2],
        key_cache.shape[1],
        dialect_dtype(key.dtype),
        block_count(key.device),
    )
    launch(kernel, key, value, key_cache, value_cache, slot_mapping)


def check(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Refuse what the kernel would misread."""
    op = "reshape_and_cache"
    require_dtype(op, "key", key, *KERNEL_DTYPES)
    arguments.reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)
    require_together(
        op,
        key=key,
        value=value,
        key_cache=key_cache,
        value_cache=value_cache,
        slot_mapping=slot_mapping,
    )
    requirements.reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """Random rows to distinct random slots; the last `padding` tokens have slot -1."""
    tokens, block_size = workload["tokens"], workload["block_size"]
    heads = (workload["kv_heads"], workload["head_dim"])
    num_blocks = workload.get("num_blocks", -(-2 * tokens // block_size) + 1)
    slots = torch.randperm(num_blocks * block_size, generator=generator)[:tokens].int()
    if workload.get("padding", 0):
        slots[-workload["padding"] :] = -1

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, *heads, generator=generator).to(dtype).to(device)

    return {
        "key": rows(tokens),
        "value": rows(tokens),
        "key_cache": rows(num_blocks, block_size),
        "value_cache": rows(num_blocks, block_size),
        "slot_mapping": slots.to(device),
    }


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """Each stored row once in and once out; one slot per token."""
    stored = workload["tokens"] - workload.get("padding", 0)
    rows = stored * workload["kv_heads"] * workload["head_dim"] * ITEMSIZE[dtype]
    return {
        "key": Traffic(read=rows),
        "value": Traffic(read=rows),
        "key_cache": Traffic(written=rows),
        "value_cache": Traffic(written=rows),
        "slot_mapping": Traffic(read=4 * workload["tokens"], scalar=True),
    }


_MODELS = {"smollm2-135m": (3, 64), "qwen2.5-7b": (4, 128), "llama-3-8b": (8, 128)}
_EXACT = Tolerance(atol=0.0, rtol=0.0, reason="a copy")

SPEC = OpSpec(
    name="reshape_and_cache",
    workloads=tuple(
        Workload(
            name=f"{model}-{phase}",
            dims={"tokens": tokens, "kv_heads": kv, "head_dim": d, "block_size": 128},
        )
        for model, (kv, d) in _MODELS.items()
        for phase, tokens in {"decode-1": 1, "decode-32": 32}.items()
    ),
    make_inputs=make_inputs,
    reference=reference.reshape_and_cache,
    traffic=traffic,
    flops=lambda w: 0,
    tolerance={"float16": _EXACT, "bfloat16": _EXACT},
    results=(),
    updated=("key_cache", "value_cache"),
)
