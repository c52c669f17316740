"""Launching: the stream on a real NPU, the number of blocks of a device."""

from __future__ import annotations

import torch

from kernels_npu import dialect, launch


class Kernel:
    """Stands in for a JITKernel."""

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


def test_a_real_launch_reads_the_stream_each_time(monkeypatch):
    monkeypatch.setattr(dialect, "name", "adapter", raising=False)
    handles = iter([0x10, 0x20])
    monkeypatch.setattr(launch, "current_raw_stream", lambda device: next(handles))
    kernel, tensor = Kernel(), torch.zeros(1)
    launch.launch(kernel, tensor)
    launch.launch(kernel, tensor)
    assert [options for _, options in kernel.calls] == [{"stream": 0x10}, {"stream": 0x20}]


def test_a_block_per_cube_core(npu):
    cores = torch.npu.get_device_properties(npu).cube_core_num
    assert launch.block_count(npu) == cores > 0
