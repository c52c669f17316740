"""Capturing one graph: record on a side stream, keep the first error that is raised."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from graphs.batch import DecodeBatch
from graphs.device_api import DeviceApi, Graph
from graphs.errors import GraphError
from kernels_npu import registry

StepFn = Callable[[DecodeBatch], torch.Tensor]
#: The CANN runtime's number for work given to a capture that has failed already.
_INVALIDATED = 507903


@dataclass(frozen=True, kw_only=True)
class CapturedStep:
    """A graph of the decode step.

    launches: (operator, implementation) -> launches per replay, as far as the device does not count
        them itself.
    """

    graph: Graph
    launches: Mapping[tuple[str, str], int]

    def replay(self) -> None:
        """Run the recorded step."""
        self.graph.replay()
        if self.launches:
            registry.count_launches(self.launches)

    def reset(self) -> None:
        """Give up the graph and its memory."""
        self.graph.reset()


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection in the body.

    A graph that nobody refers to any more, in a cycle, is destroyed by the collector; when that
    happens while another graph is recorded, the driver invalidates the recording.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def capture_graph(
    api: DeviceApi,
    step: StepFn,
    inputs: DecodeBatch,
    logits: torch.Tensor,
    *,
    pool: Any,
    stream: Any,
) -> CapturedStep:
    """A graph that runs `step(inputs)` and stores the result in `logits`.

    The step has been warmed up on the same stream before (`graphs.warmup`). Its result is held by
    nobody afterwards, so that the pool gives its memory to what is captured next.

    Args:
        inputs: slices of static buffers, filled with rows that the step may safely compute.
        logits: slice of the static logits, [rows, vocab].
        pool: from `api.new_pool()`; graphs that never replay at the same time may share one.
        stream: a side stream.

    Raises:
        GraphError: AI-GRAPH-008 when the step's result does not fit `logits`.
        Exception: whatever the step, or else the capture, raised first.
    """
    graph = api.new_graph()
    first: BaseException | None = None
    try:
        with (
            collector_paused(),
            registry.recording() as launches,
            api.capture(graph, pool=pool, stream=stream),
        ):
            try:
                logits.copy_(step(inputs))
            except BaseException as error:
                first = error
                raise
    except Exception as error:
        # Ending an invalidated capture raises again, and that error hides why it is invalid.
        raise _cause(error if first is None else first) from error
    return CapturedStep(graph=graph, launches=dict(launches))


def _cause(error: BaseException) -> BaseException:
    """What invalidated a capture, if `error` only says that it is invalid and knows why."""
    while getattr(error, "acl_error", None) == _INVALIDATED and error.__cause__ is not None:
        error = error.__cause__
    return error


def check_logits(logits: torch.Tensor, target: torch.Tensor) -> None:
    """Refuse a step whose result does not fit the static logits: AI-GRAPH-008."""
    if (logits.shape, logits.dtype, logits.device) != (target.shape, target.dtype, target.device):
        raise GraphError(
            "AI-GRAPH-008",
            f"the step returned {logits.dtype} {list(logits.shape)} on {logits.device}, the static "
            f"logits of this bucket are {target.dtype} {list(target.shape)} on {target.device}",
            rule="a captured step writes its logits into a buffer of fixed shape, dtype and device",
            fix="allocate DecodeBuffers with the step's vocab_size and logits_dtype",
        )
