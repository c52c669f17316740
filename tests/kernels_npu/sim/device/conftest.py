"""The simulated device with two indices; settings and findings are put back after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels_npu.sim import device as simulated
from kernels_npu.sim.device import counters
from kernels_npu.sim.device.state import process


@pytest.fixture(autouse=True)
def device() -> Iterator[torch.device]:
    """`npu:0`, with no capture left open by the test."""
    simulated.enable(device_count=2)
    simulated.configure(stream_order="raise")
    process.findings.clear()
    counters.reset()
    yield torch.device("npu", 0)
    assert process.session is None
    simulated.configure(stream_order="raise")
    process.findings.clear()


def capture(body):
    """The graph of `body` and what `body` returned."""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = body()
    return graph, result
