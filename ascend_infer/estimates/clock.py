"""Step times for simulations: the bound of a step as a function that is cheap to call often.

clock = StepClock(load_decoder("qwen2.5-7b"), roof_of("910B2"))
clock.decode(32, clock.keys_of([8192] * 32))     # seconds of a decode step
clock.prefill(4096)                              # seconds of a prompt
clock.seconds(Work.prefill(512, 1024) + Work.batch(31, 8192))    # mixed, chunked prefill
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.kv import token_bytes
from ascend_infer.estimates.models import Attention, Decoder, Parallel
from ascend_infer.estimates.operators import attention_operator
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.step import estimate_step
from ascend_infer.estimates.work import Work, require_count


@dataclass(frozen=True, kw_only=True)
class _WindowRate:
    """Attention of the layers with one window: seconds per cached token, and per row."""

    compute_per_token: float
    memory_per_token: float
    memory_per_row: float


class StepClock:
    """Seconds of a step on each rank: the bound with further traffic. All figures are `modelled`.

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
        self._fixed: dict[int, float] = {}
        counted = Counter(layer.attention for layer in self._rank.layers)
        #: Windows of the model's layers, 0 for those that see all keys.
        self.windows: tuple[int, ...] = tuple(dict.fromkeys(a.window for a in counted))
        self._rates = tuple(
            tuple(self._rate_of(a, n) for a, n in counted.items() if a.window == window)
            for window in self.windows
        )

    @property
    def token_bytes(self) -> int:
        """Bytes of the cache that a token takes on a rank, in all layers."""
        return sum(token_bytes(y.attention, self._precision.kv) for y in self._rank.layers)

    def seconds(self, work: Work) -> float:
        """Of any step."""
        step = estimate_step(self._rank, work, self._roof, self._precision)
        return step.seconds + step.further_seconds + self._overhead

    def prefill(self, tokens: int, past: int = 0) -> float:
        """Of `tokens` of one prompt, with `past` tokens in the cache.

        Raises:
            UsageError: AI-EST-001.
        """
        return self.seconds(Work.prefill(tokens, past))

    def keys_of(self, contexts: Sequence[int]) -> tuple[int, ...]:
        """For `decode`: keys that the batch reads in a layer, for each of `windows`."""
        return tuple(
            sum(min(context, window) for context in contexts) if window else sum(contexts)
            for window in self.windows
        )

    def decode(self, rows: int, keys: Sequence[int]) -> float:
        """Of a decode step: one token for each of `rows` sequences.

        Equal to `seconds(Work.decode(contexts))` with `keys = keys_of(contexts)`; what does not
        depend on the contexts is computed once per number of rows.
        """
        fixed = self._fixed.get(rows)
        if fixed is None:
            fixed = self._fixed[rows] = self._without_attention(rows)
        total = fixed
        for rates, tokens in zip(self._rates, keys, strict=True):
            for rate in rates:
                memory = rate.memory_per_token * tokens + rate.memory_per_row * rows
                compute = rate.compute_per_token * tokens
                total += compute if compute > memory else memory
        return total

    def _without_attention(self, rows: int) -> float:
        step = estimate_step(
            self._rank, Work.batch(require_count("rows", rows), 1), self._roof, self._precision
        )
        return step.seconds + step.further_seconds - step.seconds_of("attention") + self._overhead

    def _rate_of(self, attention: Attention, layers: int) -> _WindowRate:
        """Read off the operator for one row that sees one key."""
        one = attention_operator(attention, Work.batch(1, 1), self._precision)
        roof = self._roof
        return _WindowRate(
            compute_per_token=layers * roof.compute_seconds(one.flops, one.dtype),
            memory_per_token=layers * roof.memory_seconds(one.kv_bytes),
            memory_per_row=layers * roof.memory_seconds(one.activation_bytes),
        )
