"""Peak memory of one launch beside what it works on; run as a process of its own, prints JSON."""

from __future__ import annotations

import json
import resource
import sys

import torch
from attention_kernel import attention_tile_kernel
from elementwise_kernel import add_kernel

from kernels_npu.sim.device.setup import enable

#: UB of two vector cores, L1, L0A, L0B and L0C of one block.
ON_CHIP = 2 * 196608 + 524288 + 2 * 65536 + 131072


def peak() -> int:
    """Bytes of this process at their highest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attention(keys: int) -> int:
    """One launch of the attention loop; bytes of its tensors."""
    tensors = [torch.randn(rows, 128).to("npu") for rows in (64, keys, keys)]
    output = attention_tile_kernel(keys, "float32")(*tensors)
    torch.npu.synchronize()
    return sum(t.nbytes for t in (*tensors, output))


def elementwise(rows: int) -> int:
    """One launch of an addition by many blocks; bytes of its tensors."""
    tensors = [torch.randn(rows, 1024).to("npu") for _ in range(2)]
    output = add_kernel(rows)(*tensors)
    torch.npu.synchronize()
    return sum(t.nbytes for t in (*tensors, output))


WORKLOADS = {"attention": (attention, 128, 1 << 17), "elementwise": (elementwise, 64, 1 << 15)}


def main() -> None:
    """Warm up with a small launch, so that only what grows with the data is counted."""
    enable()
    run, small, large = WORKLOADS[sys.argv[1]]
    run(small)
    before = peak()
    tensors = run(large)
    print(json.dumps({"tensors": tensors, "on_chip": ON_CHIP, "growth": peak() - before}))


if __name__ == "__main__":
    main()
