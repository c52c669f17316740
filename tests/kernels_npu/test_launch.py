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


def test_kernels_are_for_ascendc_whatever_auto_means(npu, monkeypatch):
    """PTO splices L1 parts, pads slices and rewrites gather offsets in ways they do not expect."""
    from kernels_npu.activation.silu_and_mul import silu_and_mul_kernel
    from kernels_npu.attention.decode_kernel import paged_decode_attention_kernel
    from kernels_npu.kv_cache.reshape_and_cache import reshape_and_cache_kernel
    from kernels_npu.normalization.add_rms_norm import add_rms_norm_kernel
    from kernels_npu.normalization.rms_norm import rms_norm_kernel
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
