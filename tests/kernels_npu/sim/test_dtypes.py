"""Dtype names, sizes and NumPy types."""

from __future__ import annotations

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim import dtypes


@pytest.mark.parametrize(
    ("alias", "name", "size"),
    [
        ("half", "float16", 2),
        ("float", "float32", 4),
        ("int", "int32", 4),
        ("bfloat16_t", "bfloat16", 2),
        ("uint8_t", "uint8", 1),
        ("e4m3_float8", "float8_e4m3", 1),
        ("float16", "float16", 2),
    ],
)
def test_aliases(alias: str, name: str, size: int) -> None:
    assert dtypes.canonical(alias) == name
    assert dtypes.bytes_of(alias) == size


def test_every_numpy_type_has_the_size_of_its_dtype() -> None:
    for name in set(dtypes.DTYPES) - {"int4"}:
        assert dtypes.numpy_dtype(name).itemsize * 8 == dtypes.bits_of(name), name


def test_int4_is_half_a_byte_in_memory() -> None:
    assert dtypes.nbytes(64, "int4") == 32
    assert dtypes.nbytes(3, "int4") == 2
    assert dtypes.nbytes(3, "float16") == 6


def test_kinds() -> None:
    assert dtypes.is_float("bfloat16") and dtypes.is_float("float8_e5m2")
    assert dtypes.is_integer("uint32") and not dtypes.is_integer("bool")
    assert dtypes.is_signed("int8") and not dtypes.is_signed("uint8")
    assert np.dtype(np.float16) == dtypes.numpy_dtype("half")


def test_unknown_dtype_names_the_line() -> None:
    with pytest.raises(KernelSourceError) as caught:
        dtypes.canonical("float24", SourceLocation("k.py", 7))
    assert caught.value.code == "AI-SRC-030"
    assert "k.py:7" in str(caught.value)
