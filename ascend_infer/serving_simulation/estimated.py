"""Step times from the roofline estimate of a model on a chip."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_infer.estimates import (
    Decoder,
    Parallel,
    Precision,
    Roof,
    StepClock,
    capacity,
    kv_ledger,
    weight_ledger,
)
from ascend_infer.estimates import Sequence as Prompt
from ascend_infer.estimates.step import ASSUMPTIONS
from ascend_infer.serving_simulation.step_time import LONGEST_SECONDS, Chunk
from kernels_npu.errors import UsageError

#: Rows up to which each number is estimated by itself; beyond, multiples of `_STRIDE` are, and
#: numbers between them lie on a straight line.
_EXACT_ROWS = 64
_STRIDE = 32


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
        if not 0 <= overhead_seconds <= LONGEST_SECONDS:
            raise UsageError(
                "AI-SERVE-005",
                f"an overhead of {overhead_seconds} s per step",
                rule=f"the overhead is from 0 to {LONGEST_SECONDS:.0e} s",
                fix="give --overhead-us as measured between steps, or leave it out",
            )
        self._overhead = overhead_seconds
        self._clock = StepClock(decoder, roof, precision, parallel)
        self._rows_seconds: dict[int, float] = {0: 0.0}
        self.assumptions = (
            f"step times are the bound of {decoder.name} on {roof.name}: modelled",
            *ASSUMPTIONS,
            f"every step takes {1e6 * overhead_seconds:g} us more",
            "sequences of a batch are equally long where a sliding window cuts them",
            f"beyond {_EXACT_ROWS} rows multiples of {_STRIDE} are estimated, others lie between",
        )

    def decode(self, rows: int, live: int, context: int) -> float:
        """Seconds of a decode step, padding rows included, which read no cache."""
        return self._clock.decode(rows, self._keys(live, context)) + self._overhead

    def prefill(self, chunks: Sequence[Chunk], rows: int, live: int, context: int) -> float:
        """What prompts add: their rows through the layers, and their attention."""
        prompts = [Prompt(tokens=count, past=past) for count, past in chunks]
        tokens, keys = sum(count for count, _ in chunks), self._keys(live, context)
        attention = self._clock.attention
        seconds = self._rows(rows + tokens) - self._rows(rows)
        seconds += attention(rows, keys, prompts) - attention(rows, keys, ())
        return seconds if rows else seconds + self._overhead

    def _keys(self, live: int, context: int) -> list[int]:
        """What `live` equally long sequences read in a layer, for each window."""
        windows = self._clock.windows
        return [min(context, live * window) if window else context for window in windows]

    def _rows(self, rows: int) -> float:
        """Seconds of so many rows through everything but attention; 0 for none."""
        found = self._rows_seconds.get(rows)
        if found is None:
            found = self._rows_seconds[rows] = self._estimate(rows)
        return found

    def _estimate(self, rows: int) -> float:
        part = rows % _STRIDE
        if rows > _EXACT_ROWS and part:
            below, above = self._rows(rows - part), self._rows(rows - part + _STRIDE)
            return below + (above - below) * part / _STRIDE
        return self._clock.without_attention(rows, 1)


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
