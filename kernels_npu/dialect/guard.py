"""Files written for another dialect: refused, with a translation of each construct."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels_npu.dialect.installation import ADAPTER, MAINLINE, MAINLINE_ASCEND, NPUIR
from kernels_npu.dialect.recognition import Construct, constructs
from kernels_npu.dialect.translations import LABELS
from kernels_npu.errors import KernelSourceError, SourceLocation

CODE = "AI-SRC-022"
RULE = (
    "this toolkit executes tilelang-ascend's adapter dialect; "
    "mainline TileLang and npuir share its import name and are other languages"
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a file is written for.

    Attributes:
        dialect: the dialect whose constructs prevail among those that the adapter lacks; the
            adapter when there are none.
        foreign: the constructs that the adapter dialect lacks.
        refused: whether the file is the other dialect's altogether. A file that also has what only
            the adapter has, such as one with kernels for both, is not: each kernel of it is
            checked when it is used.
    """

    dialect: str
    foreign: tuple[Construct, ...] = ()
    refused: bool = False

    @property
    def label(self) -> str:
        """The dialect, for messages."""
        return LABELS[self.dialect]


class ForeignDialect(KernelSourceError):
    """A file is written for another dialect (AI-SRC-022)."""

    def __init__(self, file: str, verdict: Verdict) -> None:
        self.verdict = verdict
        first = verdict.foreign[0]
        super().__init__(
            CODE,
            f"{file} is written for {verdict.label}: "
            f"{len(verdict.foreign)} uses of what the adapter dialect does not have",
            where=SourceLocation(file, first.line),
            rule=RULE,
            fix="write it in the adapter dialect:\n" + "\n".join(translation(verdict)),
        )

    def to_dict(self) -> dict[str, Any]:
        """The error, and each construct with its line and translation."""
        return {
            **super().to_dict(),
            "dialect": self.verdict.dialect,
            "constructs": [
                {"line": c.line, "text": c.text, "adapter": c.adapter} for c in self.verdict.foreign
            ],
        }


def judge(source: str | bytes) -> Verdict:
    """Which dialect the text of a file is written for."""
    found = constructs(source)
    foreign = tuple(c for c in found if ADAPTER not in c.dialects)
    if not foreign:
        return Verdict(dialect=ADAPTER)
    votes = Counter(dialect for c in found for dialect in c.dialects)
    # What these have of their own decides; most of what they have is in mainline, too.
    special = [
        name for name in (MAINLINE_ASCEND, NPUIR) if any(c.dialects == (name,) for c in found)
    ]
    dialect = max([*special, MAINLINE], key=lambda name: votes[name])
    own = any(ADAPTER in c.dialects and dialect not in c.dialects for c in found)
    return Verdict(dialect=dialect, foreign=foreign, refused=not own)


def judge_file(path: str | Path) -> Verdict:
    """`judge` for a file; of one that cannot be read nothing is known."""
    try:
        return judge(Path(path).read_bytes())
    except OSError:
        return Verdict(dialect=ADAPTER)


def require_adapter(path: str | Path) -> None:
    """Refuse a file that is written for another dialect.

    Raises:
        ForeignDialect: AI-SRC-022, with a translation of each construct.
    """
    verdict = judge_file(path)
    if verdict.refused:
        raise ForeignDialect(str(path), verdict)


def translation(verdict: Verdict) -> list[str]:
    """One line per construct: where it stands and what to write instead."""
    lines: dict[tuple[str, str], list[int]] = {}
    for construct in verdict.foreign:
        lines.setdefault((construct.text, construct.adapter), []).append(construct.line)
    return [
        f"    {text} (line{'s' if len(at) > 1 else ''} {_numbers(at)}): {adapter}"
        for (text, adapter), at in lines.items()
    ]


def _numbers(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:8]))
    return f"{shown} and {len(lines) - 8} more" if len(lines) > 8 else shown
