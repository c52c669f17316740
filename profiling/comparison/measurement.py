"""What is compared: samples of one figure of one kernel, all of one evidence level."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernels_npu.evidence import Evidence
from profiling.conditions import Conditions
from profiling.provenance import WITHOUT_NOISE
from profiling.records.note import Note


class Better(str, enum.Enum):
    """Which direction of a figure is wanted."""

    LESS = "less"
    MORE = "more"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a figure measures: its name, its unit, and whether less of it is better."""

    name: str
    unit: str
    better: Better = Better.LESS

    @property
    def is_time(self) -> bool:
        """Whether less of it is called faster."""
        return self.unit in ("ns", "us", "ms", "s")

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, kw_only=True, order=True)
class Kernel:
    """What is matched: name, shapes and dtypes, as the file spells them.

    blocks: of the launch; part of the identity only where one source launches the kernel with
    several, see `profiling.comparison.sides`.
    """

    name: str
    shape: str = ""
    dtype: str = ""
    blocks: str = ""

    def __str__(self) -> str:
        blocks = f"{self.blocks} blocks" if self.blocks else ""
        return " ".join(filter(None, (self.name, self.shape, self.dtype, blocks)))

    def without_blocks(self) -> Kernel:
        """The same kernel, however it was launched."""
        return replace(self, blocks="")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What two samples must share to be compared."""

    kernel: Kernel
    metric: Metric
    evidence: Evidence

    @property
    def has_noise(self) -> bool:
        """Whether repetitions differ although nothing was changed."""
        return self.evidence not in WITHOUT_NOISE


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Everything that one profile, ledger or baseline says.

    Args:
        path: as it was named.
        series: the samples under each key, in the order in which they were taken.
        where: file and line of the first sample of each key.
        conditions: as far as they are known.
        notes: what was wrong with the files.
        remarks: what a reader has to know about how the samples came together.
    """

    path: str
    series: Mapping[Key, tuple[float, ...]]
    where: Mapping[Key, str] = field(default_factory=dict)
    conditions: Conditions
    notes: tuple[Note, ...] = ()
    remarks: tuple[str, ...] = ()
