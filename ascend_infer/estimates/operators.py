"""The operators of a step: floating-point operations and bytes of each launch, by formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.kv import scan_bytes, token_bytes
from ascend_infer.estimates.models import Attention, Decoder, Layer, Matrix, Mlp, Scan
from ascend_infer.estimates.work import Work

Kind = Literal["weights", "attention", "norm", "further"]

#: Partial results of split attention and their log-sum-exps are float32.
_PARTIAL_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator of a step, `launches` times alike; figures are per launch.

    kind: products with weights, attention over the cache, norms; `further` is traffic that ledgers
        of a step often leave out, and that fused kernels save in part.
    weight_bytes, kv_bytes, activation_bytes: read or written once each.
    metadata_bytes: what of the weights' bytes is scales and zero points.
    dtype: what its products compute in.
    """

    name: str
    kind: Kind
    launches: int = 1
    flops: float = 0
    weight_bytes: float = 0
    metadata_bytes: float = 0
    kv_bytes: float = 0
    activation_bytes: float = 0
    dtype: str = ""

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes + self.activation_bytes


def operators(
    decoder: Decoder, work: Work, precision: Precision, *, kv_splits: int = 1
) -> Iterator[Operator]:
    """Every operator of a step on a rank; `decoder` is what the rank holds.

    Args:
        kv_splits: parts into which decode attention cuts the keys of a sequence.
    """
    yield _embedding(decoder, work, precision)
    for layer, count in decoder.groups:
        for operator in _layer(layer, decoder.hidden_size, work, precision, kv_splits):
            yield replace(operator, launches=count * operator.launches)
    yield _norm("final_norm", 1, decoder.norm_elements, decoder.hidden_size, work.rows, precision)
    yield _product("lm_head", (decoder.head,), work.sequences, precision)


def _layer(
    layer: Layer, hidden_size: int, work: Work, precision: Precision, kv_splits: int
) -> Iterator[Operator]:
    rows = work.rows
    yield _norm("norms", layer.norms, layer.norm_elements, hidden_size, rows, precision)
    for name, matrices in _by_operator(layer.attention.matrices).items():
        yield _product(name, matrices, rows, precision)
    for scan in layer.attention.scans:
        yield scan_operator(scan, work, precision)
    yield from _mlp(layer.mlp, rows, hidden_size, precision)
    yield from _beside(layer.attention, hidden_size, work, precision)
    if kv_splits > 1:
        yield from _split_kv(layer.attention, work, kv_splits)


def _by_operator(matrices: tuple[Matrix, ...]) -> dict[str, tuple[Matrix, ...]]:
    names = dict.fromkeys(matrix.operator for matrix in matrices)
    return {name: tuple(m for m in matrices if m.operator == name) for name in names}


def _product(
    name: str,
    matrices: tuple[Matrix, ...],
    rows: float,
    precision: Precision,
    *,
    read: float = 1.0,
) -> Operator:
    """Rows times matrices side by side. read: the share of the weights that is read."""
    outputs, inputs = sum(matrix.outputs for matrix in matrices), matrices[0].inputs
    kept = precision.kept.bits / 8
    size = sum(precision.matrix_bytes(m) + m.bias_elements * kept for m in matrices)
    return Operator(
        name=name,
        kind="weights",
        flops=2 * rows * outputs * inputs,
        weight_bytes=read * size,
        metadata_bytes=read * sum(precision.metadata_bytes(m) for m in matrices),
        activation_bytes=rows * (inputs + outputs) * precision.activations.bits / 8,
        dtype=precision.product_dtype(matrices[0]),
    )


def scan_operator(scan: Scan, work: Work, precision: Precision) -> Operator:
    """Scores and weighted values; each cached token is read once, by all its queries together."""
    decode_dims = scan.key_dim + scan.value_dim
    prefill_dims = scan.prefill_key_dim + scan.prefill_value_dim
    decode, prefill = (work.pairs(scan.window, prefill=p) for p in (False, True))
    decode_rows, prefill_rows = work.rows - work.prefill_rows, work.prefill_rows
    elements = scan.heads * (decode_rows * decode_dims + prefill_rows * prefill_dims)
    keys = work.keys_read(scan.window, scan.prefill_window)
    return Operator(
        name=scan.name,
        kind="attention",
        flops=2 * scan.heads * (decode * decode_dims + prefill * prefill_dims),
        kv_bytes=keys * scan_bytes(scan, precision.kv),
        activation_bytes=elements * precision.activations.bits / 8,
        dtype=precision.attention_dtype,
    )


def _norm(
    name: str, times: int, elements: int, hidden_size: int, rows: int, precision: Precision
) -> Operator:
    """`times` norms as one line: a row is read and written by each."""
    return Operator(
        name=name,
        kind="norm",
        weight_bytes=elements * precision.kept.bits / 8,
        activation_bytes=2 * times * rows * hidden_size * precision.activations.bits / 8,
    )


def _mlp(mlp: Mlp, rows: int, hidden_size: int, precision: Precision) -> Iterator[Operator]:
    """Dense or routed; of routed experts those are read that a row visits, if routing is even."""
    size = precision.activations.bits / 8
    for name, matrices in _by_operator(mlp.matrices).items():
        visits, read = float(rows), 1.0
        if matrices[0].routed:
            visits = rows * mlp.active * matrices[0].copies / mlp.experts
            read = 1 - (1 - mlp.active / mlp.experts) ** rows
        yield _product(name, matrices, visits, precision, read=read)
        if name.endswith("up_proj"):
            up, down = len(matrices) * matrices[0].outputs, matrices[0].outputs
            yield _moved(f"{name.rpartition('.')[0] or 'mlp'}.act", visits * (up + down) * size)
    if mlp.experts:
        copies = next(m.copies for m in mlp.matrices if m.routed)
        visits = rows * mlp.active * copies / mlp.experts
        # Rows are gathered by expert before the products, and summed per token after them.
        yield _moved("experts.permute_combine", (3 * visits + rows) * hidden_size * size)


def _beside(
    attention: Attention, hidden_size: int, work: Work, precision: Precision
) -> Iterator[Operator]:
    size, rows = precision.activations.bits / 8, work.rows
    rotated = attention.key_dim - (attention.value_dim if attention.latent else 0)
    heads = attention.q_heads + attention.kv_heads
    yield _moved("rotary_embedding", 2 * rows * heads * rotated * size)
    yield Operator(
        name="kv_write", kind="further", kv_bytes=rows * token_bytes(attention, precision.kv)
    )
    # Twice a layer: the stream and what is added are read, the sum is written.
    yield _moved("residual_add", 2 * 3 * rows * hidden_size * size)


def _split_kv(attention: Attention, work: Work, kv_splits: int) -> Iterator[Operator]:
    """Partial outputs and log-sum-exps per part: attention writes them, a second launch merges."""
    rows = work.rows - work.prefill_rows
    elements = rows * attention.q_heads * kv_splits * (attention.value_dim + 1)
    yield _moved("split_kv_write", elements * _PARTIAL_BYTES)
    yield _moved("split_kv_combine", elements * _PARTIAL_BYTES)


def _embedding(decoder: Decoder, work: Work, precision: Precision) -> Operator:
    """A lookup: one row of the table per token."""
    row = decoder.hidden_size * (precision.kept.bits + precision.activations.bits) / 8
    return _moved("embed_tokens", work.rows * row)


def _moved(name: str, size: float) -> Operator:
    return Operator(name=name, kind="further", activation_bytes=size)
