"""What every estimate says of itself: evidence, formula and assumptions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascend_infer.cli import output
from kernels_npu.evidence import Evidence

#: How a person reads the level.
NOTE = "modelled: formulas with named figures, not a measurement"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An estimate. result: its JSON; show: prints its tables; notes: on the model, below them;
    passed: whether what was asked about fits, which is the exit code.
    """

    result: Mapping[str, Any]
    show: Callable[[], None]
    notes: Sequence[str] = ()
    passed: bool = True


def give(
    arguments: argparse.Namespace, answer: Answer, *, formula: str, assumptions: Sequence[str] = ()
) -> int:
    """Print an estimate as it is asked for; returns the exit code."""
    if arguments.json:
        grounds = {"formula": formula, "assumptions": list(assumptions)}
        output.print_json({"evidence": str(Evidence.MODELLED), **grounds, **answer.result})
        return 0 if answer.passed else 1
    answer.show()
    print(f"formula: {formula}")
    for text in assumptions:
        print(f"assumption: {text}")
    for text in answer.notes:
        print(f"note: {text}")
    return 0 if answer.passed else 1


def parameters(count: float) -> str:
    """A count of parameters in millions or billions, by four digits or two decimals."""
    return f"{count / 1e9:,.3f} B" if count >= 1e9 else f"{count / 1e6:,.2f} M"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1e-3 else f"{seconds * 1e3:,.2f}"


def gib(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB"


def kib(size: float) -> str:
    return f"{size / 2**10:,.1f} KiB"


def gigabytes(size: float) -> str:
    """Powers of ten, as bandwidths are."""
    if not size:
        return "-"
    return f"{size / 1e9:,.3f} GB" if size >= 1e8 else f"{size / 1e6:,.3f} MB"
