"""What must be written down before a figure can be compared with another one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels_npu.errors import UsageError


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
        return headline_of([self])

    def or_else(self, others: Conditions) -> Conditions:
        """These conditions; those that are missing as `others` has them."""
        mine = dataclasses.asdict(self)
        return dataclasses.replace(
            others, **{name: mine[name] for name in mine if mine[name].strip()}
        )

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


def headline_of(conditions: Iterable[Conditions]) -> str:
    """The first line of a report on several measurements: what is missing of any of them."""
    missing = {name for one in conditions for name in one.missing}
    if not missing:
        return ""
    named = ", ".join(meaning for name, meaning in MEANING.items() if name in missing)
    return f"Not comparable: {len(missing)} of {len(MEANING)} conditions missing: {named}"


def read(path: Path) -> Conditions:
    """The conditions in a JSON object with some of the twelve names.

    Raises:
        UsageError: AI-BENCH-024 when the file holds something else.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        unknown = ", ".join(sorted(fields.keys() - MEANING.keys()))
        if unknown:
            raise ValueError(f"unknown conditions: {unknown}")
        return Conditions(**{name: str(text) for name, text in fields.items()})
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(
            "AI-BENCH-024",
            f"no conditions in {path}: {error}",
            rule=f"the names are {', '.join(MEANING)}; each has a text",
            fix='write a JSON object such as {"hardware": "1 x Ascend 910B2, 64 GB"}',
        ) from error
