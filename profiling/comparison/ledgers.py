"""Samples from a ledger: entries of one name are repetitions of one measurement."""

from __future__ import annotations

import re
from collections.abc import Iterator

from profiling.comparison.measurement import Better, Kernel, Key, Metric
from profiling.comparison.profiles import Samples
from profiling.ledger import Entry

#: Figures that say how something was measured.
_ABOUT_THE_MEASUREMENT = re.compile(r"(^|_)(samples|count|repetitions|seed)$")
#: What the name of a figure says: its unit, and which direction is better. The first pattern that
#: fits decides; of a figure that none fits nobody knows whether more of it is good.
_NAMES = (
    (re.compile(r"^share_of_copy$|(^|_)(goodput|throughput|bandwidth|hit_rate)(_|$)"), Better.MORE),
    (re.compile(r"_per_s(econd)?$|_gbps$"), Better.MORE),
    (re.compile(r"_(?P<unit>ns|us|ms|s)$"), Better.LESS),
    (re.compile(r"(^|_)(?P<unit>bytes|kib|mib|gib|cycles)$"), Better.LESS),
    (re.compile(r"(^|_)instructions$"), Better.LESS),
)


def metric_of(name: str) -> Metric | None:
    """What a figure measures; None for one that says how it was measured."""
    if _ABOUT_THE_MEASUREMENT.search(name):
        return None
    for pattern, better in _NAMES:
        found = pattern.search(name)
        if found:
            unit = found.groupdict().get("unit") or ""
            return Metric(name=name, unit=unit, better=better)
    return Metric(name=name, unit="", better=Better.UNKNOWN)


def samples_of(entry: Entry, file: str) -> Iterator[Samples]:
    """The figures of an entry that have a value."""
    for name, value in entry.figures.items():
        metric = metric_of(name)
        if metric is not None and value is not None:
            key = Key(kernel=Kernel(name=entry.name), metric=metric, evidence=entry.evidence)
            yield Samples(key=key, values=(float(value),), where=f"{file}:{entry.line}")
