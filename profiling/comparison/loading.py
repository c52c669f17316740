"""What lies at a path, as measurements: a profiler's files, a ledger, or a baseline."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels_npu.errors import SourceLocation, UsageError
from profiling import ledger
from profiling.analysis.figures import number
from profiling.analysis.kernel_sentences import SLOW_CLOCK
from profiling.comparison import baseline, ledgers, profiles
from profiling.comparison.measurement import Key, Measurements
from profiling.comparison.profiles import Samples
from profiling.conditions import Conditions
from profiling.files import read_profile
from profiling.provenance import conditions_of
from profiling.records.note import Note, Notes, Severity
from profiling.records.profile import Profile

_AGGREGATION = "all launches; their typical value is a trimmed geometric mean, of counts the mean"
_BASELINE = "the other side, with its conditions"
_BY_TYPE = "operators are known by their type, so tasks of different shapes are in one figure"
#: The longest first line that is looked at to tell what a file is.
_LONGEST_HEAD = 1 << 20


def load(paths: Sequence[Path], *, by_type: bool = False) -> list[Measurements]:
    """The runs that all paths hold.

    by_type: tasks of an application are known by the type of their operator only.

    Raises:
        UsageError: AI-PROF-020 or AI-BENCH-006, nothing at a path can be read.
        EnvironmentProblem: AI-PROF-032, a file is large and polars is missing.
        NoBaseline: AI-BENCH-022, a baseline is damaged.
    """
    return [run for path in paths for run in _read(path, by_type)]


def _read(path: Path, by_type: bool) -> list[Measurements]:
    head = _head(path)
    if baseline.is_baseline(head):
        return baseline.read(path)
    if path.suffix == ".jsonl" or {"figures", "conditions"} <= head.keys():
        return _of_ledger(path)
    return [_of_profile(read_profile(path, named=not by_type), by_type)]


def _head(path: Path) -> dict[str, Any]:
    """The JSON object on the file's first line; empty when there is none."""
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.readline(_LONGEST_HEAD))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_profile(profile: Profile, by_type: bool) -> Measurements:
    series, where, without = _joined(profiles.samples_of(profile, by_type=by_type))
    told = [_BY_TYPE] if by_type and profile.tasks else []
    return Measurements(
        path=profile.path,
        series=series,
        where=where,
        conditions=conditions_of(profile, aggregation=_AGGREGATION, baseline=_BASELINE),
        notes=profile.notes,
        remarks=(*told, *_slow(profile), *without),
    )


def _slow(profile: Profile) -> Iterator[str]:
    """Launches whose times are not those of the chip's rated clock."""
    clocks = [
        (launch.info_figure("current_freq"), launch.info_figure("rated_freq"))
        for launch in profile.kernels
    ]
    slow = sum(number(now) < SLOW_CLOCK * number(rated) for now, rated in clocks if now)
    if slow:
        yield (
            f"{profile.path}: {slow:,} of {len(profile.kernels):,} launches ran below "
            f"{SLOW_CLOCK:.0%} of the rated clock: their times are too long"
        )


def _of_ledger(path: Path) -> list[Measurements]:
    """Entries of one name are repetitions, so the n-th of each name belong to the n-th run."""
    runs: dict[tuple[int, Conditions], list[Samples]] = defaultdict(list)
    seen: Counter[str] = Counter()
    notes = Notes()
    for item in ledger.read(path):
        if isinstance(item, ledger.Malformed):
            notes.add(_damaged(path, item))
        else:
            runs[seen[item.name], item.conditions] += ledgers.samples_of(item, str(path))
            seen[item.name] += 1
    if not runs:
        raise UsageError(
            "AI-BENCH-006",
            f"no entry can be read in the ledger {path}",
            rule="a ledger has a JSON object with figures and conditions on each line",
            fix="name the file that `bench op --ledger` appended to",
        )
    measured = [
        Measurements(
            path=str(path), series=series, where=where, conditions=conditions, remarks=without
        )
        for (_, conditions), samples in runs.items()
        for series, where, without in [_joined(samples)]
    ]
    return [replace(measured[0], notes=notes.all()), *measured[1:]]


def _joined(
    samples: Iterable[Samples],
) -> tuple[dict[Key, tuple[float, ...]], dict[Key, str], tuple[str, ...]]:
    """All values of each key, where the first of them stands, and a remark on what is left out.

    Ratios are of positive figures: a measured time of zero is one that the clock did not see.
    """
    values: dict[Key, list[float]] = defaultdict(list)
    where: dict[Key, str] = {}
    left_out = 0
    for one in samples:
        kept = [value for value in one.values if value > 0 or not one.key.has_noise]
        left_out += len(one.values) - len(kept)
        if kept:
            values[one.key] += kept
            where.setdefault(one.key, one.where)
    without = (f"{left_out:,} measured samples of zero or less are left out",) if left_out else ()
    return {key: tuple(found) for key, found in values.items()}, where, without


def _damaged(path: Path, line: ledger.Malformed) -> Note:
    return Note(
        code="AI-BENCH-023",
        what=f"a line of the ledger is no entry: {line.why}",
        where=SourceLocation(str(path), line.line),
        rule="a line holds name, when, finite figures, evidence and conditions; it is left out",
        fix="delete the line, or measure again",
        severity=Severity.DAMAGE,
    )
