"""Distributions of prompt and output lengths, written as `kind:parameters`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError

#: Tokens of one request: longer samples are cut, longer constants refused.
MOST_TOKENS = 1_000_000

Sampler = Callable[[np.random.Generator, int], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """A distribution of whole numbers from 1 to `MOST_TOKENS`. text: how it was written."""

    text: str
    sampler: Sampler

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` lengths; what is drawn is rounded up, and cut to the limits."""
        drawn = np.ceil(self.sampler(rng, count))
        return np.clip(drawn, 1, MOST_TOKENS).astype(np.int64)


def parse_lengths(text: str) -> Lengths:
    """`128`, `constant:128`, `uniform:16-512` (both ends occur), `geometric:200` (mean),
    `lognormal:200,0.8` (mean, sigma of the logarithm), `discrete:16=5,128=3` (length=weight).

    Raises:
        UsageError: AI-SERVE-002 for anything else.
    """
    kind, colon, parameters = text.strip().partition(":")
    if not colon:
        kind, parameters = "constant", kind
    try:
        return Lengths(text=text, sampler=_KINDS[kind](parameters))
    except (KeyError, ValueError) as error:
        why = "" if isinstance(error, KeyError) else f" ({error})"
        raise UsageError(
            "AI-SERVE-002",
            f"lengths {text[:60]!r}{why}",
            rule=f"lengths are whole numbers from 1 to {MOST_TOKENS}, given as {', '.join(_FORMS)}",
            fix="for example --output geometric:200",
        ) from error


def _constant(parameters: str) -> Sampler:
    length = _length(parameters)
    return lambda _, count: np.full(count, float(length))


def _uniform(parameters: str) -> Sampler:
    low, dash, high = parameters.partition("-")
    least, most = _length(low), _length(high)
    if not dash or least > most:
        raise ValueError("a range is LOW-HIGH")
    return lambda rng, count: rng.integers(least, most, count, endpoint=True).astype(np.float64)


def _geometric(parameters: str) -> Sampler:
    mean = _number(parameters, 1, MOST_TOKENS)
    return lambda rng, count: rng.geometric(1 / mean, count).astype(np.float64)


def _lognormal(parameters: str) -> Sampler:
    text, _, spread = parameters.partition(",")
    mean, sigma = _number(text, 1, MOST_TOKENS), _number(spread, 0, 5)
    location = math.log(mean) - sigma * sigma / 2  # so that `mean` is the mean
    return lambda rng, count: rng.lognormal(location, sigma, count)


def _discrete(parameters: str) -> Sampler:
    pairs = [pair.partition("=") for pair in parameters.split(",")]
    values = np.array([_length(value) for value, _, _ in pairs], dtype=np.float64)
    weights = np.array([_number(weight or "1", 0, 1e9) for _, _, weight in pairs])
    if not weights.sum() > 0:
        raise ValueError("all weights are 0")
    return lambda rng, count: rng.choice(values, count, p=weights / weights.sum())


def _length(text: str) -> int:
    value = int(text)
    if not 1 <= value <= MOST_TOKENS:
        raise ValueError(f"{value} is no length")
    return value


def _number(text: str, low: float, high: float) -> float:
    value = float(text)
    if not low <= value <= high:
        raise ValueError(f"{text} is not within {low:g} to {high:g}")
    return value


_KINDS: Mapping[str, Callable[[str], Sampler]] = {
    "constant": _constant,
    "uniform": _uniform,
    "geometric": _geometric,
    "lognormal": _lognormal,
    "discrete": _discrete,
}
_FORMS = ("N", "uniform:LOW-HIGH", "geometric:MEAN", "lognormal:MEAN,SIGMA", "discrete:N=W,N=W")
