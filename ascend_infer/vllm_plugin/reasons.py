"""Why a layer keeps the host's operator: what of it no kernel of ours covers, in any host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernels_npu.errors import UnsupportedError

#: What kernels take: queries, weights and rotated heads of these.
DTYPES = (torch.float16, torch.bfloat16)
#: Names of a cache's dtype in vLLM that mean: as the model, not quantised.
_PLAIN_CACHE = ("auto", "float16", "bfloat16", "half")


def first_true(reasons: Iterable[tuple[bool, str]]) -> str | None:
    """The text beside the first condition that holds; None where none does."""
    return next((what for applies, what in reasons if applies), None)


def unserved(requirement: Callable[..., None], *args: Any, **kwargs: Any) -> str | None:
    """What a requirement of the kernels (`kernels_npu.requirements`) refuses; None if nothing."""
    try:
        requirement(*args, **kwargs)
    except UnsupportedError as error:
        return str(error.what)
    return None


def attention_reason(impl: Any, logits_soft_cap: float | None) -> str | None:
    """Why the host's decode attention serves a layer, whatever the step; None where ours does.

    impl: the host's implementation of the layer, built.
    """
    return first_true(
        (
            (impl.sliding_window not in (None, -1), "sliding window"),
            (impl.alibi_slopes is not None, "ALiBi slopes"),
            (impl.sinks is not None, "attention sinks"),
            (bool(logits_soft_cap), "soft cap of the logits"),
            (impl.kv_sharing_target_layer_name is not None, "a cache shared between layers"),
            (impl.kv_cache_dtype not in _PLAIN_CACHE, f"KV cache of {impl.kv_cache_dtype}"),
            (getattr(impl, "enable_c8_quant", False), "quantised KV cache"),
            (getattr(impl, "enable_hamming_sparse", False), "sparse attention"),
            (
                str(impl.attn_type).rpartition(".")[2].lower() != "decoder",
                "not a decoder's attention",
            ),
        )
    )
