"""float32 to float16 with integer arithmetic, rounding to nearest even.

NumPy's own conversion takes a slow path for every result below 2**-14, where probabilities live;
this one costs the same for all values.
"""

from __future__ import annotations

import numpy as np

from kernels_npu.sim.machine.instruction import AnyArray

_SMALLEST_NORMAL = np.uint32(0x38800000)  # 2**-14 as float32 bits
_REBIAS = np.uint32(0xC8000FFF)  # (15 - 127) << 23, plus half a unit of the result less one
_HALF = np.float32(0.5)
_HALF_BITS = np.uint32(0x3F000000)


def to_half(source: AnyArray, out: AnyArray) -> None:
    """`out[...] = source` for float32 `source` and float16 `out` of one shape.

    A float32 `out`, which precise mode hands over, takes the values as they are.
    """
    if out.dtype == np.float32:
        np.copyto(out, source)
        return
    bits = np.ascontiguousarray(source).view(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    result = magnitude >> np.uint32(13)
    result &= np.uint32(1)
    result += magnitude
    result += _REBIAS
    result >>= np.uint32(13)
    np.minimum(result, np.uint32(0x7C00), out=result)
    small = magnitude < _SMALLEST_NORMAL
    if small.any():
        # Adding 0.5 puts the last bit of a subnormal half at the last bit of the sum.
        shifted = magnitude.view(np.float32) + _HALF
        np.copyto(result, shifted.view(np.uint32) - _HALF_BITS, where=small)
    nan = magnitude > np.uint32(0x7F800000)
    if nan.any():
        result[nan] = 0x7E00
    bits = bits >> np.uint32(16)
    bits &= np.uint32(0x8000)
    result |= bits
    np.copyto(out.view(np.uint16), result, casting="unsafe")
