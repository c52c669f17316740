"""Measurements in miniature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernels_npu.evidence import Evidence
from profiling.comparison import Better, Kernel, Key, Measurements, Metric
from profiling.conditions import MEANING, Conditions

COMPLETE = Conditions(**{name: f"some {name}" for name in MEANING})
TIME = Metric(name="task time", unit="us")
BYTES = Metric(name="read from memory", unit="KiB")
MEASURED, COUNTED = Evidence.NPU_MEASURED, Evidence.SIMULATED


def key(
    name: str = "attention",
    *,
    metric: Metric = TIME,
    evidence: Evidence = MEASURED,
    blocks: str = "",
) -> Key:
    return Key(kernel=Kernel(name=name, blocks=blocks), metric=metric, evidence=evidence)


def run(
    series: dict[Key, Sequence[float]] | Sequence[float], conditions: Conditions = COMPLETE
) -> Measurements:
    samples = series if isinstance(series, dict) else {key(): series}
    return Measurements(
        path="a profile",
        series={k: tuple(values) for k, values in samples.items()},
        where=dict.fromkeys(samples, "file.csv:2"),
        conditions=conditions,
    )


def unknown(name: str) -> Metric:
    return Metric(name=name, unit="", better=Better.UNKNOWN)


def runs(*series: Iterable[float]) -> list[Measurements]:
    return [run(tuple(values)) for values in series]
