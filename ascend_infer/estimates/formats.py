"""How numbers are stored: bits per element, and what scales and zero points add."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from fractions import Fraction

from ascend_infer.estimates.models import Matrix
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Format:
    """A storage format.

    Attributes:
        dtype: of an element, as chips name their peaks; bits: that it takes.
        group: elements along the inputs of a matrix (or along a head) that share a scale; 0 where
            no scales are stored, or one per tensor, which does not count.
        per_row: one scale per row instead, whatever its length.
        scale_bits, zero_bits: stored per group.
    """

    dtype: str
    bits: int
    group: int = 0
    per_row: bool = False
    scale_bits: int = 0
    zero_bits: int = 0

    def __post_init__(self) -> None:
        absurd = [name for name in ("group", "scale_bits", "zero_bits") if getattr(self, name) < 0]
        if absurd or self.bits < 1:
            raise UsageError(
                "AI-EST-002",
                f"a format of {self.bits} bits with "
                + ", ".join(f"{name} {getattr(self, name)}" for name in absurd or ("group",)),
                rule="an element has bits, and a group has elements",
                fix="give positive numbers",
            )

    @property
    def stores_scales(self) -> bool:
        return bool(self.group or self.per_row)

    def data_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the elements; each row begins at a byte."""
        return rows * -(-columns * self.bits // 8)

    def metadata_bytes(self, rows: int, columns: int) -> int:
        """Bytes of scales and zero points; the last group of a row may be shorter."""
        if not self.stores_scales:
            return 0
        groups = rows * (1 if self.per_row else -(-columns // self.group))
        return -(-groups * (self.scale_bits + self.zero_bits) // 8)

    def bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix with rows of `columns` elements."""
        return self.data_bytes(rows, columns) + self.metadata_bytes(rows, columns)

    def bits_per_element(self, columns: int | None = None) -> Fraction:
        """Bits with their share of the metadata, for rows of `columns` elements or whole groups."""
        metadata = self.scale_bits + self.zero_bits if self.stores_scales else 0
        if columns is not None and self.stores_scales:
            groups = 1 if self.per_row else -(-columns // self.group)
            return self.bits + Fraction(groups * metadata, columns)
        return self.bits + (Fraction(metadata, self.group) if self.group else Fraction(0))

    def describe(self) -> str:
        """Such as `int4, 128 per 16-bit scale`."""
        if not self.stores_scales:
            return self.dtype
        per = "one row" if self.per_row else str(self.group)
        zero = f" and {self.zero_bits}-bit zero point" if self.zero_bits else ""
        return f"{self.dtype}, {per} per {self.scale_bits}-bit scale{zero}"


def _plain(dtype: str, bits: int) -> Format:
    return Format(dtype=dtype, bits=bits)


#: Formats by name; integers and FP4 with the scales that are usual for weights.
FORMATS: dict[str, Format] = {
    "float32": _plain("float32", 32),
    "bfloat16": _plain("bfloat16", 16),
    "float16": _plain("float16", 16),
    "float8": _plain("float8", 8),
    "int8": Format(dtype="int8", bits=8, per_row=True, scale_bits=32),
    "int4": Format(dtype="int4", bits=4, group=128, scale_bits=16),
    "mxfp8": Format(dtype="float8", bits=8, group=32, scale_bits=8),
    "mxfp4": Format(dtype="float4", bits=4, group=32, scale_bits=8),
    "nvfp4": Format(dtype="float4", bits=4, group=16, scale_bits=8),
}
_ALIASES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp8": "float8",
    "float8_e4m3": "float8",
    "float8_e5m2": "float8",
    "w8": "int8",
    "w4": "int4",
}


def get_format(
    name: str,
    *,
    scales: bool = True,
    group: int | None = None,
    scale_bits: int | None = None,
    zero_bits: int | None = None,
) -> Format:
    """The format called `name`, with its usual scales unless they are given.

    Args:
        scales: False leaves out what the format would store beside the elements.
        group: elements per scale; 0 one scale per row.

    Raises:
        UsageError: AI-EST-002 for an unknown name or numbers that cannot be meant.
    """
    found = FORMATS.get(_ALIASES.get(name.lower(), name.lower()))
    if found is None:
        near = difflib.get_close_matches(name.lower(), [*FORMATS, *_ALIASES], n=3)
        raise UsageError(
            "AI-EST-002",
            f"unknown dtype {name[:40]!r}",
            rule="known are " + ", ".join(FORMATS),
            fix=f"choose {' or '.join(near) or 'one of them'}",
        )
    if not scales:
        found = replace(found, group=0, per_row=False, scale_bits=0, zero_bits=0)
    if group is not None:
        scale = found.scale_bits or 16
        found = replace(found, group=group, per_row=group == 0, scale_bits=scale)
    if scale_bits is not None:
        found = replace(found, scale_bits=scale_bits)
    if zero_bits is not None:
        found = replace(found, zero_bits=zero_bits)
    return found


_BF16 = FORMATS["bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Storage of everything that a step moves.

    weights: of matrices that quantisation covers. kept: of embedding, head, routers, norms, biases.
    activations: of what goes from operator to operator. kv: of the cache.
    """

    weights: Format = _BF16
    kept: Format = _BF16
    activations: Format = _BF16
    kv: Format = _BF16

    def of(self, matrix: Matrix) -> Format:
        """The format of a matrix."""
        return self.weights if matrix.quantised else self.kept

    def matrix_bytes(self, matrix: Matrix) -> int:
        """Bytes of a matrix in all copies, with scales and zero points, without its bias."""
        return self.of(matrix).bytes(matrix.copies * matrix.outputs, matrix.inputs)

    def metadata_bytes(self, matrix: Matrix) -> int:
        """What of `matrix_bytes` is scales and zero points."""
        return self.of(matrix).metadata_bytes(matrix.copies * matrix.outputs, matrix.inputs)

    def product_dtype(self, matrix: Matrix) -> str:
        """What a product with the matrix computes in: activations, or the wider of both.

        Weights of fewer bits than the activations are expanded before they are multiplied.
        """
        stored = self.of(matrix)
        return stored.dtype if stored.bits >= self.activations.bits else self.activations.dtype

    @property
    def attention_dtype(self) -> str:
        """Scores and their products are 16-bit floating point, whatever the cache stores."""
        for candidate in (self.activations, self.kept):
            if candidate.bits == 16:
                return candidate.dtype
        return "bfloat16"

    def to_dict(self) -> dict[str, str]:
        """JSON-ready fields."""
        return {name: value.describe() for name, value in vars(self).items()}
