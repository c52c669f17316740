"""What quantised weights take: elements, scales and zero points, and what stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ascend_infer.estimates.formats import Format, Precision
from ascend_infer.estimates.models import Decoder
from ascend_infer.estimates.work import require_count

FORMULA = "elements x bits / 8 + groups x (scale bits + zero-point bits) / 8"
ASSUMPTIONS = (
    "embedding, output projection, routers, norms and biases stay in the kept dtype",
    "padding, file headers and copies in another layout are not counted",
)


@dataclass(frozen=True, kw_only=True)
class QuantLine:
    """A matrix of `count` layers, in all of them; sizes in bytes."""

    name: str
    elements: int
    data: int
    metadata: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * (self.data + self.metadata) / self.elements


@dataclass(frozen=True, kw_only=True)
class QuantLedger:
    """Sizes in bytes. kept: elements that are not quantised. reference_bits: before quantising."""

    lines: tuple[QuantLine, ...]
    kept_elements: int
    kept_bytes: int
    reference_bits: int = 16

    @property
    def elements(self) -> int:
        return sum(line.elements for line in self.lines)

    @property
    def data_bytes(self) -> int:
        return sum(line.data for line in self.lines)

    @property
    def metadata_bytes(self) -> int:
        return sum(line.metadata for line in self.lines)

    @property
    def bytes(self) -> int:
        return self.data_bytes + self.metadata_bytes + self.kept_bytes

    @property
    def bits_per_weight(self) -> float:
        """Of what is quantised, with its metadata."""
        return 8 * (self.data_bytes + self.metadata_bytes) / self.elements

    @property
    def bits_per_parameter(self) -> float:
        """Of all parameters, with those that stay as they are."""
        return 8 * self.bytes / (self.elements + self.kept_elements)

    @property
    def compression(self) -> float:
        """How many times smaller than all parameters in `reference_bits`."""
        return self.reference_bits / self.bits_per_parameter

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        names = ("elements", "data_bytes", "metadata_bytes", "kept_elements", "kept_bytes", "bytes")
        ratios = ("bits_per_weight", "bits_per_parameter", "compression")
        return {name: getattr(self, name) for name in (*names, *ratios)} | {
            "lines": [vars(line) | {"bits_per_weight": line.bits_per_weight} for line in self.lines]
        }


def quantise_count(parameters: int, weights: Format) -> QuantLedger:
    """So many weights, all quantised, in groups without a remainder but the last.

    Raises:
        UsageError: AI-EST-001.
    """
    require_count("parameters", parameters)
    line = QuantLine(
        name="weights",
        elements=parameters,
        data=weights.data_bytes(1, parameters),
        metadata=weights.metadata_bytes(1, parameters),
    )
    return QuantLedger(lines=(line,), kept_elements=0, kept_bytes=0)


def quantise_model(decoder: Decoder, precision: Precision) -> QuantLedger:
    """The matrices of a model, or of what a rank holds."""
    lines: dict[str, QuantLine] = {}
    kept_elements, kept_bytes = 0, 0
    for name, rows, columns, count, quantised in _parts(decoder):
        if not quantised:
            kept_elements += count * rows * columns
            kept_bytes += count * precision.kept.bytes(rows, columns)
            continue
        before = lines.get(name) or QuantLine(name=name, elements=0, data=0, metadata=0)
        lines[name] = QuantLine(
            name=name,
            elements=before.elements + count * rows * columns,
            data=before.data + count * precision.weights.data_bytes(rows, columns),
            metadata=before.metadata + count * precision.weights.metadata_bytes(rows, columns),
        )
    return QuantLedger(
        lines=tuple(lines.values()), kept_elements=kept_elements, kept_bytes=kept_bytes
    )


def _parts(decoder: Decoder) -> Iterator[tuple[str, int, int, int, bool]]:
    """Name, rows, columns, how often, and whether it is quantised."""
    for layer, count in decoder.groups:
        for matrix in layer.matrices:
            rows = matrix.copies * matrix.outputs
            yield matrix.name, rows, matrix.inputs, count, matrix.quantised
        if layer.vectors:
            yield "vectors", 1, layer.vectors, count, False
    ends = [decoder.embedding, *([] if decoder.tied_head else [decoder.head])]
    for matrix in ends:
        yield matrix.name, matrix.outputs, matrix.inputs, 1, matrix.quantised
    vectors = decoder.norm_elements + decoder.head.bias_elements + decoder.other_elements
    if vectors:
        yield "vectors", 1, vectors, 1, False
