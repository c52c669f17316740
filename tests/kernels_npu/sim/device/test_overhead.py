"""What the device adds to the work itself (`pytest -m bench -s`); prints, asserts no time."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from kernels_npu.sim.device import launch
from kernels_npu.sim.device.launch import call_jit_kernel
from tests.kernels_npu.sim.device.conftest import capture
from tests.kernels_npu.sim.device.kernels import scaled_sum

pytestmark = pytest.mark.bench


def _microseconds(function, repeat=2000):
    """Least CPU time of this thread per call; a busy machine hardly changes it."""
    best = float("inf")
    for _ in range(7):
        start = time.thread_time()
        for _ in range(repeat):
            function()
        best = min(best, time.thread_time() - start)
    return best / repeat * 1e6


OPERATIONS = {
    "add": lambda x, w: x + x,
    "add_": lambda x, w: x.add_(1),
    "linear": lambda x, w: F.linear(x, w),
    "softmax": lambda x, w: torch.softmax(x, -1),
    "view": lambda x, w: x.view(-1),
    "slice": lambda x, w: x[2:5],
    "cat": lambda x, w: torch.cat([x, x]),
    "empty_like": lambda x, w: torch.empty_like(x),
    "half": lambda x, w: x.half(),
}


@pytest.mark.parametrize("several_streams", [False, True])
def test_eager_overhead(several_streams, device):
    x, w = torch.randn(8, 64), torch.randn(64, 64)
    nx, nw = x.npu(), w.npu()
    torch.npu.synchronize()
    nx.untyped_storage().npu_block.device.single_stream = not several_streams
    with torch.no_grad():
        for name, operation in OPERATIONS.items():
            on_cpu = _microseconds(lambda f=operation: f(x, w))
            on_npu = _microseconds(lambda f=operation: f(nx, nw))
            print(f"{name:12} cpu {on_cpu:5.2f}  npu {on_npu:5.2f}  adds {on_npu - on_cpu:5.2f} us")


def test_replay_overhead(device):
    x = torch.randn(8, 64)
    nx, out = x.npu(), torch.empty_like(x)
    for name, operation, host in (
        ("add", lambda: nx + nx, lambda: torch.ops.aten.add.out(x, x, out=out)),
        ("silu", lambda: F.silu(nx), lambda: torch.ops.aten.silu.out(x, out=out)),
    ):
        graph, _ = capture(lambda f=operation: [f() for _ in range(100)])
        replayed = _microseconds(graph.replay, 50) / 100
        alone = _microseconds(host)
        print(f"{name:12} replay {replayed:5.2f}  cpu out= {alone:5.2f} us per operation")


def test_launch_overhead(device):
    a = torch.randn(4, 32, device="npu")
    kernel = scaled_sum(32)
    idle = SimpleNamespace(
        launch=lambda args, noted: None,
        func=kernel.compiled.func,
        lowered=kernel.compiled.lowered,
    )

    class Fake:
        prim_func, out_idx, workspace_idx = kernel.prim_func, kernel.out_idx, kernel.workspace_idx
        compiled = idle

    fake = Fake()
    eager = _microseconds(lambda: call_jit_kernel(fake, (a, a)))
    graph, _ = capture(lambda: [call_jit_kernel(fake, (a, a)) for _ in range(100)])
    print(
        f"launch of 2 inputs, 1 output: eager {eager:5.2f} us, "
        f"replay {_microseconds(graph.replay, 50) / 100:5.2f} us, outside the machine"
    )
    assert launch.plan_of(fake).name == "scaled_sum"
