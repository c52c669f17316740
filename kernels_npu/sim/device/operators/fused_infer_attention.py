"""`npu_fused_infer_attention_score` in the layout TND: prefill, chunked prefill and decode.

Sources. The sparse modes, CANN's page on sparseMode: 3 and 4 count from the lower right corner, and
take the compressed mask of 2048 x 2048; its example of mode 7, whose band with nextTokens = -2 has
to be what is left of a causal mask, says that both ends belong to the band. torch_npu's own test of
the modes agrees: it hides what is below the diagonal -preTokens - 1 and above nextTokens + 1. So a
window of W keys, the query's own among them, is preTokens = W - 1. Dtypes, torch_npu's reference:
float16, bfloat16, int8; float32 is taken here so that hosts can be compared in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.operators.attention import Visibility, attend, pages, spans
from kernels_npu.sim.device.operators.refusal import refuse_mixed_dtypes, refused
from kernels_npu.sim.device.operators.whole import WholeOperator

_NAME = "npu_fused_infer_attention_score"
#: Tensors of the schema that quantised and absorbed forms take.
_NOT_SIMULATED = (
    *("pse_shift", "dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2"),
    *("quant_offset2", "antiquant_scale", "antiquant_offset", "query_padding_size"),
    *("kv_padding_size", "key_antiquant_scale", "key_antiquant_offset", "value_antiquant_scale"),
    *("value_antiquant_offset", "key_shared_prefix", "value_shared_prefix", "query_rope"),
    *("key_rope", "key_rope_antiquant_scale"),
)
_NUMBERS = (
    "int num_heads=1, float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, "
    'str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, '
    "int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, "
    "int value_antiquant_mode=0, bool softmax_lse_flag=False"
)
_ARGUMENTS = (
    # Keyword arguments, so that their order does not matter.
    "Tensor query, Tensor key, Tensor value, *, Tensor? atten_mask=None, "
    "SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, "
    "Tensor? block_table=None, SymInt[]? actual_shared_prefix_len=None, "
    + ", ".join(f"Tensor? {name}=None" for name in _NOT_SIMULATED)
    + f", {_NUMBERS}"
)
#: Side of the mask that the sparse modes with a fixed pattern take, upper triangle set.
_PATTERN = 2048
#: What a workspace has here; the vendor's size depends on the chip and is not known.
_WORKSPACE_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of one call that matter, checked against each other."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    sees: Visibility
    kv_heads: int
    ends: list[int]
    kv_lengths: list[int]
    block_table: Tensor | None

    @classmethod
    def of(cls, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]) -> Call:
        """Read `options`, the keyword arguments of the schema.

        Raises:
            NotSimulatedError: AI-DEV-008 for what the device does not have.
            DeviceError: AI-DEV-015 for what the operator refuses.
        """
        _refuse_missing(options)
        refuse_mixed_dtypes(_NAME, query=query, key=key, value=value)
        heads = options["num_heads"]
        kv_heads = options["num_key_value_heads"] or heads
        table = options["block_table"]
        ends = list(options["actual_seq_lengths"] or ())
        lengths = list(options["actual_seq_lengths_kv"] or ())
        if query.dim() != 3 or query.shape[1] != heads or heads % kv_heads:
            raise refused(
                _NAME,
                f"query {tuple(query.shape)} with {heads} heads and {kv_heads} kv heads",
                rule="TND has tokens, heads, head size; heads are a multiple of kv heads",
                fix="query.view(tokens, num_heads, head_size)",
            )
        if not ends or ends[-1] != query.shape[0]:
            raise refused(
                _NAME,
                f"queryT({query.shape[0]}) != actualSequenceLengthQ({ends[-1] if ends else 0})",
                rule="the last of actual_seq_lengths is the number of rows of query",
                fix="cut query to the sum of the lengths, or pad the lengths",
            )
        _check_batch(ends, lengths, table)
        return cls(
            query=query,
            key=key,
            value=value,
            scale=options["scale"],
            sees=_visibility(options),
            kv_heads=kv_heads,
            ends=ends,
            kv_lengths=lengths,
            block_table=table,
        )

    def sequences(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Per sequence the rows of its queries, and its keys and values [keys, kv heads, size]."""
        queries = spans(self.ends, _NAME, "actual_seq_lengths")
        if self.block_table is None:
            keys = spans(self.kv_lengths, _NAME, "actual_seq_lengths_kv")
            for (start, stop), (first, last) in zip(queries, keys):
                yield slice(start, stop), self.key[first:last], self.value[first:last]
            return
        caches = [self._blocks(c) for c in (self.key, self.value)]
        for (start, stop), row, length in zip(queries, self.block_table, self.kv_lengths):
            key, value = (pages(cache, row, length, _NAME) for cache in caches)
            yield slice(start, stop), key, value

    def _blocks(self, cache: Tensor) -> Tensor:
        """[blocks, block size, kv heads, size] of either of the two forms of a cache."""
        if cache.dim() == 4:
            return cache.transpose(1, 2)
        split: Tensor = cache.unflatten(-1, (self.kv_heads, -1))
        return split

    @property
    def width(self) -> int:
        """Head size of the values."""
        if self.block_table is not None and self.value.dim() == 3:
            return self.value.shape[-1] // self.kv_heads
        return self.value.shape[-1]


