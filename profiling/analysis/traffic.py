"""Bytes between a kernel's cores and global memory, by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from profiling.analysis.figures import number
from profiling.analysis.pipes import CORES
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind

#: `gm_to_ub_datas_kb`, `l1_to_gm_datas_kb_estimate`: a path with one end in global memory.
_PATH = re.compile(r"^(gm_to_[a-z0-9]+|[a-z0-9]+_to_gm)_datas_kb(_estimate)?$")
_READ, _WRITTEN = "read_main_memory_datas_kb", "write_main_memory_datas_kb"
_KIB = 1024
#: Bytes of one GB/s of the profiler in one microsecond.
_PER_US = 2**30 * 1e-6


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a launch moved, over all its cores.

    Args:
        read, written: bytes from and to global memory.
        paths: bytes by path, such as `gm_to_ub`; those of a device do not hold everything that was
            read (instructions, scalar loads). Empty where the file has bandwidths only.
        refs: of each column behind `read` and `written`, the figure of the core with the most.
        whole: read and written together, as a figure that sentences can cite.
    """

    read: float
    written: float
    paths: Mapping[str, float]
    refs: tuple[Figure, ...]
    whole: Figure

    @property
    def total(self) -> float:
        """Read and written together."""
        return self.read + self.written


def traffic_of(kernel: OpProfile) -> Traffic | None:
    """The traffic of a launch; None when no file has it.

    Memory's columns of main memory are used where they have numbers, else the sums of its paths,
    else bandwidths times the time that msopprof divided by: the task's of a mix kernel, else the
    core's.
    """
    columns = dict(_volumes(kernel))
    main = [key for key in (_READ, _WRITTEN) if key in columns]
    paths = {match[1]: key for key in columns if (match := _PATH.match(key))}
    used = {key: columns[key] for key in main or paths.values()}
    read = [key for key in used if key == _READ or key.startswith("gm_to_")]
    if not used:
        used = dict(_by_bandwidth(kernel))
        read = [key for key in used if "read" in key]
    if not used:
        return None
    return _traffic(used, read, {path: _bytes(columns[key]) for path, key in paths.items()})


#: What one core moved, in KiB, and the figure that says so.
_Moved = tuple[float, Figure]


def _traffic(
    columns: Mapping[str, list[_Moved]], read: Iterable[str], paths: Mapping[str, float]
) -> Traffic:
    total = sum(map(_bytes, columns.values()))
    taken = sum(_bytes(columns[key]) for key in read)
    largest = [max(moved, key=lambda one: one[0]) for moved in columns.values()]
    first = next(iter(columns.values()))[0][1]
    return Traffic(
        read=taken,
        written=total - taken,
        paths=paths,
        refs=tuple(figure for kib, figure in largest if kib),
        whole=Figure(
            key="gm_bytes", value=total, unit="B", evidence=first.evidence, where=first.where
        ),
    )


def _volumes(kernel: OpProfile) -> Iterator[tuple[str, list[_Moved]]]:
    """Columns of KiB that have numbers."""
    table = kernel.tables.get(FileKind.MEMORY)
    for key in () if table is None else table.by_key:
        if _PATH.match(key) or key in (_READ, _WRITTEN):
            moved = [(number(f), f) for _, f in kernel.figures(FileKind.MEMORY, key)]
            if moved:
                yield key, moved


def _by_bandwidth(kernel: OpProfile) -> Iterator[tuple[str, list[_Moved]]]:
    """Columns of main memory's bandwidth, as the KiB that they stand for."""
    mix = kernel.info is not None and kernel.info.is_mix
    task = kernel.info_figure("task_duration_us") if mix else None
    for side in CORES:
        for what in ("read", "write"):
            key = f"{side}_main_mem_{what}_bw_gbps"
            moved = [
                (number(figure) * (row.number(f"{side}_time_us") or 0.0), figure)
                if task is None
                else (number(figure) * number(task), figure)
                for row, figure in kernel.figures(FileKind.MEMORY, key)
            ]
            if any(amount for amount, _ in moved):
                yield key, [(amount * _PER_US / _KIB, figure) for amount, figure in moved]


def _bytes(moved: Iterable[_Moved]) -> float:
    return sum(kib for kib, _ in moved) * _KIB
