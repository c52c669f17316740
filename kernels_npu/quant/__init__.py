"""Quantisation in NumPy: what a code means, how codes lie in memory, what they multiply to.

q = quantise(weights, INT4, Granularity.per_group(axis=-1, size=128))
words = pack(q.codes, LAYOUTS["onnx"])
grouped_matmul(activations, q)
"""

from __future__ import annotations

from kernels_npu.quant.affine import (
    CODE_RANGES,
    INT4,
    INT4_NARROW,
    INT8,
    ROUNDINGS,
    UINT4,
    UINT8,
    CodeRange,
    requantise,
)
from kernels_npu.quant.checkpoints import gptq_zero_points, gptq_zeros_to_store
from kernels_npu.quant.granularity import Granularity
from kernels_npu.quant.grouped import grouped_matmul
from kernels_npu.quant.packing import LAYOUTS, Layout, convert, pack, unpack, zero_point_shift
from kernels_npu.quant.storage import group_bytes
from kernels_npu.quant.tensor import QuantisedTensor, choose_parameters, quantise

__all__ = [
    "CODE_RANGES",
    "CodeRange",
    "Granularity",
    "INT4",
    "INT4_NARROW",
    "INT8",
    "LAYOUTS",
    "Layout",
    "QuantisedTensor",
    "ROUNDINGS",
    "UINT4",
    "UINT8",
    "choose_parameters",
    "convert",
    "gptq_zero_points",
    "gptq_zeros_to_store",
    "group_bytes",
    "grouped_matmul",
    "pack",
    "quantise",
    "requantise",
    "unpack",
    "zero_point_shift",
]
