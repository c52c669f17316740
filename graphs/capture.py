"""Capturing one graph: warm up on a side stream, record, keep the first error that is raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from graphs.batch import DecodeBatch
from graphs.device_api import DeviceApi, Graph
from graphs.errors import GraphError
from kernels_npu import registry

StepFn = Callable[[DecodeBatch], torch.Tensor]


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


def capture_graph(
    api: DeviceApi,
    step: StepFn,
    inputs: DecodeBatch,
    logits: torch.Tensor,
    *,
    pool: Any,
    stream: Any,
    warmups: int,
) -> CapturedStep:
    """A graph that runs `step(inputs)` and stores the result in `logits`.

    Args:
        inputs: slices of static buffers, filled with rows that the step may safely compute.
        logits: slice of the static logits, [rows, vocab].
        pool: from `api.new_pool()`; graphs that never replay at the same time may share one.
        stream: a side stream, for the warm-up and the capture alike: libraries keep workspaces
            per stream, and one that is first needed while recording would be allocated inside
            the graph.
        warmups: eager runs before recording.

    Raises:
        GraphError: AI-GRAPH-008 when the step's result does not fit `logits`.
        Exception: whatever the step, or else the capture, raised first.
    """
    _warm_up(api, step, inputs, logits, stream, warmups)
    graph = api.new_graph()
    first: BaseException | None = None
    try:
        with registry.recording() as launches, api.capture(graph, pool=pool, stream=stream):
            try:
                logits.copy_(step(inputs))
            except BaseException as error:
                first = error
                raise
    except Exception as error:
        # Ending an invalidated capture raises again, and that error hides why it is invalid.
        if first is not None and error is not first:
            raise first from error
        raise
    return CapturedStep(graph=graph, launches=dict(launches))


def _warm_up(
    api: DeviceApi,
    step: StepFn,
    inputs: DecodeBatch,
    logits: torch.Tensor,
    stream: Any,
    warmups: int,
) -> None:
    before = api.current_stream()
    stream.wait_stream(before)
    with api.use_stream(stream):
        for _ in range(warmups):
            _check_logits(step(inputs), logits)
    before.wait_stream(stream)
    api.synchronize()


def _check_logits(logits: torch.Tensor, target: torch.Tensor) -> None:
    if (logits.shape, logits.dtype, logits.device) != (target.shape, target.dtype, target.device):
        raise GraphError(
            "AI-GRAPH-008",
            f"the step returned {logits.dtype} {list(logits.shape)} on {logits.device}, the static "
            f"logits of this bucket are {target.dtype} {list(target.shape)} on {target.device}",
            rule="a captured step writes its logits into a buffer of fixed shape, dtype and device",
            fix="allocate DecodeBuffers with the step's vocab_size and logits_dtype",
        )
