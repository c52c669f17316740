"""Step times for simulations: the bound of a step as a function that is cheap to call often.

clock = StepClock(load_decoder("qwen2.5-7b"), roof_of("910B2"))
clock.decode(32, clock.keys_of([8192] * 32))     # seconds of a decode step
clock.prefill(4096)                              # seconds of a prompt
clock.seconds(Work.prefill(512, 1024) + Work.batch(31, 8192))    # mixed, chunked prefill
"""

from __future__ import annotations

from collections.abc import Sequence as Values
from dataclasses import dataclass

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.kv import token_bytes
from ascend_infer.estimates.models import Attention, Decoder, Parallel
from ascend_infer.estimates.operators import attention_operator
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.step import estimate_step
from ascend_infer.estimates.work import Sequence, Work, require_count


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """Seconds of attention in layers alike: of compute per pair, of memory per key and row."""

    window: int
    decode_pair: float
    prefill_pair: float
    key: float
    decode_row: float
    prefill_row: float

    def decode(self, rows: int, keys: int) -> float:
        memory = self.key * keys + self.decode_row * rows
        compute = self.decode_pair * keys
        return compute if compute > memory else memory

    def of(self, work: Work) -> float:
        decode, prefill = (work.pairs(self.window, prefill=p) for p in (False, True))
        rows, new = work.rows, work.prefill_rows
        memory = self.key * work.keys_read(self.window)
        memory += self.decode_row * (rows - new) + self.prefill_row * new
        return max(memory, self.decode_pair * decode + self.prefill_pair * prefill)


class StepClock:
    """Seconds of a step on each rank: the bound with further traffic. All figures are `modelled`.

    Equal to `estimate_step`; what does not depend on contexts is computed once per number of rows.

    Args:
        decoder: the whole model; `parallel` divides it.
        overhead_seconds: added to every step, for launches and host time.

    Raises:
        AscendInferError: AI-DEV-014, AI-EST-003 as `estimate_step`.
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
        self._rank = decoder.on_rank(parallel or Parallel())
        self._roof, self._precision = roof, precision or Precision()
        self._overhead = overhead_seconds
        self._fixed: dict[tuple[int, int], float] = {}
        #: Windows of the model's layers, 0 for those that see all keys.
        self.windows = tuple(dict.fromkeys(a.window for a, _ in self._rank.attentions))
        self._rates = tuple(self._rates_of(a, layers) for a, layers in self._rank.attentions)
        self._places = tuple(self.windows.index(rates.window) for rates in self._rates)

    @property
    def token_bytes(self) -> int:
        """Bytes of the cache that a token takes on a rank, in all layers."""
        return sum(n * token_bytes(a, self._precision.kv) for a, n in self._rank.attentions)

    def seconds(self, work: Work) -> float:
        """Of any step."""
        fixed = self._without_attention(work.rows, work.sequences)
        return fixed + sum(rates.of(work) for rates in self._rates)

    def prefill(self, tokens: int, past: int = 0) -> float:
        """Of `tokens` of one prompt, with `past` tokens in the cache.

        Raises:
            UsageError: AI-EST-001.
        """
        return self.seconds(Work.prefill(tokens, past))

    def keys_of(self, contexts: Values[int]) -> tuple[int, ...]:
        """For `decode`: keys that the batch reads in a layer, for each of `windows`."""
        return tuple(
            sum(min(context, window) for context in contexts) if window else sum(contexts)
            for window in self.windows
        )

    def decode(self, rows: int, keys: Values[int]) -> float:
        """Of a decode step: one token for each of `rows` sequences.

        Equal to `seconds(Work.decode(contexts))` with `keys = keys_of(contexts)`.

        Raises:
            UsageError: AI-EST-001.
        """
        total = self._without_attention(rows, rows)
        for rates, place in zip(self._rates, self._places):
            total += rates.decode(rows, keys[place])
        return total

    def _without_attention(self, rows: int, sequences: int) -> float:
        """The same for all steps of so many rows and sequences, whatever their contexts."""
        found = self._fixed.get((rows, sequences))
        if found is None:
            require_count("rows", rows)
            alike = Work.prefill(rows - sequences + 1)
            if sequences > 1:
                alike += Work(groups={Sequence(tokens=1): sequences - 1})
            step = estimate_step(self._rank, alike, self._roof, self._precision)
            found = step.seconds + step.further_seconds - step.seconds_of("attention")
            found = self._fixed[rows, sequences] = found + self._overhead
        return found

    def _rates_of(self, attention: Attention, layers: int) -> _Rates:
        """Read off the operator for one row that sees one key, and for a prompt of two tokens."""
        roof = self._roof
        one = attention_operator(attention, Work.batch(1, 1), self._precision)
        two = attention_operator(attention, Work.prefill(2), self._precision)
        pairs = Work.prefill(2).pairs(attention.window, prefill=True)
        return _Rates(
            window=attention.window,
            decode_pair=layers * roof.compute_seconds(one.flops, one.dtype),
            prefill_pair=layers * roof.compute_seconds(two.flops, two.dtype) / pairs,
            key=layers * roof.memory_seconds(one.kv_bytes),
            decode_row=layers * roof.memory_seconds(one.activation_bytes),
            prefill_row=layers * roof.memory_seconds(two.activation_bytes) / 2,
        )
