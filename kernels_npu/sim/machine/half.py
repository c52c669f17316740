"""float16 and float32 into each other with integer arithmetic.

NumPy converts one element at a time, and takes a slow path for every half below 2**-14, where
probabilities live; here whole arrays are converted, and the cost is the same for all values.
"""

from __future__ import annotations

import numpy as np

from kernels_npu.sim.machine.instruction import AnyArray

_SMALLEST_NORMAL = np.uint32(0x38800000)  # 2**-14 as float32 bits
_REBIAS = np.uint32(0xC8000FFF)  # (15 - 127) << 23, plus half a unit of the result less one
_HALF = np.float32(0.5)
_HALF_BITS = np.uint32(0x3F000000)
_SIGN_AND_MAGNITUDE = np.int32(~0x7000_0000 & ~0x1FFF)
_WIDER_BIAS = np.float32(2.0**112)


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


def from_half(source: AnyArray) -> AnyArray:
    """Float16 `source` as a new float32 array; exact."""
    if source.size and (source.view(np.uint16) & np.uint16(0x7FFF)).max() >= 0x7C00:
        return source.astype(np.float32)  # infinities and NaNs have an exponent of their own
    bits = np.left_shift(source.view(np.int16), 13, dtype=np.int32)
    bits &= _SIGN_AND_MAGNITUDE
    wide = bits.view(np.float32)
    wide *= _WIDER_BIAS
    return wide


def widen(source: AnyArray) -> AnyArray:
    """A float array of 2 bytes per element as float32; others as they are."""
    if source.dtype == np.float16:
        return from_half(source)
    return source.astype(np.float32) if source.dtype.itemsize == 2 else source
