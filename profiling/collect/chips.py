"""Families of chips, as the profiler tells them apart."""

from __future__ import annotations

import enum
import re

from kernels_npu.errors import UsageError


class Chip(str, enum.Enum):
    """A family, by the name that msopprof's argument checks use."""

    A2 = "910B"
    A3 = "910_93"
    P310 = "310P"
    A5 = "950"

    def __str__(self) -> str:
        return self.value


ALL = frozenset(Chip)
#: Cube and vector cores apart: everything but 310P.
SPLIT = frozenset({Chip.A2, Chip.A3, Chip.A5})
A2_A3 = frozenset({Chip.A2, Chip.A3})
A5 = frozenset({Chip.A5})

#: SoC versions: `Ascend910B4-1`, `Ascend910_9391`, `Ascend310P3`, `Ascend950PR_9599`.
_SOC_VERSIONS = (
    (Chip.A2, re.compile(r"(Ascend)?910B\d\w*(-\d+)?")),
    (Chip.A3, re.compile(r"(Ascend)?910_93\w*")),
    (Chip.P310, re.compile(r"(Ascend)?310P\w*")),
    (Chip.A5, re.compile(r"(Ascend)?950\w*")),
)


def chip_of(soc_version: str) -> Chip:
    """The family of a SoC version, with or without `Ascend`.

    Raises:
        UsageError: AI-PROF-036 for a chip that msopprof does not know.
    """
    for chip, pattern in _SOC_VERSIONS:
        if pattern.fullmatch(soc_version):
            return chip
    raise UsageError(
        "AI-PROF-036",
        f"the SoC version {soc_version!r} is of no family that msprof op profiles",
        rule=f"the families are {', '.join(map(str, Chip))}",
        fix="write it as `npu-smi info` or $ASCEND_HOME_PATH/tools/simulator does: Ascend910B1",
    )
