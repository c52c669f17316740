"""Every operator's kernel launched as on a real host: with a handle that is read for the launch.

The simulated device refuses a handle that is older than an operation on an argument.
"""

from __future__ import annotations

import pytest
import torch

from kernels_npu import dialect, launch, ops, registry
from kernels_npu.errors import AscendInferError
from kernels_npu.spec import OpSpec, all_specs
from tests.kernels_npu.conftest import assert_close

SPECS = all_specs()
assert ops  # registers the operators


@pytest.fixture(params=SPECS, ids=str)
def spec(request, monkeypatch, npu) -> OpSpec:
    monkeypatch.setattr(dialect, "name", "adapter", raising=False)
    return SPECS[request.param]


def inputs_of(spec: OpSpec, device: object, seed: int) -> dict:
    workload = min(spec.workloads, key=lambda w: spec.min_bytes(w, "float16"))
    generator = torch.Generator().manual_seed(seed)
    return spec.make_inputs(workload, torch.float16, device, generator)


def refill(inputs: dict, values: dict) -> None:
    """Copies on the device into every argument, which wait in the host's queue."""
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            inputs[name].copy_(value)


def check(spec: OpSpec, inputs: dict, result: object, seed: int) -> None:
    expected = inputs_of(spec, "cpu", seed)
    wanted = spec.outputs(spec.reference(**expected), expected)
    for name, tensor in spec.outputs(result, inputs).items():
        assert_close(name, tensor.cpu(), wanted[name], spec.tolerance["float16"])


def test_a_launch_stays_behind_what_torch_has_queued(spec, npu):
    kernel, inputs = registry.OPERATORS[spec.name].kernel(), inputs_of(spec, npu, 0)
    with torch.npu.stream(torch.npu.Stream()):
        torch.npu.current_stream().wait_stream(torch.npu.default_stream())
        for seed in (1, 2):
            refill(inputs, inputs_of(spec, npu, seed))
            result = kernel(**inputs)
        torch.npu.current_stream().synchronize()
    check(spec, inputs, result, seed)


def test_an_older_handle_is_found(spec, npu, monkeypatch):
    kernel, inputs = registry.OPERATORS[spec.name].kernel(), inputs_of(spec, npu, 0)
    handle = torch.npu.current_stream().npu_stream
    monkeypatch.setattr(launch, "current_raw_stream", lambda device: handle)
    refill(inputs, inputs_of(spec, npu, 1))
    with pytest.raises(AscendInferError) as caught:
        kernel(**inputs)
    assert caught.value.code == "AI-STREAM-002"


def test_a_captured_launch_is_replayed(spec, npu):
    kernel, inputs = registry.OPERATORS[spec.name].kernel(), inputs_of(spec, npu, 0)
    kernel(**inputs)  # compiled before the capture
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = kernel(**inputs)
    for seed in (1, 2):
        refill(inputs, inputs_of(spec, npu, seed))
        graph.replay()
    check(spec, inputs, result, seed)