def _refuse_missing(options: dict[str, Any]) -> None:
    present = [name for name in _NOT_SIMULATED if options[name] is not None]
    layout = options["input_layout"]
    if layout != "TND":
        present.append(f"input_layout={layout!r}")
    if options["actual_shared_prefix_len"]:
        present.append("actual_shared_prefix_len")
    if present:
        raise NotSimulatedError(
            "AI-DEV-008",
            f"torch_npu.{_NAME} with {', '.join(present)} is not simulated",
            fix='pass plain tensors in input_layout="TND", or use kernels_npu.ops',
        )


def _check_batch(ends: list[int], lengths: list[int], table: Tensor | None) -> None:
    rows = len(ends) if table is None else table.shape[0]
    if len(lengths) == len(ends) == rows:
        return
    raise refused(
        _NAME,
        f"{len(ends)} query lengths, {len(lengths)} key lengths"
        + ("" if table is None else f", {rows} rows of the block table"),
        rule="each sequence has one of each",
        fix="pad key lengths and block table to the sequences of query",
    )


def _visibility(options: dict[str, Any]) -> Visibility:
    mode, mask = options["sparse_mode"], options["atten_mask"]
    if mode == 0 and mask is None:
        return Visibility()
    if mode not in (3, 4):
        raise NotSimulatedError(
            "AI-DEV-008",
            f"torch_npu.{_NAME} with sparse_mode={mode} and "
            f"{'no mask' if mask is None else 'a mask'} is not simulated",
            rule="0 without a mask, 3 (causal) and 4 (band) are",
            fix="use sparse_mode=3 with a 2048 x 2048 mask for causal attention",
        )
    if mask is None or tuple(mask.shape[-2:]) != (_PATTERN, _PATTERN):
        raise refused(
            _NAME,
            f"sparse_mode={mode} with atten_mask {None if mask is None else tuple(mask.shape)}",
            rule=f"modes 3 and 4 take the pattern of {_PATTERN} x {_PATTERN}, upper triangle set",
            fix=f"torch.triu(torch.ones({_PATTERN}, {_PATTERN}), 1).to(torch.int8).npu()",
        )
    if mode == 3:
        return Visibility(after=0)
    return Visibility(before=options["pre_tokens"], after=options["next_tokens"])


def into(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The operator's `out=` form: `out` is [attention, logarithms of the sums]."""
    outputs = attention, logs = options.pop("out")
    options.pop("workspace")
    call = Call.of(query, key, value, options)
    with_logs = options["softmax_lse_flag"]
    target = attention.view(query.shape[0], query.shape[1], call.width)
    for rows, keys, values in call.sequences():
        result, sums = attend(query[rows], keys, values, call.scale, call.sees)
        target[rows] = result
        if with_logs:
            logs[rows] = sums
    if not with_logs:
        logs.zero_()
    return tuple(outputs)


def shapes_into(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Only the checks."""
    outputs = options.pop("out")
    options.pop("workspace")
    Call.of(query, key, value, options)
    return tuple(outputs)


def _outputs(query: Tensor, call: Call, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    tokens, heads, _ = query.shape
    rows = (tokens, heads, 1) if options["softmax_lse_flag"] else (1,)
    return (
        query.new_empty(tokens, heads, call.width),
        query.new_empty(rows, dtype=torch.float32),
    )


def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Attention of packed queries [tokens, heads, size].

    actual_seq_lengths: ends of the sequences in `query`. actual_seq_lengths_kv: without a
    `block_table` ends of the sequences in key and value [tokens, kv heads, size]; with one, the
    length of each sequence in the cache, [blocks, block size, kv heads * size] or [blocks, kv
    heads, block size, size]. sparse_mode: 0 all keys, 3 causal, 4 from `pre_tokens` before to
    `next_tokens` after, counted from where queries and keys end together.

    Returns:
        [tokens, heads, size], and with `softmax_lse_flag` the logarithms of the sums
        [tokens, heads, 1] in float32, else one zero.

    Raises:
        DeviceError: AI-DEV-015 for lengths and shapes that do not fit (561002 on a device).
        NotSimulatedError: AI-DEV-008 for other layouts, quantised caches, rope parts.
    """
    outputs = _outputs(query, Call.of(query, key, value, options), options)
    into(query, key, value, out=outputs, workspace=None, **options)
    return outputs


def shapes(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Results without values."""
    return _outputs(query, Call.of(query, key, value, options), options)


def workspace_for(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Memory that the operator may be given as `workspace`, enough for all lengths."""
    Call.of(query, key, value, options)
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=query.device)


OPERATORS = (
    WholeOperator(
        schema=f"{_NAME}({_ARGUMENTS}) -> (Tensor, Tensor)", compute=attention, shapes=shapes
    ),
    WholeOperator(
        schema=f"{_NAME}.out({_ARGUMENTS}, Tensor? workspace=None, Tensor(a!)[] out) "
        "-> (Tensor, Tensor)",
        compute=into,
        shapes=shapes_into,
        returns="out",
    ),
    WholeOperator(
        schema=f"_{_NAME}_get_max_workspace({_ARGUMENTS}) -> Tensor",
        compute=workspace_for,
        allocates=True,
    ),
)
