"""One side of a comparison: what several runs say about each kernel, and what repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from profiling.comparison.measurement import Kernel, Key, Measurements


@dataclass(frozen=True, kw_only=True)
class Side:
    """The samples of each key, run by run.

    Args:
        runs: for each key the samples of the runs that have it.
        where: file and line of the first sample of each key.
    """

    runs: Mapping[Key, tuple[tuple[float, ...], ...]]
    where: Mapping[Key, str]


def sides_of(before: Sequence[Measurements], after: Sequence[Measurements]) -> tuple[Side, Side]:
    """Both sides under the same keys.

    The files of `msprof op` do not name shapes. Where one run launches a kernel with several
    numbers of blocks, these stand for shapes; elsewhere they are a choice that may be compared.
    """
    split = _launched_differently(before) | _launched_differently(after)
    return _side(before, split), _side(after, split)


def _launched_differently(runs: Iterable[Measurements]) -> set[Kernel]:
    found = set()
    for run in runs:
        blocks: dict[Kernel, set[str]] = defaultdict(set)
        for key in run.series:
            blocks[key.kernel.without_blocks()].add(key.kernel.blocks)
        found |= {kernel for kernel, numbers in blocks.items() if len(numbers) > 1}
    return found


def _side(measured: Sequence[Measurements], split: set[Kernel]) -> Side:
    runs: dict[Key, list[tuple[float, ...]]] = defaultdict(list)
    where: dict[Key, str] = {}
    for run in measured:
        for key, samples in run.series.items():
            kernel = key.kernel.without_blocks()
            ours = key if kernel in split else replace(key, kernel=kernel)
            runs[ours].append(samples)
            where.setdefault(ours, run.where.get(key, ""))
    return Side(runs={key: tuple(samples) for key, samples in runs.items()}, where=where)
