"""Families of chips, as the profiler's argument checks tell them apart."""

from __future__ import annotations

import enum

from kernels_npu.errors import UsageError


class Family(str, enum.Enum):
    """A family, by the name that msopprof has for it."""

    A2 = "910B"
    A3 = "910_93"
    P310 = "310P"
    A5 = "950"

    def __str__(self) -> str:
        return self.value


ALL = frozenset(Family)
#: Cube and vector cores apart: everything but 310P.
SPLIT = frozenset({Family.A2, Family.A3, Family.A5})
A2_A3 = frozenset({Family.A2, Family.A3})
A5 = frozenset({Family.A5})

#: Family in the table of devices -> here.
_OF_DEVICES = {
    "Atlas A2": Family.A2,
    "Atlas A3": Family.A3,
    "Ascend 310P": Family.P310,
    "Ascend 950PR": Family.A5,
    "Ascend 950DT": Family.A5,
}


def family_of(chip: str) -> Family:
    """The family of a chip, by any name that the table of devices knows it by.

    Raises:
        UsageError: AI-DEV-010 for an unknown chip, AI-PROF-036 for one of another family.
    """
    from profiling.devices import get_chip

    found = get_chip(chip)
    if found.family not in _OF_DEVICES:
        raise UsageError(
            "AI-PROF-036",
            f"{found.name} is of the family {found.family}",
            rule=f"msprof op knows options of the families {', '.join(map(str, Family))}",
            fix="name the chip on which the program runs, such as Ascend910B1",
        )
    return _OF_DEVICES[found.family]
