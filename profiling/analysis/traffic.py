"""Bytes between a kernel's cores and global memory, by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profiling.analysis.figures import number
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind

#: `gm_to_ub_datas_kb`, `l1_to_gm_datas_kb_estimate`: a path with one end in global memory.
_PATH = re.compile(r"^(gm_to_[a-z0-9]+|[a-z0-9]+_to_gm)_datas_kb(_estimate)?$")
_READ, _WRITTEN = "read_main_memory_datas_kb", "write_main_memory_datas_kb"
_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a launch moved, over all its cores.

    Args:
        read, written: bytes from and to global memory.
        paths: bytes by path, such as `gm_to_ub`; those of a device do not hold everything that was
            read (instructions, scalar loads).
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

    Memory's columns of main memory are used where they have numbers, else the sums of its paths.
    """
    table = kernel.tables.get(FileKind.MEMORY)
    if table is None:
        return None
    paths = {}
    columns: dict[str, list[Figure]] = {}
    for key in table.by_key:
        path = _PATH.match(key)
        if path is None and key not in (_READ, _WRITTEN):
            continue
        figures = [figure for _, figure in kernel.figures(FileKind.MEMORY, key)]
        if figures:
            columns[key] = figures
            if path is not None:
                paths[path[1]] = _bytes(figures)
    main = [key for key in (_READ, _WRITTEN) if key in columns]
    used = main or [key for key in columns if _PATH.match(key)]
    if not used:
        return None
    read = sum(_bytes(columns[key]) for key in used if key == _READ or key.startswith("gm_to_"))
    total = sum(_bytes(columns[key]) for key in used)
    refs = tuple(max(columns[key], key=number) for key in used if any(map(number, columns[key])))
    first = columns[used[0]][0]
    return Traffic(
        read=read,
        written=total - read,
        paths=paths,
        refs=refs,
        whole=Figure(
            key="gm_bytes", value=total, unit="B", evidence=first.evidence, where=first.where
        ),
    )


def _bytes(figures: Iterable[Figure]) -> float:
    return sum(map(number, figures)) * _KIB
