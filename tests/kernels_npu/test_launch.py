"""Launching: the stream on a real NPU, the number of blocks of a device."""

from __future__ import annotations

import threading

import pytest
import torch

from kernels_npu import dialect, launch, reference
from kernels_npu.errors import AscendInferError, EnvironmentProblem, UsageError
from kernels_npu.normalization.rms_norm import rms_norm_kernel
from kernels_npu.sim import device as simulated
from kernels_npu.stream import current_raw_stream


class Kernel:
    """Stands in for a JITKernel."""

    execution_backend = "cython"

    def __init__(self):
        self.calls = []

    def __call__(self, *tensors, **options):
        self.calls.append((tensors, options))
        return "out"


def test_the_simulator_takes_the_current_stream_itself(monkeypatch):
    monkeypatch.setattr(dialect, "name", "simulator", raising=False)
    kernel, tensor = Kernel(), torch.zeros(1)
    assert launch.launch(kernel, tensor) == "out"
    assert kernel.calls == [((tensor,), {})]


@pytest.fixture
def adapter(monkeypatch):
    """Launch as with the real adapter; its kernels are stand-ins, the device is simulated."""
    monkeypatch.setattr(dialect, "name", "adapter", raising=False)


def test_a_real_launch_reads_the_stream_each_time(adapter, npu):
    kernel, x = Kernel(), torch.randn(3, 5).to(npu)
    side = torch.npu.Stream()
    launch.launch(kernel, x)
    with torch.npu.stream(side):
        launch.launch(kernel, x)
    launch.launch(kernel, x)
    default = torch.npu.default_stream().npu_stream
    expected = [default, side.npu_stream, default]
    assert [options["stream"] for _, options in kernel.calls] == expected


def test_reading_the_stream_hands_over_what_torch_has_queued(adapter, npu):
    """The handle of a launch is read after the operations that wrote its arguments."""
    x = torch.randn(4, 16, dtype=torch.float16).to(npu)
    weight = torch.randn(16, dtype=torch.float16).to(npu)
    kernel = rms_norm_kernel(16, 1e-5, "float16", 4)
    early = torch.npu.current_stream().npu_stream
    x.mul_(2)
    with pytest.raises(AscendInferError) as caught:
        kernel(x, weight, stream=early)
    assert caught.value.code == "AI-STREAM-002"
    expected = reference.rms_norm(x.cpu(), weight.cpu(), 1e-5)
    torch.testing.assert_close(launch.launch(kernel, x, weight).cpu(), expected, atol=1e-2, rtol=0)


def test_under_capture_the_launch_is_part_of_the_graph(adapter, npu):
    x = torch.randn(4, 16, dtype=torch.float16).to(npu)
    weight = torch.randn(16, dtype=torch.float16).to(npu)
    kernel, graph = rms_norm_kernel(16, 1e-5, "float16", 4), torch.npu.NPUGraph()
    launch.launch(kernel, x, weight)
    with torch.npu.graph(graph):
        out = launch.launch(kernel, x, weight)
        captured = torch.npu.current_stream().npu_stream
        assert current_raw_stream(npu) == captured != torch.npu.default_stream().npu_stream
    x.copy_(torch.randn(4, 16, dtype=torch.float16))
    graph.replay()
    expected = reference.rms_norm(x.cpu(), weight.cpu(), 1e-5)
    torch.testing.assert_close(out.cpu(), expected, atol=1e-2, rtol=0)


def test_a_launch_is_made_on_the_device_of_its_tensors(adapter, npu):
    simulated.enable(device_count=2)

    class Looking(Kernel):
        def __call__(self, *tensors, **options):
            return torch.npu.current_device(), options["stream"]

    x = torch.randn(3).to("npu:1")
    assert launch.launch(Looking(), x) == (1, torch.npu.default_stream(1).npu_stream)
    assert torch.npu.current_device() == 0
    with pytest.raises(UsageError) as caught:
        launch.launch(Looking(), x, torch.randn(3).to("npu:0"))
    assert caught.value.code == "AI-STREAM-013"


@pytest.mark.parametrize("backend", ["ctypes", "dlpack", "npuir", None])
def test_ways_of_launching_that_ignore_the_stream_are_refused(adapter, npu, backend):
    kernel = Kernel()
    kernel.execution_backend = backend
    with pytest.raises(EnvironmentProblem, match=repr(backend)) as caught:
        launch.launch(kernel, torch.randn(3).to(npu))
    assert caught.value.code == "AI-STREAM-012"
    assert not kernel.calls


def test_outputs_are_not_filled_between_reading_the_stream_and_the_launch(adapter, npu):
    class Allocating(Kernel):
        def __call__(self, *tensors, **options):
            assert torch.are_deterministic_algorithms_enabled()
            return torch.utils.deterministic.fill_uninitialized_memory

    kernel, x = Allocating(), torch.randn(3).to(npu)
    torch.use_deterministic_algorithms(True)
    try:
        assert launch.launch(kernel, x) is False
        assert torch.utils.deterministic.fill_uninitialized_memory is True
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_launch_of_another_thread_does_not_turn_filling_on(adapter, npu):
    """The first thread ends its launch while the second is in one."""
    inside, ended, seen = threading.Event(), threading.Event(), []

    class Waiting(Kernel):
        def __call__(self, *tensors, **options):
            inside.set()
            ended.wait(0.2)  # as long as the other launch may take to get in and out
            seen.append(torch.utils.deterministic.fill_uninitialized_memory)

    class Quick(Kernel):
        def __call__(self, *tensors, **options):
            seen.append(torch.utils.deterministic.fill_uninitialized_memory)

    def second():
        inside.wait()
        launch.launch(Waiting(), x)

    x = torch.randn(3).to(npu)
    torch.use_deterministic_algorithms(True)
    try:
        thread = threading.Thread(target=second)
        thread.start()
        launch.launch(Waiting(), x)
        launch.launch(Quick(), x)
        ended.set()
        thread.join()
        assert seen == [False, False, False]
        assert torch.utils.deterministic.fill_uninitialized_memory is True
    finally:
        torch.use_deterministic_algorithms(False)


def test_kernels_are_for_ascendc_whatever_auto_means(npu, monkeypatch):
    """PTO splices L1 parts, pads slices and rewrites gather offsets in ways they do not expect."""
    from kernels_npu.activation.silu_and_mul import silu_and_mul_kernel
    from kernels_npu.attention.decode_kernel import paged_decode_attention_kernel
    from kernels_npu.kv_cache.reshape_and_cache import reshape_and_cache_kernel
    from kernels_npu.normalization.add_rms_norm import add_rms_norm_kernel
    from kernels_npu.rotary.half_split import half_split_kernel
    from kernels_npu.rotary.interleaved import interleaved_kernel
    from kernels_npu.sim.frontend import jit

    monkeypatch.setattr(jit, "auto_target", "pto")
    rotary = (2, 1, 64, 64, "float16", "float32", "int32", 4)
    kernels = (
        paged_decode_attention_kernel(4, 1, 64, 16, "float16", 0.125, 0, 0.0),
        rms_norm_kernel(64, 1e-5, "float16", 4),
        add_rms_norm_kernel(64, 1e-5, "float16", 4),
        silu_and_mul_kernel(64, 64, "float16", 4),
        reshape_and_cache_kernel(1, 64, 16, "float16", 4),
        half_split_kernel(*rotary),
        interleaved_kernel(*rotary),
    )
    assert {kernel.target for kernel in kernels} == {"ascendc"}


def test_a_block_per_cube_core(npu):
    cores = torch.npu.get_device_properties(npu).cube_core_num
    assert launch.block_count(npu) == cores > 0
