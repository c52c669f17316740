"""What every estimate says of itself: evidence, formula and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernels_npu.evidence import Evidence

#: How a person reads the level.
NOTE = "modelled: formulas with named figures, not a measurement"


def as_json(
    result: Mapping[str, Any], *, formula: str, assumptions: Iterable[str] = ()
) -> dict[str, Any]:
    """The JSON object of an estimate."""
    return {
        "evidence": str(Evidence.MODELLED),
        "formula": formula,
        "assumptions": list(assumptions),
        **result,
    }


def print_grounds(formula: str, assumptions: Iterable[str] = (), notes: Iterable[str] = ()) -> None:
    """Formula, assumptions and notes below the tables."""
    print(f"formula: {formula}")
    for text in assumptions:
        print(f"assumption: {text}")
    for text in notes:
        print(f"note: {text}")


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
