"""float16 and float32 into each other.

NumPy converts one element at a time, and takes a slow path for every half below 2**-14, where
probabilities live. torch uses the processor's instructions, at a tenth of the cost; the machine
does without it in a process that has not imported it. Both round to nearest even; only the bits of
a NaN differ.
"""

from __future__ import annotations

import sys

import numpy as np

from kernels_npu.sim.machine.instruction import AnyArray


def to_half(source: AnyArray, out: AnyArray) -> None:
    """`out[...] = source` for float32 `source` and float16 `out` of one shape.

    A float32 `out`, which precise mode hands over, takes the values as they are.
    """
    torch = sys.modules.get("torch")
    if torch is None or out.dtype != np.float16 or not source.flags.writeable:
        np.copyto(out, source, casting="unsafe")
    else:
        torch.from_numpy(out).copy_(torch.from_numpy(source))


def from_half(source: AnyArray) -> AnyArray:
    """Float16 `source` as a new float32 array; exact."""
    torch = sys.modules.get("torch")
    if torch is None or not source.flags.writeable:
        return source.astype(np.float32)
    wide: AnyArray = torch.from_numpy(source).float().numpy()
    return wide


def widen(source: AnyArray) -> AnyArray:
    """A float array of 2 bytes per element as float32; others as they are."""
    if source.dtype == np.float16:
        return from_half(source)
    return source.astype(np.float32) if source.dtype.itemsize == 2 else source
