"""Decode blocks as device graphs: buckets, static buffers, capture, replay and proof.

from graphs.device_api import device_api  # not from here: the module has the same name

api = device_api("npu:0")
plan = BucketPlan.up_to(max_num_seqs)
buffers = DecodeBuffers.allocate(api, max_batch=plan.largest, max_blocks=..., vocab_size=...,
                                 logits_dtype=torch.float16)
runner = DecodeGraphRunner(model.decode, buffers, plan, api)
runner.capture()
verify(runner, KvState(tensors=caches, block_size=16)).raise_for_findings()
logits = runner.run(batch)

Names are imported when they are first used: planning (`graphs.buckets`, `graphs.planning`) works in
an installation without torch, which everything else here needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphs.batch import DecodeBatch
    from graphs.buckets import BucketPlan, PaddingReport, PlanWarning
    from graphs.buffers import DecodeBuffers
    from graphs.compare import Mismatch, Tolerance
    from graphs.device_api import DeviceApi, MemoryFigures
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
    "verify",
]

_MODULE_OF = {
    "BucketPlan": "buckets",
    "DecodeBatch": "batch",
    "DecodeBuffers": "buffers",
    "DecodeGraphRunner": "runner",
    "DeviceApi": "device_api",
    "EagerReason": "stats",
    "Finding": "report",
    "GraphError": "errors",
    "HostUpdates": "updates",
    "KvState": "kv_state",
    "MemoryFigures": "device_api",
    "Mismatch": "compare",
    "PaddingReport": "buckets",
    "PlanWarning": "buckets",
    "PreflightFinding": "preflight",
    "ReplayProof": "report",
    "RunnerStats": "stats",
    "Tolerance": "compare",
    "VerificationError": "errors",
    "VerificationReport": "report",
    "verify": "verification",
}


def __getattr__(name: str) -> object:
    """Import the module that has `name`, at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
