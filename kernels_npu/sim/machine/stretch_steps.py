"""What a core tells the monitor between two points at which other cores may act.

A program is full of short sequences like flag, check, check, flag. A stretch is such a sequence
whose steps are all known before the kernel runs; `stretch_check` makes it in one go once it
repeats. The generated text of a program is merged here: the steps of a stretch move up to its first
one, past lines that neither tell the monitor anything nor branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels_npu.sim import ir

Event = tuple[str, str, int]  # source pipe, destination pipe, event id


@dataclass(frozen=True, slots=True)
class SiteStep:
    """An access whose ranges are all constants."""

    site: int


@dataclass(frozen=True, slots=True)
class IssueStep:
    """The count of executions of a site, which tells when a flag is set how much work it covers."""

    site: int


@dataclass(frozen=True, slots=True)
class FenceStep:
    """A set and wait back to back."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True)
class SetStep:
    """A `set_flag` of a constant event."""

    site: int
    event: Event


@dataclass(frozen=True, slots=True)
class WaitStep:
    """A `wait_flag` of a constant event."""

    site: int
    event: Event


@dataclass(frozen=True, slots=True)
class UsedEventsStep:
    """The operation at `site` uses `events` itself, so none of them may be set."""

    site: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class PipeBarrierStep:
    """A barrier of one pipe."""

    pipe: str


@dataclass(frozen=True, slots=True)
class BarrierStep:
    """A barrier over all pipes; `site` is -1 where the program does not ask for it."""

    site: int


Step = (
    SiteStep
    | IssueStep
    | FenceStep
    | SetStep
    | WaitStep
    | UsedEventsStep
    | PipeBarrierStep
    | BarrierStep
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a generated program.

    stmt: what it belongs to. step: what it tells the monitor, when that is known. inert: it tells
    the monitor nothing, and the line after it comes next.
    """

    text: str
    stmt: ir.Stmt
    step: Step | None = None
    inert: bool = False

    @property
    def depth(self) -> int:
        """Blanks before the text."""
        return len(self.text) - len(self.text.lstrip())


#: Longer sequences are cut: what a stretch costs to analyse grows with the square of its length.
LONGEST_STRETCH = 48


def merge_steps(lines: Sequence[Line]) -> tuple[list[Line], list[tuple[Step, ...]]]:
    """The lines with every stretch as a call `g<number>()`, and the stretches.

    A single access, which is cheap to check, stays what it is.
    """
    merged: list[Line] = []
    stretches: list[tuple[Step, ...]] = []
    position = 0
    while position < len(lines):
        end = _end_of_stretch(lines, position)
        steps = [line.step for line in lines[position:end] if line.step is not None]
        if not steps or (len(steps) == 1 and isinstance(steps[0], SiteStep)):
            merged += lines[position : max(end, position + 1)]
        else:
            first = lines[position]
            blanks = " " * first.depth
            merged.append(Line(f"{blanks}g{len(stretches)}()", first.stmt))
            merged += (line for line in lines[position:end] if line.step is None)
            stretches.append(tuple(steps))
        position = max(end, position + 1)
    return merged, stretches


def _end_of_stretch(lines: Sequence[Line], start: int) -> int:
    """The end of the lines from `start` on that one stretch covers; `start` if it begins none."""
    if lines[start].step is None or isinstance(lines[start].step, IssueStep):
        return start
    depth, steps, end = lines[start].depth, 0, start
    for position in range(start, len(lines)):
        line = lines[position]
        if line.depth != depth or not (line.inert or line.step is not None):
            break
        if line.step is not None and not isinstance(line.step, IssueStep):
            steps += 1
            end = position + 1
            if steps == LONGEST_STRETCH:
                break
    return end
