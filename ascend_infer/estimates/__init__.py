"""Ledgers and bounds of a model on a device, from formulas; nothing here needs torch or a device.

decoder = load_decoder("qwen2.5-7b")                       # or the path of a config.json
step = estimate_step(decoder, Work.batch(32, 8192), roof_of("910B2"))
step.seconds, step.share("attention")
"""

from __future__ import annotations

from ascend_infer.estimates.advice import Advice, advise
from ascend_infer.estimates.boundary import amdahl, boundary_seconds, migration_gain
from ascend_infer.estimates.capacity import Capacity, capacity
from ascend_infer.estimates.clock import StepClock
from ascend_infer.estimates.formats import FORMATS, Format, Precision, get_format
from ascend_infer.estimates.kv import KvLedger, kv_ledger
from ascend_infer.estimates.models import MODELS, Decoder, Parallel, load_decoder, read_decoder
from ascend_infer.estimates.quantisation import QuantLedger, quantise_count, quantise_model
from ascend_infer.estimates.roof import Roof, roof_of
from ascend_infer.estimates.roofline import flip_rows, gemm_intensity, roofline_ledger
from ascend_infer.estimates.step import StepEstimate, estimate_step
from ascend_infer.estimates.weights import WeightLedger, weight_ledger
from ascend_infer.estimates.work import Sequence, Work

__all__ = [
    "FORMATS",
    "MODELS",
    "Advice",
    "Capacity",
    "Decoder",
    "Format",
    "KvLedger",
    "Parallel",
    "Precision",
    "QuantLedger",
    "Roof",
    "Sequence",
    "StepClock",
    "StepEstimate",
    "WeightLedger",
    "Work",
    "advise",
    "amdahl",
    "boundary_seconds",
    "capacity",
    "estimate_step",
    "flip_rows",
    "gemm_intensity",
    "get_format",
    "kv_ledger",
    "load_decoder",
    "migration_gain",
    "quantise_count",
    "quantise_model",
    "read_decoder",
    "roof_of",
    "roofline_ledger",
    "weight_ledger",
]
