"""What is known about an option of a profiler, and about options together: data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels_npu.evidence import Evidence
from profiling.collect.families import ALL, Family
from profiling.collect.values import Value


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of one mode.

    Args:
        name: without dashes.
        value: what it takes.
        meaning: for `--help`; begins in lower case and ends without a full stop.
        default: what the tool does without it.
        given: what we give it where the caller does not.
        chips: that have it.
        since: version of msOpProf that brought it; empty where the source names none.
        refused: why it is not passed on; empty when it is.
        instead: what to write in place of one that is not.
    """

    name: str
    value: Value
    meaning: str
    default: str = ""
    given: str = ""
    chips: frozenset[Family] = ALL
    since: str = ""
    refused: str = ""
    instead: str = ""

    @property
    def flag(self) -> str:
        """As it is written."""
        return f"--{self.name}"

    @property
    def chips_in_words(self) -> str:
        """The families that have it; empty where all have."""
        return "" if self.chips == ALL else ", ".join(sorted(map(str, self.chips)))


@dataclass(frozen=True, kw_only=True)
class Condition:
    """An option is given; with `value`, that value is among its parts."""

    option: str
    value: str = ""

    def __str__(self) -> str:
        return f"--{self.option}" + (f"={self.value}" if self.value else "")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """`given` has an effect only together with `other`."""

    given: Condition
    other: Condition


@dataclass(frozen=True, kw_only=True)
class Excludes:
    """`given` and `other` cannot be together."""

    given: Condition
    other: Condition


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way to collect.

    Args:
        name: as in `ascend-infer profile NAME`.
        tools: commands that serve it; the first that is installed is taken.
        options: all that the tool has, `--output` and the application excepted.
        rules: about options together.
        fixed: arguments that are always given.
        inputs: options that stand in for an application.
        application: the option that takes the application as one text; empty where it stands
            at the end of the line.
        evidence: of what it collects.
        counts: what is counted to tell whether anything was collected.
    """

    name: str
    tools: tuple[tuple[str, ...], ...]
    options: tuple[Option, ...]
    rules: tuple[Needs | Excludes, ...] = ()
    fixed: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    application: str = ""
    evidence: Evidence = Evidence.NPU_MEASURED
    counts: str = "launches"

    @property
    def by_name(self) -> Mapping[str, Option]:
        """The options under their names."""
        return {option.name: option for option in self.options}
