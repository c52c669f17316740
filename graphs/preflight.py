"""What stands in the way of a capture, found before anything is captured.

Two rounds: `check_setup` looks at the environment, the device and the static buffers;
`check_warm_up` at what the eager runs showed. An error means that captures would fail or be wrong;
a strict runner raises it, others leave every bucket eager with it as the reason. A warning is
logged and kept in the statistics.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from graphs.batch import INPUT_DTYPES, INPUT_NAMES
from graphs.buckets import BucketPlan
from graphs.buffers import TENSOR_NAMES, DecodeBuffers
from graphs.device_api import DeviceApi
from graphs.environment import ENVIRONMENT
from graphs.errors import GraphError
from graphs.warmup import WarmUp

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PreflightFinding:
    """One obstacle, in the parts of a coded error."""

    code: str
    severity: Literal["error", "warning"]
    what: str
    rule: str
    fix: str

    def to_dict(self) -> dict[str, str]:
        """JSON-ready."""
        return {
            "code": self.code,
            "severity": self.severity,
            "what": self.what,
            "rule": self.rule,
            "fix": self.fix,
        }

    def to_error(self) -> GraphError:
        """The finding as the exception that a strict runner raises."""
        return GraphError(self.code, self.what, rule=self.rule, fix=self.fix)


def check_setup(
    api: DeviceApi,
    plan: BucketPlan,
    buffers: DecodeBuffers,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[PreflightFinding]:
    """Environment, static tensors and streams; runs nothing."""
    for rule in ENVIRONMENT:
        if rule.applies(environment, api.device.type):
            yield PreflightFinding(
                code="AI-GRAPH-023",
                severity=rule.severity,
                what=f"{rule.variable}={environment[rule.variable]} is set",
                rule=rule.rule,
                fix=rule.fix,
            )
    yield from _check_tensors(api, buffers)
    budget = api.stream_budget()
    if budget is not None and len(plan.sizes) > budget:
        yield PreflightFinding(
            code="AI-GRAPH-025",
            severity="error",
            what=f"{len(plan.sizes)} graphs need a stream each, {budget} are left for graphs on "
            f"{api.device}",
            rule="each graph occupies a stream of the device, and one for every side stream in it; "
            "streams are counted over all processes",
            fix="capture fewer sizes, or end other processes on this device",
        )


def _check_tensors(api: DeviceApi, buffers: DecodeBuffers) -> Iterator[PreflightFinding]:
    for name, tensor in zip(TENSOR_NAMES, buffers.tensors()):
        dtype = next((INPUT_DTYPES[n] for n in INPUT_NAMES if n == name), None)
        right = tensor.is_floating_point() if dtype is None else tensor.dtype is dtype
        if tensor.device == api.device and right:
            continue
        yield PreflightFinding(
            code="AI-GRAPH-024",
            severity="error",
            what=f"static tensor {name} is {tensor.dtype} on {tensor.device}, expected "
            f"{dtype or 'a floating dtype'} on {api.device}",
            rule="a graph reads device memory: what lies elsewhere is a constant in it",
            fix="make the buffers with DecodeBuffers.allocate on the runner's device",
        )


def check_warm_up(api: DeviceApi, warm: WarmUp) -> Iterator[PreflightFinding]:
    """Memory, compilations and inputs, as the eager runs showed them."""
    memory = api.memory()
    if warm.peak_bytes is not None and memory.free is not None:
        cached = (memory.reserved or 0) - (memory.allocated or 0)
        available = memory.free + max(cached, 0)
        if warm.peak_bytes > available:
            yield PreflightFinding(
                code="AI-GRAPH-026",
                severity="error",
                what=f"an eager step allocates {warm.peak_bytes:,} bytes, "
                f"{available:,} are available on {api.device}",
                rule="the pool of the graphs holds the intermediate results of the largest bucket "
                "for as long as there are graphs",
                fix="lower the largest capture size, or leave more memory beside the KV cache",
            )
    for bucket, count in warm.recompiled.items():
        yield PreflightFinding(
            code="AI-GRAPH-027",
            severity="error",
            what=f"bucket {bucket}: {count} kernels were compiled again in the last warm-up run",
            rule="compiling and loading a kernel is not possible while a graph is recorded",
            fix="make kernels once, outside the step or behind a cache, "
            "with parameters that depend on the bucket only",
        )
    for name in warm.unread:
        yield PreflightFinding(
            code="AI-GRAPH-028",
            severity="warning",
            what=f"the step does not take {name} from its batch",
            rule="what changes between steps reaches a graph only through the static buffers; a "
            "copy kept elsewhere is frozen at its values of the capture",
            fix=f"read batch.{name} in the step, or ignore this if the model has no use for it",
        )


def report(findings: Iterable[PreflightFinding]) -> None:
    """Log each finding at its level."""
    for finding in findings:
        level = logging.ERROR if finding.severity == "error" else logging.WARNING
        _log.log(level, "preflight: %s: %s; %s", finding.code, finding.what, finding.fix)
