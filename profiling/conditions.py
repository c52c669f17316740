"""What must be written down before a figure can be compared with another one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of a measurement; an empty string is one that nobody wrote down.

    The list is the chapter's: without any one of them two figures cannot be compared. A condition
    that does not apply says so ("none", "one device, not split").
    """

    hardware: str = ""
    software: str = ""
    model: str = ""
    parallelism: str = ""
    lengths: str = ""
    load: str = ""
    formulas: str = ""
    aggregation: str = ""
    warm_up_and_caches: str = ""
    graph_mode: str = ""
    baseline: str = ""
    reproduction: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The conditions that nobody wrote down."""
        return tuple(f.name for f in dataclasses.fields(self) if not getattr(self, f.name).strip())

    @property
    def headline(self) -> str:
        """The first line of a report: nothing when the conditions are complete."""
        if not self.missing:
            return ""
        named = ", ".join(MEANING[name] for name in self.missing)
        return f"Not comparable: {len(self.missing)} of {len(MEANING)} conditions missing: {named}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, with the names of the missing ones."""
        return {**dataclasses.asdict(self), "missing": list(self.missing)}


#: What each condition means, in the words that a report uses.
MEANING: dict[str, str] = {
    "hardware": "hardware (chip, count, memory, power or frequency limits)",
    "software": "versions of driver, CANN, torch, torch_npu, engine",
    "model": "model and precision of weights, activations and KV cache",
    "parallelism": "parallelism (tensor, expert, data, context)",
    "lengths": "distribution of input and output lengths",
    "load": "concurrency or arrival rate",
    "formulas": "formulas of the metrics, and from when a first token is counted",
    "aggregation": "aggregation (mean, median, quantiles) and number of samples",
    "warm_up_and_caches": "warm-up, and the state of L2, KV and prefix caches",
    "graph_mode": "graph or eager mode",
    "baseline": "conditions of what it is compared with",
    "reproduction": "script and random seed",
}
