"""Rotary embedding in the form that vLLM's compiled graphs want: it returns, and writes nothing.

A graph of the host is executed as it was traced: an operator that writes an argument would have
that argument copied by the functionalisation around it, and once more by us.
"""

from __future__ import annotations

import torch

from kernels_npu import ops

_library = torch.library.Library("ascend_infer_vllm", "DEF")


def _rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    head_size: int,
    interleaved: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    q, k = (
        t.reshape(positions.numel(), -1, head_size).clone(memory_format=torch.contiguous_format)
        for t in (query, key)
    )
    ops.rotary_embedding(positions.flatten(), q, k, cos_sin_cache, interleaved)
    return q.view(query.shape), k.view(key.shape)


_library.define(
    "rotary_embedding(Tensor positions, Tensor query, Tensor key, Tensor cos_sin_cache, "
    "int head_size, bool interleaved) -> (Tensor, Tensor)"
)
_library.impl("rotary_embedding", _rotary_embedding, "CompositeExplicitAutograd")
torch.library.register_fake(
    "ascend_infer_vllm::rotary_embedding",
    lambda positions, query, key, cache, head_size, interleaved: tuple(
        torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (query, key)
    ),
    lib=_library,
)

#: Query and key with their heads rotated, in their own shapes, both new.
rotary_embedding = torch.ops.ascend_infer_vllm.rotary_embedding.default
