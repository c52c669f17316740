"""The operators on CUDA in half precision, as Triton kernels that one graph replay can be built of.

CUDA is where capture and replay are proved on a real accelerator, so decode has to be as fast there
as its bytes allow: each operator is one or two launches and reads what it needs once. Triton comes
with the CUDA builds of torch; without it, and for float32 and float64, the references run.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: Tiles of keys, values and results have to fit into registers and shared memory.
MAX_HEAD_DIM = 256
_HALF = (torch.float16, torch.bfloat16)
#: Operators that have a kernel, and its module.
OPERATORS = {
    "add_rms_norm": "normalization",
    "fused_add_rms_norm": "normalization",
    "paged_decode_attention": "attention",
    "reshape_and_cache": "kv_cache",
    "rms_norm": "normalization",
    "rotary_embedding": "rotary",
    "silu_and_mul": "activation",
    "split_qkv_rmsnorm_rope": "rotary",
}


@functools.cache
def has_triton() -> bool:
    """Whether Triton can be imported; it is not imported by asking."""
    return importlib.util.find_spec("triton") is not None


def implementation(op: str, args: Sequence[Any]) -> Callable[..., Any] | None:
    """The Triton implementation of an operator for arguments like these, if there is one."""
    tensors = (arg for arg in args if isinstance(arg, torch.Tensor) and arg.is_floating_point())
    activations = next(tensors)
    if activations.dtype not in _HALF or op not in OPERATORS or not has_triton():
        return None
    if op == "paged_decode_attention" and activations.shape[-1] > MAX_HEAD_DIM:
        return None
    module = importlib.import_module(f"kernels_npu.cuda.{OPERATORS[op]}")
    function: Callable[..., Any] = getattr(module, op)
    return function if torch.cuda.device_count() < 2 else _on_the_arguments_device(function)


def _on_the_arguments_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Triton launches on the current device, torch's operators on that of their arguments."""

    @functools.wraps(function)
    def launch(first: torch.Tensor, *others: Any) -> Any:
        with torch.cuda.device(first.device):
            return function(first, *others)

    return launch
