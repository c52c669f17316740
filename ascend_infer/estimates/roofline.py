"""Arithmetic intensity of a matrix product, where it stops being bound by memory, and floors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.models import Decoder, Matrix
from ascend_infer.estimates.operators import scan_operator
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.weights import weight_ledger
from ascend_infer.estimates.work import Work, require_count

FORMULA = "2MNK / (b (MK + KN + MN)) FLOP per byte, against peak / bandwidth"
ASSUMPTIONS = (
    "inputs and weights are read once and results written once",
    "a flip point belongs to a shape: N and K are fixed and only the rows M grow",
    "rows of an expert are those that are routed to it",
)


def gemm_intensity(
    m: int, n: int, k: int, *, weight_bytes: float = 2, activation_bytes: float = 2
) -> float:
    """FLOP per byte of C[M, N] = A[M, K] B[K, N]; B has `weight_bytes` per element.

    Raises:
        UsageError: AI-EST-001.
    """
    for name, size in (("M", m), ("N", n), ("K", k)):
        require_count(name, size)
    return 2 * m * n * k / (weight_bytes * k * n + activation_bytes * (m * k + m * n))


def flip_rows(
    balance: float, n: int, k: int, *, weight_bytes: float = 2, activation_bytes: float = 2
) -> int | None:
    """The fewest rows M at which the product's intensity reaches `balance`.

    None where it never does: many rows approach 2NK / (activation_bytes (N + K)).
    """
    require_count("N", n)
    require_count("K", k)
    # 2MNK >= balance (w KN + a M (K + N)), solved for M.
    rest = 2 * n * k - balance * activation_bytes * (n + k)
    return max(math.ceil(balance * weight_bytes * n * k / rest), 1) if rest > 0 else None


def flip_rows_simplified(balance: float, weight_bytes: float = 2) -> float:
    """The same where M is small against N and K: balance x bytes / 2."""
    return balance * weight_bytes / 2


@dataclass(frozen=True, kw_only=True)
class ProductFlip:
    """One operator's product. flip_rows: rows from which it is bound by compute; None never."""

    name: str
    n: int
    k: int
    intensity: float
    flip_rows: int | None


@dataclass(frozen=True, kw_only=True)
class RooflineLedger:
    """A model's products at `rows` rows against a device, and the floors of a decode step.

    weight_bytes, floor_seconds: of all parameters, and of reading them once. A step reads less: of
    the embedding one row per token, and of experts those that are visited.
    attention_intensity: FLOP per byte of decode attention, whatever the context.
    """

    rows: int
    balance: float
    dtype: str
    products: tuple[ProductFlip, ...]
    simplified_flip: float
    attention_intensity: float
    weight_bytes: int
    floor_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Of one sequence, if a step read the weights and did nothing else."""
        return 1 / self.floor_seconds

    @property
    def batch_tokens_per_second(self) -> float:
        """Of `rows` sequences that share one reading of the weights."""
        return self.rows / self.floor_seconds

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            **vars(self),
            "products": [vars(product) for product in self.products],
            "tokens_per_second": self.tokens_per_second,
            "batch_tokens_per_second": self.batch_tokens_per_second,
        }


def roofline_ledger(
    decoder: Decoder,
    roof: Roof,
    precision: Precision | None = None,
    *,
    rows: int = 1,
    shapes: Sequence[tuple[int, int]] = (),
) -> RooflineLedger:
    """The ledger of what a rank holds, for `rows` rows; `shapes` are further products, as (N, K).

    Raises:
        AscendInferError: AI-DEV-014, AI-EST-001.
    """
    stored = precision or Precision()
    require_count("rows", rows)
    products: dict[tuple[str, int, int], ProductFlip] = {}
    given = (
        Matrix(name=f"{n} x {k}", operator=f"{n} x {k}", outputs=n, inputs=k) for n, k in shapes
    )
    for matrices in (*_products(decoder), *((matrix,) for matrix in given)):
        first = matrices[0]
        n, k = sum(matrix.outputs for matrix in matrices), first.inputs
        balance = roof.balance(stored.product_dtype(first))
        weight_bytes = float(stored.of(first).bits_per_element(k)) / 8
        activation_bytes = stored.activations.bits / 8
        products[first.operator, n, k] = ProductFlip(
            name=first.operator,
            n=n,
            k=k,
            intensity=gemm_intensity(
                rows, n, k, weight_bytes=weight_bytes, activation_bytes=activation_bytes
            ),
            flip_rows=flip_rows(
                balance, n, k, weight_bytes=weight_bytes, activation_bytes=activation_bytes
            ),
        )
    one = scan_operator(decoder.layers[0].attention.scans[0], Work.batch(1, 1), stored)
    size = weight_ledger(decoder, stored).bytes
    dtype = stored.product_dtype(decoder.layers[0].matrices[0])
    balance = roof.balance(dtype)
    return RooflineLedger(
        rows=rows,
        balance=balance,
        dtype=dtype,
        products=tuple(products.values()),
        simplified_flip=flip_rows_simplified(balance, stored.weights.bits / 8),
        attention_intensity=one.flops / one.kv_bytes,
        weight_bytes=size,
        floor_seconds=roof.memory_seconds(size),
    )


def _products(decoder: Decoder) -> Iterator[tuple[Matrix, ...]]:
    """Matrices that one launch multiplies with, layer kinds once each; experts one by one."""
    for layer in dict.fromkeys(decoder.layers):
        for operator in dict.fromkeys(matrix.operator for matrix in layer.matrices):
            yield tuple(matrix for matrix in layer.matrices if matrix.operator == operator)
    yield (decoder.head,)
