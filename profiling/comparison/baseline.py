"""A file that later runs are compared with: JSON lines, so that version control shows what moved.

The first line says where the samples come from and under which conditions; each further line is
one figure of one kernel, with its samples run by run.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernels_npu.errors import AscendInferError
from kernels_npu.evidence import Evidence
from profiling.comparison.measurement import Better, Kernel, Key, Measurements, Metric
from profiling.conditions import Conditions
from profiling.whole_files import write_whole

FORMAT = "ascend_infer_baseline"
VERSION = 1
#: Samples kept of one figure in one run: enough for any interval, and the file stays small.
MOST_SAMPLES = 400


class NoBaseline(AscendInferError):
    """There is nothing to compare with: the check has failed, whatever was measured."""


def is_baseline(head: Mapping[str, object]) -> bool:
    """Whether a file that begins with this JSON object is one."""
    return FORMAT in head


def write(path: Path, runs: Sequence[Measurements], when: str) -> None:
    """Write the samples of all runs, whole or not at all. when: UTC, ISO 8601.

    Raises:
        UsageError: AI-CLI-004 when the file cannot be written.
    """
    head = {
        FORMAT: VERSION,
        "when": when,
        "runs": [{"path": run.path, "conditions": run.conditions.to_dict()} for run in runs],
    }
    keys = dict.fromkeys(key for run in runs for key in run.series)
    lines = [head, *(_line(key, runs) for key in keys)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_whole(path, text.encode("ascii"), "baseline")


def _line(key: Key, runs: Sequence[Measurements]) -> dict[str, Any]:
    return {
        "kernel": dataclasses.asdict(key.kernel),
        "metric": {**dataclasses.asdict(key.metric), "better": str(key.metric.better)},
        "evidence": str(key.evidence),
        "runs": [_kept(key, run.series.get(key, ())) for run in runs],
    }


def _kept(key: Key, samples: Sequence[float]) -> list[float]:
    """All samples, or as many as are kept, spread evenly over their distribution."""
    if len(samples) <= MOST_SAMPLES or not key.has_noise:
        return list(samples)
    places = np.linspace(0, len(samples) - 1, MOST_SAMPLES).round().astype(int)
    return [float(value) for value in np.sort(samples)[places]]


def read(path: Path) -> list[Measurements]:
    """The runs of a baseline.

    Raises:
        NoBaseline: AI-BENCH-022 when it is missing, damaged or empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        head, *series = (json.loads(line) for line in lines if line.strip())
        if head[FORMAT] != VERSION:
            raise ValueError(f"version {head[FORMAT]!r}, not {VERSION}")
        return _runs(head, series, str(path))
    except OSError as error:
        raise _missing(path, error.strerror or str(error)) from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _missing(path, f"damaged: {type(error).__name__}: {error}") from error


def _runs(head: dict[str, Any], series: list[Any], file: str) -> list[Measurements]:
    found: list[dict[Key, tuple[float, ...]]] = [{} for _ in head["runs"]]
    places: dict[Key, str] = {}
    for number, line in enumerate(series, start=2):
        metric = line["metric"]
        key = Key(
            kernel=Kernel(**{name: str(text) for name, text in line["kernel"].items()}),
            metric=Metric(
                name=str(metric["name"]),
                unit=str(metric["unit"]),
                better=Better(metric["better"]),
            ),
            evidence=Evidence(line["evidence"]),
        )
        places[key] = f"{file}:{number}"
        for run, samples in zip(found, line["runs"], strict=True):
            if not all(math.isfinite(v) and (v > 0 or not key.has_noise) for v in samples):
                raise ValueError(f"line {number} has a sample that cannot be one")
            if samples:
                run[key] = tuple(map(float, samples))
    if not any(found):
        raise ValueError("it holds no samples")
    return [
        Measurements(
            path=str(run["path"]),
            series=series_of_run,
            where={key: places[key] for key in series_of_run},
            conditions=Conditions(
                **{k: str(v) for k, v in run["conditions"].items() if k != "missing"}
            ),
        )
        for run, series_of_run in zip(head["runs"], found, strict=True)
    ]


def _missing(path: Path, why: str) -> NoBaseline:
    return NoBaseline(
        "AI-BENCH-022",
        f"no baseline at {path}: {why}",
        rule="a gate compares with a baseline; without one it fails, since nothing was checked",
        fix="write one from a good run: ascend-infer report baseline PROFILE -o FILE",
    )
