"""How requests arrive: closed loop, Poisson, bursts, all at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ascend_infer.serving_simulation.workload import Floats
from kernels_npu.errors import UsageError
from profiling.serving_metrics import Load


class Arrivals(Protocol):
    """A process of arrivals."""

    @property
    def load(self) -> Load:
        """How the figures describe it."""

    @property
    def think(self) -> float:
        """Seconds between the end of a request and the next of the same client; closed loop."""

    def times(self, rng: np.random.Generator, count: int) -> Floats | None:
        """Seconds of `count` arrivals; None where they depend on the server."""


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """`concurrency` clients, each with one request at a time and `think` seconds between them."""

    concurrency: int
    think: float = 0.0

    def __post_init__(self) -> None:
        _require("clients", self.concurrency, at_least=1)
        _require("think time", self.think, at_least=0)

    @property
    def load(self) -> Load:
        """Closed, with the number of clients."""
        return Load(concurrency=self.concurrency)

    def times(self, rng: np.random.Generator, count: int) -> None:
        """Arrivals follow from completions."""


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Independent arrivals at `rate` per second."""

    rate: float
    think: float = 0.0

    def __post_init__(self) -> None:
        _require("rate", self.rate, above=0)

    @property
    def load(self) -> Load:
        """Open, with the rate."""
        return Load(rate=self.rate, process="Poisson")

    def times(self, rng: np.random.Generator, count: int) -> Floats:
        """Sums of exponential gaps."""
        return np.cumsum(rng.exponential(1 / self.rate, count))


@dataclass(frozen=True, kw_only=True)
class Bursts:
    """`size` requests together, every `every` seconds."""

    size: int
    every: float
    think: float = 0.0

    def __post_init__(self) -> None:
        _require("requests per burst", self.size, at_least=1)
        _require("seconds between bursts", self.every, above=0)

    @property
    def load(self) -> Load:
        """Open, with the mean rate."""
        return Load(rate=self.size / self.every, process=f"bursts of {self.size}")

    def times(self, rng: np.random.Generator, count: int) -> Floats:
        """The first burst comes at 0."""
        return np.asarray(np.arange(count) // self.size * self.every, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class AtOnce:
    """All requests at 0: what a batch job does."""

    think: float = 0.0

    @property
    def load(self) -> Load:
        """Open, at an infinite rate."""
        return Load(rate=math.inf, process="all at once")

    def times(self, rng: np.random.Generator, count: int) -> Floats:
        """Zeros."""
        return np.zeros(count)


def _require(
    what: str, value: float, *, at_least: float = -math.inf, above: float = -math.inf
) -> None:
    if math.isfinite(value) and value >= at_least and value > above:
        return
    bound = f"at least {at_least:g}" if at_least > -math.inf else f"above {above:g}"
    raise UsageError(
        "AI-SERVE-001",
        f"{what}: {value}",
        rule=f"{what}: a finite number of {bound}"
        if at_least > -math.inf
        else f"{what}: a finite number {bound}",
        fix="give the traffic that the server would see",
    )
