"""Dtype names of the dialect: one canonical spelling, its size, and its NumPy type.

Canonical names are the keys of `DTYPES`. Kernel sources may use aliases (`half`, `float`, `int`,
C type names such as `bfloat16_t`); `canonical` maps them and rejects anything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim.scalar_ops import is_float

__all__ = [
    "ALIASES",
    "DTYPES",
    "DType",
    "bits_of",
    "bytes_of",
    "canonical",
    "is_float",
    "is_integer",
    "is_signed",
    "lookup",
    "nbytes",
    "numpy_dtype",
]


@dataclass(frozen=True, kw_only=True)
class DType:
    """One element type.

    `bits` is the storage width of an element; `numpy` holds one element per array item, so `int4`,
    two of which share a byte in memory, is unpacked there.
    """

    name: str
    bits: int
    numpy: np.dtype


def _dtype(name: str, bits: int, numpy: object) -> DType:
    return DType(name=name, bits=bits, numpy=np.dtype(numpy))  # type: ignore[call-overload]


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _dtype("bool", 8, np.bool_),
        _dtype("int4", 4, ml_dtypes.int4),
        _dtype("int8", 8, np.int8),
        _dtype("uint8", 8, np.uint8),
        _dtype("int16", 16, np.int16),
        _dtype("uint16", 16, np.uint16),
        _dtype("int32", 32, np.int32),
        _dtype("uint32", 32, np.uint32),
        _dtype("int64", 64, np.int64),
        _dtype("uint64", 64, np.uint64),
        _dtype("float8_e4m3", 8, ml_dtypes.float8_e4m3fn),
        _dtype("float8_e5m2", 8, ml_dtypes.float8_e5m2),
        _dtype("float16", 16, np.float16),
        _dtype("bfloat16", 16, ml_dtypes.bfloat16),
        _dtype("float32", 32, np.float32),
        _dtype("float64", 64, np.float64),
    )
}

#: Other spellings: TVM's short names, C types of the generated code, float8 names of both dialects.
ALIASES: dict[str, str] = {
    "half": "float16",
    "fp16": "float16",
    "float": "float32",
    "fp32": "float32",
    "double": "float64",
    "bf16": "bfloat16",
    "bfloat16_t": "bfloat16",
    "int": "int32",
    "uint": "uint32",
    "int4b_t": "int4",
    "e4m3_float8": "float8_e4m3",
    "e5m2_float8": "float8_e5m2",
    "float8_e4m3fn": "float8_e4m3",
    "float8_e4m3_t": "float8_e4m3",
    "float8_e5m2_t": "float8_e5m2",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


#: Floats of 16 bits, whose arithmetic rounds visibly.
HALF_PRECISION = frozenset({"float16", "bfloat16"})


def canonical(name: str, where: SourceLocation | None = None) -> str:
    """The canonical spelling of `name`.

    Raises:
        KernelSourceError: AI-SRC-030 when the dialect has no such dtype.
    """
    if name in DTYPES:
        return name
    found = ALIASES.get(name)
    if found is None:
        raise KernelSourceError(
            "AI-SRC-030",
            f"{name!r} is not a dtype of the dialect",
            where=where,
            rule="dtypes are " + ", ".join(DTYPES) + " and aliases such as half, float, int",
            fix="use one of these names",
        )
    return found


def lookup(name: str) -> DType:
    """The `DType` of a canonical name or an alias."""
    return DTYPES[canonical(name)]


def bits_of(name: str) -> int:
    """Storage bits of one element."""
    return lookup(name).bits


def bytes_of(name: str) -> int:
    """Bytes of one element by the compiler's type table: at least 1, so `int4` gives 1."""
    return max(1, lookup(name).bits // 8)


def nbytes(count: int, name: str) -> int:
    """Bytes that `count` elements occupy, rounded up to a whole byte (two `int4` share one)."""
    return (count * lookup(name).bits + 7) // 8


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy (or ml_dtypes) type holding one element per item."""
    return lookup(name).numpy


def is_integer(name: str) -> bool:
    """Whether `name` is a signed or unsigned integer; `bool` is not."""
    return not is_float(name) and name != "bool"


def is_signed(name: str) -> bool:
    """Whether values of `name` can be negative."""
    return is_float(name) or name.startswith("int")
