"""Where to stop: `FILE:LINE`, optionally in one block and on one core only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernels_npu.errors import SourceLocation, UsageError

CORES = ("aic", "aiv0", "aiv1")
_TEXT = re.compile(r"(?P<file>.+):(?P<line>\d+)(?P<conditions>(,[a-z]+=[a-z0-9]+)*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """A line of a kernel or macro at which a launch stops.

    file: the path as given; a name without folders matches a file of that name anywhere.
    block, core: stop only there; None is everywhere. core: `aic`, `aiv0` or `aiv1`.
    """

    file: str
    line: int
    block: int | None = None
    core: str | None = None

    @classmethod
    def parse(cls, text: str) -> Breakpoint:
        """The breakpoint that `FILE:LINE[,block=N][,core=aic|aiv0|aiv1]` means.

        Raises:
            UsageError: AI-CLI-001.
        """
        match = _TEXT.fullmatch(text)
        conditions = {}
        if match is not None:
            parts = filter(None, match["conditions"].lower().split(","))
            conditions = dict(part.split("=") for part in parts)
        block, core = conditions.pop("block", None), conditions.pop("core", None)
        known = not conditions and (core is None or core in CORES)
        if match is None or not known or not (block is None or block.isdigit()):
            raise UsageError(
                "AI-CLI-001",
                f"{text!r} is not a breakpoint",
                rule=f"a breakpoint is FILE:LINE[,block=N][,core={'|'.join(CORES)}]",
                fix="for example kernel.py:42,block=3,core=aiv0",
            )
        return cls(
            file=match["file"],
            line=int(match["line"]),
            block=None if block is None else int(block),
            core=core,
        )

    def matches_file(self, file: str) -> bool:
        """Whether `file`, as Python reported it, is the file meant."""
        meant, given = Path(self.file), Path(file)
        if meant == given or given.parts[-len(meant.parts) :] == meant.parts:
            return True
        return meant.exists() and meant.resolve() == given.resolve()

    def matches(self, loc: SourceLocation) -> bool:
        """Whether a statement at `loc` stands on the line meant."""
        return loc.line == self.line and self.matches_file(loc.file)

    def holds(self, block: int, core: str) -> bool:
        """Whether the block and core are the ones meant."""
        return self.block in (None, block) and self.core in (None, core)

    def __str__(self) -> str:
        conditions = [f",block={self.block}"] if self.block is not None else []
        conditions += [f",core={self.core}"] if self.core is not None else []
        return f"{self.file}:{self.line}{''.join(conditions)}"
