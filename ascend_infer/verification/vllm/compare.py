"""Tokens and logits of two engines, step by step: equal, a choice that rounding decides, or wrong.

As long as two engines have chosen the same tokens, their logits are of the same context and may be
compared. A wrong length, address or slot moves them by hundreds of units in the last place, also
where the most likely token happens to stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ascend_infer.verification.vllm.engine import Decoded

#: Bits of the significand behind the leading one.
_MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
#: Two correct engines were seen to differ by 1.5 to 2.1 times the square root of the number of
#: rounded additions, two per layer: random Qwen3 of 2 layers and SmolLM2 of 30, in both halves.
_ROUNDING_FACTOR = 4.0


def tolerance(layers: int) -> float:
    """How far a gap between two logits may move, in units in the last place (ulps).

    Each layer adds to the residual stream twice and rounds the sum, in either engine in its own
    way: errors that grow as a random walk does.
    """
    return _ROUNDING_FACTOR * math.sqrt(2 * layers)


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where a sequence goes another way: the reference's token and the candidate's.

    gap: by how many ulps the reference prefers its own; None when the candidate's token is not
        among those that it reports, or a sequence is shorter.
    tie: whether the tolerance explains it.
    """

    round: int
    prompt: int
    step: int
    expected: int | None
    found: int | None
    gap: float | None
    tie: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two engines made of the same prompts.

    tokens: how many were compared; those after a divergence have another context.
    worst_ulps: the largest change of a gap between two logits, of `tolerance_ulps` allowed.
    """

    sequences: int
    tokens: int
    divergences: tuple[Divergence, ...]
    worst_ulps: float
    tolerance_ulps: float

    @property
    def wrong(self) -> tuple[Divergence, ...]:
        """The divergences that rounding does not explain."""
        return tuple(d for d in self.divergences if not d.tie)

    @property
    def passed(self) -> bool:
        """Whether something was compared and rounding explains every difference."""
        return self.tokens > 0 and not self.wrong and self.worst_ulps <= self.tolerance_ulps


def compare(reference: Decoded, candidate: Decoded, limit: float | None = None) -> Comparison:
    """Compare two runs of the same rounds, whose scores are logits.

    limit: tolerance in ulps; `tolerance` of the model's layers without.
    """
    judge = _Judge(
        limit=tolerance(reference.model["layers"]) if limit is None else limit,
        bits=_MANTISSA_BITS[reference.model["dtype"]],
    )
    sides = [_sequences(side) for side in (reference, candidate)]
    if sides[0].keys() != sides[1].keys():
        raise ValueError("the two runs did not decode the same rounds")
    for place, expected in sides[0].items():
        judge.sequence(place, expected, sides[1][place])
    return Comparison(
        sequences=len(sides[0]),
        tokens=judge.tokens,
        divergences=tuple(judge.divergences),
        worst_ulps=judge.worst,
        tolerance_ulps=judge.limit,
    )


def describe(found: Comparison) -> str:
    """In a sentence, with the first wrong choice."""
    figures = (
        f"{found.tokens} tokens of {found.sequences} sequences; gaps between logits moved by up to "
        f"{found.worst_ulps:.1f} of {found.tolerance_ulps:.1f} ulps"
    )
    ties = len(found.divergences) - len(found.wrong)
    if ties:
        figures += f"; choices that rounding explains: {ties}"
    if not found.wrong:
        return figures
    first = found.wrong[0]
    preferred = "by more than it reports" if first.gap is None else f"by {first.gap:.0f} ulps"
    return (
        f"{len(found.wrong)} sequences are wrong, first in round {first.round}, prompt "
        f"{first.prompt}, step {first.step}: token {first.found} instead of {first.expected}, "
        f"which the host prefers {preferred}; {figures}"
    )


#: A token and the logits that it was chosen from, by token.
_Step = tuple[int, Mapping[str, float]]


def _sequences(decoded: Decoded) -> dict[tuple[int, int], list[_Step]]:
    """(round, prompt) -> its steps."""
    return {
        (r, p): list(zip(tokens, decoded.scores[r][p], strict=True))
        for r, batch in enumerate(decoded.tokens)
        for p, tokens in enumerate(batch)
    }


class _Judge:
    """Goes through pairs of sequences and keeps what it sees."""

    def __init__(self, *, limit: float, bits: int) -> None:
        self.limit, self._bits = limit, bits
        self.tokens, self.worst = 0, 0.0
        self.divergences: list[Divergence] = []

    def sequence(
        self, place: tuple[int, int], expected: Sequence[_Step], found: Sequence[_Step]
    ) -> None:
        """One prompt of one round, up to where the two choose differently."""
        for step, (left, right) in enumerate(zip_longest(expected, found)):
            if left is None or right is None:
                self._diverge(place, step, left, right, None)
                return
            self.tokens += 1
            ulp = _ulp(left[1], self._bits)
            self.worst = max(self.worst, _moved(left[1], right[1]) / ulp)
            if left[0] != right[0]:
                logits = left[1]
                other = logits.get(str(right[0]))
                gap = None if other is None else (logits[str(left[0])] - other) / ulp
                self._diverge(place, step, left, right, gap)
                return

    def _diverge(
        self,
        place: tuple[int, int],
        step: int,
        left: _Step | None,
        right: _Step | None,
        gap: float | None,
    ) -> None:
        self.divergences.append(
            Divergence(
                round=place[0],
                prompt=place[1],
                step=step,
                expected=left and left[0],
                found=right and right[0],
                gap=gap,
                tie=gap is not None and gap <= self.limit,
            )
        )


def _moved(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """The largest change of a gap between two logits that both sides report."""
    shifts = [left[token] - right[token] for token in left.keys() & right.keys()]
    moved = max(shifts, default=math.inf) - min(shifts, default=0.0)
    return moved if math.isfinite(moved) and all(map(math.isfinite, shifts)) else math.inf


def _ulp(logits: Mapping[str, float], bits: int) -> float:
    """The distance of neighbouring numbers of the dtype at the largest of `logits`."""
    largest = max(map(abs, logits.values()))
    exponent = math.frexp(largest)[1] - 1 if math.isfinite(largest) and largest > 0 else 0
    return math.ldexp(1.0, exponent - bits)
