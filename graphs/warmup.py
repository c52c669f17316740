"""Eager runs before a capture, and what they tell about the step.

Kernels are compiled, binaries loaded and workspaces allocated here, because none of that may happen
while a graph is recorded. All buckets are warmed up before the first is captured, so that what is
wrong is known while nothing has been captured.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphs.batch import INPUT_NAMES, DecodeBatch
from graphs.buffers import DecodeBuffers
from graphs.capture import StepFn, check_logits
from graphs.device_api import DeviceApi
from graphs.errors import GraphError


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """What the warm-up runs showed.

    failures: bucket -> the exception of its warm-up.
    recompiled: bucket -> kernels that its last warm-up run still compiled, as far as the device
        counts them and the bucket ran at least twice.
    unread: inputs that the step never took from its batch.
    peak_bytes: most memory that one eager step allocated, None where the device does not say.
    """

    failures: Mapping[int, Exception]
    recompiled: Mapping[int, int]
    unread: Sequence[str]
    peak_bytes: int | None


def warm_up(
    api: DeviceApi,
    step: StepFn,
    buffers: DecodeBuffers,
    buckets: Sequence[int],
    *,
    stream: Any,
    runs: int,
) -> WarmUp:
    """Run `step` eagerly `runs` times for each of `buckets`, on rows of padding.

    Args:
        buckets: the largest first. stream: the one that is captured later: libraries keep
            workspaces per stream.

    Raises:
        GraphError: AI-GRAPH-008 when the step's result does not fit the static logits.
    """
    failures: dict[int, Exception] = {}
    recompiled: dict[int, int] = {}
    seen: set[str] = set()
    peak: int | None = None
    for bucket in buckets:
        first = not seen
        with api.peak_memory() as peak_of_step:
            try:
                compiled = _run(api, step, buffers, bucket, stream, runs, seen if first else None)
            except Exception as error:
                if isinstance(error, GraphError) and error.code == "AI-GRAPH-008":
                    raise
                traceback.clear_frames(error.__traceback__)  # their locals hold device memory
                failures[bucket] = error
                continue
        if runs > 1 and compiled:
            recompiled[bucket] = compiled
        peak = max((n for n in (peak, peak_of_step()) if n is not None), default=None)
    read = seen or INPUT_NAMES  # nothing ran: nothing is known
    return WarmUp(
        failures=failures,
        recompiled=recompiled,
        unread=[name for name in INPUT_NAMES if name not in read],
        peak_bytes=peak,
    )


def _run(
    api: DeviceApi,
    step: StepFn,
    buffers: DecodeBuffers,
    bucket: int,
    stream: Any,
    runs: int,
    seen: set[str] | None,
) -> int:
    """Kernels that the last of `runs` runs compiled."""
    before = api.current_stream()
    inputs = buffers.slice(bucket)
    compiled = 0
    stream.wait_stream(before)
    try:
        with api.use_stream(stream):
            for run in range(runs):
                observed = inputs if seen is None or run else observe(inputs, seen)
                known = api.compiled_kernels()
                check_logits(step(observed), buffers.logits[:bucket])
                compiled = api.compiled_kernels() - known
    finally:
        # Also after an error: what did run still reads the static buffers.
        before.wait_stream(stream)
    api.synchronize()
    return compiled


class _ObservedBatch(DecodeBatch):
    """Notes which inputs are taken from it. Whoever never takes an input cannot depend on it."""

    @property
    def size(self) -> int:
        rows: torch.Tensor = self.__dict__["token_ids"]
        return rows.shape[0]


def _noted(name: str) -> property:
    def take(self: _ObservedBatch) -> torch.Tensor:
        # A copy with other tensors (`dataclasses.replace`) is the step's own and notes nothing.
        self.__dict__.get("_seen", set()).add(name)
        tensor: torch.Tensor = self.__dict__[name]
        return tensor

    def put(self: _ObservedBatch, tensor: torch.Tensor) -> None:
        self.__dict__[name] = tensor

    return property(take, put)


for _name in INPUT_NAMES:  # a property goes before the instance's own attribute
    setattr(_ObservedBatch, _name, _noted(_name))


def observe(batch: DecodeBatch, seen: set[str]) -> DecodeBatch:
    """The same tensors in a batch that adds the name of each input that is taken to `seen`."""
    observed = _ObservedBatch.__new__(_ObservedBatch)
    observed.__dict__.update({name: getattr(batch, name) for name in INPUT_NAMES}, _seen=seen)
    return observed
