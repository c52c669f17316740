"""Step times from the roofline estimate of a model on a chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_infer.estimates import (
    Decoder,
    Parallel,
    Precision,
    Roof,
    StepClock,
    Work,
    capacity,
    estimate_step,
    kv_ledger,
    weight_ledger,
)
from ascend_infer.estimates import Sequence as Prompt
from ascend_infer.estimates.models import Attention
from ascend_infer.estimates.operators import attention_operator
from ascend_infer.estimates.step import ASSUMPTIONS
from ascend_infer.serving_simulation.step_time import Chunk
from kernels_npu.errors import UsageError

#: Rows up to which each number is estimated by itself; beyond, multiples of `_STRIDE` are, and
#: numbers between them lie on a straight line.
_EXACT_ROWS = 64
_STRIDE = 32


@dataclass(frozen=True, kw_only=True)
class _Attention:
    """Attention in the layers that have one kind of it, in seconds: of products per pair of a query
    and a key, of memory per key that is read and per row; for prompts and for decoding rows."""

    window: int
    compute_per_pair: float
    memory_per_row: float
    decode_compute_per_key: float
    decode_memory_per_row: float
    memory_per_key: float

    @classmethod
    def of(cls, attention: Attention, layers: int, precision: Precision, roof: Roof) -> _Attention:
        """Read off the operator: one decoding row with one key, and a prompt of two tokens, the
        shortest that is no decoding."""
        window, prompt = attention.window, Work.prefill(2)
        one = attention_operator(attention, Work.batch(1, 1), precision)
        two = attention_operator(attention, prompt, precision)
        compute = layers * roof.compute_seconds(two.flops, two.dtype)
        return cls(
            window=window,
            compute_per_pair=compute / prompt.pairs(window, prefill=True),
            memory_per_row=layers * roof.memory_seconds(two.activation_bytes) / prompt.rows,
            decode_compute_per_key=layers * roof.compute_seconds(one.flops, one.dtype),
            decode_memory_per_row=layers * roof.memory_seconds(one.activation_bytes),
            memory_per_key=layers * roof.memory_seconds(one.kv_bytes),
        )

    def added(self, prompts: Sequence[Prompt], rows: int, live: int, context: int) -> float:
        """What parts of prompts add to the attention of a decode step."""
        seen = min(context, live * self.window) if self.window else context
        compute = self.decode_compute_per_key * seen
        memory = self.memory_per_key * seen + self.decode_memory_per_row * rows
        before = max(compute, memory)
        for prompt in prompts:
            compute += self.compute_per_pair * prompt.pairs(self.window)
            memory += self.memory_per_key * prompt.keys_read(self.window)
            memory += self.memory_per_row * prompt.tokens
        return max(compute, memory) - before


class EstimatedStepTime:
    """The lower bound of a step on each rank, with further traffic.

    Args:
        decoder: the whole model; `parallel` divides it.
        overhead_seconds: added to every step, for launches and the host.

    Raises:
        AscendInferError: AI-DEV-014 or AI-EST-003 as `estimate_step`; AI-SERVE-005 for an overhead
            that is negative or not finite.
    """

    def __init__(
        self,
        decoder: Decoder,
        roof: Roof,
        precision: Precision | None = None,
        parallel: Parallel | None = None,
        *,
        overhead_seconds: float = 0.0,
    ) -> None:
        if not 0 <= overhead_seconds < float("inf"):
            raise UsageError(
                "AI-SERVE-005",
                f"an overhead of {overhead_seconds} s per step",
                rule="the overhead is finite and not negative",
                fix="give --overhead-us as measured between steps, or leave it out",
            )
        self._precision = precision or Precision()
        self._roof, self._overhead = roof, overhead_seconds
        self._rank = decoder.on_rank(parallel or Parallel())
        self._clock = StepClock(
            decoder, roof, self._precision, parallel, overhead_seconds=overhead_seconds
        )
        self._without_attention: dict[int, float] = {0: 0.0}
        counted = Counter(layer.attention for layer in self._rank.layers)
        self._attention = tuple(
            _Attention.of(attention, layers, self._precision, roof)
            for attention, layers in counted.items()
        )
        self.assumptions = (
            f"step times are the bound of {decoder.name} on {roof.name}: modelled",
            *ASSUMPTIONS,
            f"every step takes {1e6 * overhead_seconds:g} us more",
            "sequences of a batch are equally long where a sliding window cuts them",
            f"beyond {_EXACT_ROWS} rows multiples of {_STRIDE} are estimated, others lie between",
        )

    def decode(self, rows: int, live: int, context: int) -> float:
        """Seconds of a decode step, padding rows included, which read no cache."""
        keys = [
            min(context, live * window) if window else context for window in self._clock.windows
        ]
        return self._clock.decode(rows, keys)

    def prefill(self, chunks: Sequence[Chunk], rows: int, live: int, context: int) -> float:
        """What prompts add: their rows through the layers, and their attention."""
        prompts = [Prompt(tokens=count, past=past) for count, past in chunks]
        tokens = sum(count for count, _ in chunks)
        seconds = self._rows(rows + tokens) - self._rows(rows)
        seconds += sum(part.added(prompts, rows, live, context) for part in self._attention)
        return seconds if rows else seconds + self._overhead

    def _rows(self, rows: int) -> float:
        """Seconds of so many rows through everything but attention; 0 for none."""
        found = self._without_attention.get(rows)
        if found is None:
            found = self._without_attention[rows] = self._estimate(rows)
        return found

    def _estimate(self, rows: int) -> float:
        part = rows % _STRIDE
        if rows > _EXACT_ROWS and part:
            below, above = self._rows(rows - part), self._rows(rows - part + _STRIDE)
            return below + (above - below) * part / _STRIDE
        step = estimate_step(self._rank, Work.prefill(rows), self._roof, self._precision)
        return step.seconds + step.further_seconds - step.seconds_of("attention")


def blocks_beside_weights(
    decoder: Decoder,
    roof: Roof,
    precision: Precision | None = None,
    parallel: Parallel | None = None,
    *,
    block_size: int,
    reserve: float = 0.1,
) -> int:
    """KV blocks that a rank's memory holds beside its weights and a reserve.

    Raises:
        UsageError: AI-EST-001 where the chip's memory is not known; AI-SERVE-004 when the weights
            leave no room.
    """
    stored = precision or Precision()
    rank = decoder.on_rank(parallel or Parallel())
    ledger = kv_ledger(rank, stored.kv, context=1, block_size=block_size)
    weights = weight_ledger(rank, stored).bytes
    room = capacity(roof.memory_bytes, weights, ledger, (), reserve=reserve)
    if not room.blocks:
        raise UsageError(
            "AI-SERVE-004",
            f"{decoder.name} takes {weights:,} bytes on a rank, {roof.name} has {room.memory:,} "
            f"and {reserve:.0%} of them are kept for the rest",
            rule="at least one KV block fits beside the weights",
            fix="divide the model with --tensor-parallel, or give --kv-blocks",
        )
    return room.blocks
