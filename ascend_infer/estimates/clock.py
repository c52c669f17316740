"""Step times for simulations: the bound of a step as a function that is cheap to call often.

clock = StepClock(load_decoder("qwen2.5-7b"), roof_of("910B2"))
clock.decode(32, clock.keys_of([8192] * 32))     # seconds of a decode step
clock.prefill(4096)                              # seconds of a prompt
clock.seconds(Work.prefill(512, 1024) + Work.batch(31, 8192))    # mixed, chunked prefill
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Values
from dataclasses import dataclass

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.kv import token_bytes
from ascend_infer.estimates.models import Decoder, Parallel, Scan
from ascend_infer.estimates.operators import scan_operator
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.step import estimate_step
from ascend_infer.estimates.work import Sequence, Work, require_count


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """Seconds of a pass over the cache in layers alike: of compute per pair, of memory per key and
    row. place: of its window among the clock's."""

    scan: Scan
    place: int
    decode_pair: float
    prefill_pair: float
    key: float
    decode_row: float
    prefill_row: float

    @classmethod
    def of(cls, scan: Scan, layers: int, place: int, precision: Precision, roof: Roof) -> _Rates:
        """Read off the operator for one row that sees one key, and for a prompt of two tokens."""
        one = scan_operator(scan, Work.batch(1, 1), precision)
        two = scan_operator(scan, Work.prefill(2), precision)
        pairs = Work.prefill(2).pairs(scan.window, prefill=True)
        return cls(
            scan=scan,
            place=place,
            decode_pair=layers * roof.compute_seconds(one.flops, one.dtype),
            prefill_pair=layers * roof.compute_seconds(two.flops, two.dtype) / pairs,
            key=layers * roof.memory_seconds(one.kv_bytes),
            decode_row=layers * roof.memory_seconds(one.activation_bytes),
            prefill_row=layers * roof.memory_seconds(two.activation_bytes) / 2,
        )

    def decode(self, rows: int, keys: int) -> float:
        memory = self.key * keys + self.decode_row * rows
        compute = self.decode_pair * keys
        return compute if compute > memory else memory

    def mixed(self, rows: int, keys: int, prompts: Iterable[Sequence]) -> float:
        memory = self.key * keys + self.decode_row * rows
        compute = self.decode_pair * keys
        for prompt in prompts:
            memory += self.key * prompt.keys_read(self.scan.prefill_window)
            memory += self.prefill_row * prompt.tokens
            compute += self.prefill_pair * prompt.pairs(self.scan.window)
        return max(compute, memory)


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
        self._rows: dict[tuple[int, int], float] = {}
        scans = [(scan, n) for a, n in self._rank.attentions for scan in a.scans]
        #: Keys that a decoding row reads at most, for each kind of layer; 0 for all.
        self.windows = tuple(dict.fromkeys(scan.window for scan, _ in scans))
        self._rates = tuple(
            _Rates.of(scan, n, self.windows.index(scan.window), self._precision, roof)
            for scan, n in scans
        )

    @property
    def token_bytes(self) -> int:
        """Bytes of the cache that a token takes on a rank, in all layers."""
        return sum(n * token_bytes(a, self._precision.kv) for a, n in self._rank.attentions)

    def seconds(self, work: Work) -> float:
        """Of any step."""
        decoding = Work(groups={s: n for s, n in work.groups.items() if s.tokens == 1})
        prompts = [s for s, n in work.groups.items() if s.tokens > 1 for _ in range(n)]
        keys = [decoding.keys_read(window) for window in self.windows]
        rows = self.without_attention(work.rows, work.sequences)
        return rows + self.attention(decoding.rows, keys, prompts) + self._overhead

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
        total = self.without_attention(rows, rows) + self._overhead
        for rates in self._rates:
            total += rates.decode(rows, keys[rates.place])
        return total

    def attention(self, rows: int, keys: Values[int], prompts: Iterable[Sequence]) -> float:
        """Of attention alone, in a step of `rows` decoding rows and parts of prompts.

        Args:
            keys: of the decoding rows, for each of `windows`.
            prompts: with two new tokens or more; one alone is decoding.
        """
        parts = tuple(prompts)
        return sum(rates.mixed(rows, keys[rates.place], parts) for rates in self._rates)

    def without_attention(self, rows: int, sequences: int) -> float:
        """Of everything else, without the overhead: the same for all steps of so many rows.

        Raises:
            UsageError: AI-EST-001.
        """
        found = self._rows.get((rows, sequences))
        if found is None:
            require_count("rows", rows)
            alike = Work.prefill(rows - sequences + 1)
            if sequences > 1:
                alike += Work(groups={Sequence(tokens=1): sequences - 1})
            step = estimate_step(self._rank, alike, self._roof, self._precision)
            found = step.seconds + step.further_seconds - step.seconds_of("attention")
            self._rows[rows, sequences] = found
        return found
