"""Which layers keep the attention of any host, whatever the step."""

from __future__ import annotations

from typing import Any

import torch

#: What the kernel takes as the dtype of a cache that is not quantised.
_PLAIN = ("auto", "float16", "bfloat16", "half")
#: What it takes queries of.
DTYPES = (torch.float16, torch.bfloat16)


def static_reason(impl: Any, logits_soft_cap: float | None) -> str | None:
    """Why the host's decode attention serves a layer, whatever the step; None where ours does."""
    unusual = (
        (impl.sliding_window not in (None, -1), "sliding window"),
        (impl.alibi_slopes is not None, "ALiBi slopes"),
        (impl.sinks is not None, "attention sinks"),
        (bool(logits_soft_cap), "soft cap of the logits"),
        (impl.kv_sharing_target_layer_name is not None, "a cache shared between layers"),
        (impl.kv_cache_dtype not in _PLAIN, f"KV cache of {impl.kv_cache_dtype}"),
        (getattr(impl, "enable_c8_quant", False), "quantised KV cache"),
        (getattr(impl, "enable_hamming_sparse", False), "sparse attention"),
        (str(impl.attn_type).rpartition(".")[2].lower() != "decoder", "not a decoder's attention"),
    )
    return next((what for applies, what in unusual if applies), None)
