"""Kernels on CPU tensors, in a process of its own: without the device `npu`, and counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import torch
from kernels_npu import ops, reference, registry
from kernels_npu.errors import AscendInferError

def close(found, expected):
    torch.testing.assert_close(found.double(), expected.double(), rtol=4e-3, atol=4e-3)

x, weight = torch.randn(5, 64).half(), torch.nn.Parameter(torch.randn(64).half())
with torch.no_grad():
    before = ops.rms_norm(x, weight, 1e-5)
registry.simulate_on_cpu()
with torch.no_grad():
    close(ops.rms_norm(x, weight, 1e-5), before)
    assert ops.rms_norm(x[:0], weight, 1e-5).shape == (0, 64)

# Views that do not start their storage are read and written where they are.
cache = torch.zeros(6, 16, 2, 32).bfloat16()
key, value = torch.randn(2, 3, 2, 32).bfloat16()
slots = torch.tensor([5, -1, 40], dtype=torch.int32)
ops.reshape_and_cache(key, value, cache[:-1], cache[1:], slots)
assert torch.equal(cache[0, 5], key[0]) and torch.equal(cache[1, 5], value[0])
assert torch.equal(cache[2, 8], key[2]) and torch.equal(cache[3, 8], value[2])
assert int(cache.count_nonzero()) == 4 * 64

table, lens = torch.tensor([[2]], dtype=torch.int32), torch.tensor([9], dtype=torch.int32)
arguments = torch.randn(1, 4, 32).bfloat16(), cache[:-1], cache[1:], table, lens, 0.2
found = ops.paged_decode_attention(*arguments)
expected = reference.paged_decode_attention(*arguments)
torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)

try:
    ops.rms_norm(x.float(), weight.float(), 1e-5)
except AscendInferError as error:
    assert error.code.startswith("AI-OP-"), error.code
else:
    raise AssertionError("no kernel takes float32")

compiled = torch.compile(lambda x, w: ops.rms_norm(x * 2, w, 1e-5) + 1, backend="aot_eager")
with torch.no_grad():
    close(compiled(x, weight), reference.rms_norm(x * 2, weight, 1e-5) + 1)

counts = registry.launch_counts()
assert counts.pop(("rms_norm", "reference")) == 1, counts
assert counts == {("rms_norm", "sim"): 2, ("reshape_and_cache", "sim"): 1,
                  ("paged_decode_attention", "sim"): 1}, counts
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert not hasattr(torch, "npu")
"""


def test_kernels_serve_cpu_tensors_after_the_switch_and_torch_stays_as_it_is() -> None:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
