"""Files written for another dialect: a finding for each construct, with its translation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernels_npu.dialect import guard
from kernels_npu.errors import SourceLocation
from kernels_npu.sim.machine.findings import ERROR, Finding


def foreign_constructs(file: Path, verdict: guard.Verdict) -> Iterator[Finding]:
    """The findings of a file that `verdict` refuses."""
    for construct in verdict.foreign:
        yield Finding(
            code=guard.CODE,
            severity=ERROR,
            message=f"{construct.text} in a file that is written for {verdict.label}",
            kernel=file.name,
            loc=SourceLocation(str(file.resolve()), construct.line),
            rule=guard.RULE,
            fix=f"write {construct.adapter}",
        )
