"""What the simulated NPU found, for people: wrapped on a terminal, one line per fact when piped."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels_npu.sim.machine import Finding

_SEVERITIES = ("error", "warning", "hint")


def print_findings(findings: Sequence[Finding]) -> None:
    """Every finding, the worst first, and how many there are of each severity."""
    width = terminal_width()
    for finding in sorted(findings, key=lambda f: _SEVERITIES.index(f.severity)):
        _print(finding.title, "", width)
        for line in finding.body:
            _print(line, "  ", width)
    if findings:
        print(summary(findings))


def terminal_width() -> int:
    """Columns of the terminal that standard output is; 0 when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def summary(findings: Sequence[Finding]) -> str:
    """For example `2 errors, 1 warning (4,053 occurrences)`."""
    counts = [(s, sum(f.severity == s for f in findings)) for s in _SEVERITIES]
    told = ", ".join(f"{n} {s}{'s' if n > 1 else ''}" for s, n in counts if n)
    occurrences = sum(f.count for f in findings)
    return told + (f" ({occurrences:,} occurrences)" if occurrences > len(findings) else "")


def _print(line: str, indent: str, width: int) -> None:
    """Numbers and paths are never broken: a word longer than the line runs on."""
    if not width:
        print(indent + line)
        return
    print(
        textwrap.fill(
            line,
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
