"""References in plain torch, one file per operator family, under the operators' names.

They compute in float32 (float64 for float64 inputs), round once to the input's dtype, run on any
device and never wait for it, so that a CUDA graph can hold them. Kernels do not use them.
"""

from __future__ import annotations

from kernels_npu.reference.activation import silu_and_mul
from kernels_npu.reference.attention import paged_decode_attention
from kernels_npu.reference.kv_cache import reshape_and_cache
from kernels_npu.reference.normalization import add_rms_norm, fused_add_rms_norm, rms_norm
from kernels_npu.reference.rotary import rotary_embedding, split_qkv_rmsnorm_rope

__all__ = [
    "add_rms_norm",
    "fused_add_rms_norm",
    "paged_decode_attention",
    "reshape_and_cache",
    "rms_norm",
    "rotary_embedding",
    "silu_and_mul",
    "split_qkv_rmsnorm_rope",
]
