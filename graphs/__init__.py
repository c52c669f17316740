"""Decode blocks as device graphs: buckets, static buffers, capture, replay and proof.

api = device_api("npu:0")
plan = BucketPlan.up_to(max_num_seqs)
buffers = DecodeBuffers.allocate(api, max_batch=plan.largest, max_blocks=..., vocab_size=...,
                                 logits_dtype=torch.float16)
runner = DecodeGraphRunner(model.decode, buffers, plan, api)
runner.capture()
verify(runner, KvState(tensors=caches, block_size=16)).raise_for_findings()
logits = runner.run(batch)
"""

from __future__ import annotations

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan, PaddingReport, PlanWarning
from graphs.buffers import DecodeBuffers
from graphs.compare import Mismatch, Tolerance
from graphs.device_api import DeviceApi, MemoryFigures, device_api
from graphs.errors import GraphError, VerificationError
from graphs.kv_state import KvState
from graphs.preflight import PreflightFinding
from graphs.report import Finding, ReplayProof, VerificationReport
from graphs.runner import DecodeGraphRunner
from graphs.stats import EagerReason, RunnerStats
from graphs.updates import HostUpdates
from graphs.verification import verify

__all__ = [
    "BucketPlan",
    "DecodeBatch",
    "DecodeBuffers",
    "DecodeGraphRunner",
    "DeviceApi",
    "EagerReason",
    "Finding",
    "GraphError",
    "HostUpdates",
    "KvState",
    "MemoryFigures",
    "Mismatch",
    "PaddingReport",
    "PlanWarning",
    "PreflightFinding",
    "ReplayProof",
    "RunnerStats",
    "Tolerance",
    "VerificationError",
    "VerificationReport",
    "device_api",
    "verify",
]
