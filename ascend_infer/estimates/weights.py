"""The ledger of parameters: by layer and matrix, in total, active per token, in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.models import Decoder, Layer, Matrix

FORMULA = "sum over matrices of outputs x inputs x copies, and over vectors of their length"


@dataclass(frozen=True, kw_only=True)
class WeightLine:
    """A matrix, or the vectors, of `count` layers alike; `elements` and `bytes` are of one."""

    part: str
    name: str
    count: int
    shape: str
    elements: int
    bytes: int
    active: int


@dataclass(frozen=True, kw_only=True)
class LayerGroup:
    """Layers alike. matrix_elements: without biases and norms."""

    kind: str
    count: int
    parameters: int
    matrix_elements: int


@dataclass(frozen=True, kw_only=True)
class WeightLedger:
    """Parameters of a model, or of what one rank holds.

    active: without the experts that a token does not visit; active_products: without the embedding
        table either, of which a token reads one row. Model cards state one or the other.
    """

    lines: tuple[WeightLine, ...]
    groups: tuple[LayerGroup, ...]

    @property
    def parameters(self) -> int:
        return sum(line.count * line.elements for line in self.lines)

    @property
    def active(self) -> int:
        return sum(line.count * line.active for line in self.lines)

    @property
    def active_products(self) -> int:
        lookup = sum(line.elements for line in self.lines if line.name == "embed_tokens")
        return self.active - (lookup if self._has_head else 0)

    @property
    def _has_head(self) -> bool:
        """Whether the output projection is a matrix of its own."""
        return any(line.name == "lm_head" for line in self.lines)

    @property
    def matrix_elements(self) -> int:
        """Without biases, norms and other vectors."""
        vectors = sum(line.count * line.elements for line in self.lines if not line.shape)
        return self.parameters - vectors

    @property
    def vocabulary_elements(self) -> int:
        """Of embedding and output projection."""
        return sum(line.elements for line in self.lines if line.part == "vocabulary")

    @property
    def non_embedding(self) -> int:
        """Without embedding and output projection."""
        return self.parameters - self.vocabulary_elements

    @property
    def bytes(self) -> int:
        return sum(line.count * line.bytes for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        totals = ("parameters", "active", "active_products", "matrix_elements")
        vocabulary = ("vocabulary_elements", "non_embedding", "bytes")
        return {
            **{name: getattr(self, name) for name in (*totals, *vocabulary)},
            "layers": [vars(group) for group in self.groups],
            "lines": [vars(line) for line in self.lines],
        }


def weight_ledger(decoder: Decoder, precision: Precision | None = None) -> WeightLedger:
    """The ledger of `decoder`, or of a rank with `decoder.on_rank`."""
    stored = precision or Precision()
    lines: list[WeightLine] = []
    for number, (layer, count) in enumerate(decoder.groups, start=1):
        part = f"layers {number}" if len(decoder.groups) > 1 else "layers"
        lines += [
            _matrix_line(part, count, matrix, stored, _visited(layer, matrix))
            for matrix in layer.matrices
        ]
        lines.append(_vector_line(part, count, "norms, biases", layer.vectors, stored))
    lines.append(_matrix_line("vocabulary", 1, decoder.embedding, stored))
    if not decoder.tied_head:
        lines.append(_matrix_line("vocabulary", 1, decoder.head, stored))
    ends = decoder.norm_elements + decoder.head.bias_elements + decoder.other_elements
    lines.append(_vector_line("ends", 1, "final norm and other vectors", ends, stored))
    groups = tuple(
        LayerGroup(
            kind=layer.kind,
            count=count,
            parameters=layer.parameters,
            matrix_elements=sum(matrix.elements for matrix in layer.matrices),
        )
        for layer, count in decoder.groups
    )
    return WeightLedger(lines=tuple(lines), groups=groups)


def _visited(layer: Layer, matrix: Matrix) -> float:
    """The share of a matrix's copies that one token visits."""
    return layer.mlp.active / layer.mlp.experts if matrix.routed else 1.0


def _matrix_line(
    part: str, count: int, matrix: Matrix, precision: Precision, visited: float = 1.0
) -> WeightLine:
    copies = f"{matrix.copies} x " if matrix.copies > 1 else ""
    return WeightLine(
        part=part,
        name=matrix.name,
        count=count,
        shape=f"{copies}{matrix.outputs} x {matrix.inputs}",
        elements=matrix.elements,
        bytes=precision.matrix_bytes(matrix),
        active=round(matrix.elements * visited),
    )


def _vector_line(
    part: str, count: int, name: str, elements: int, precision: Precision
) -> WeightLine:
    return WeightLine(
        part=part,
        name=name,
        count=count,
        shape="",
        elements=elements,
        bytes=precision.kept.bytes(1, elements) if elements else 0,
        active=elements,
    )
