"""What is to be collected, and whether the profiler would refuse it: found before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling.collect.application import check_application
from profiling.collect.families import Family, family_of
from profiling.collect.folder import check_length
from profiling.collect.options import Condition, Mode, Needs, Option
from profiling.collect.values import Names


@dataclass(frozen=True, kw_only=True)
class Request:
    """One collection.

    Args:
        mode: how.
        values: option -> value, as they would be written.
        application: the program and its arguments; empty where an option stands in for it.
        output: folder in which each collection gets one of its own.
        soc: name of the device's chip; empty when it is not known.
    """

    mode: Mode
    values: Mapping[str, str] = field(default_factory=dict)
    application: tuple[str, ...] = ()
    output: Path = Path("msprof")
    soc: str = ""

    @property
    def given(self) -> dict[str, str]:
        """All options with their values, ours included, in the order of the table."""
        known = {o.name: self.values.get(o.name, o.given or None) for o in self.mode.options}
        return {name: v for name, v in {**known, **self.values}.items() if v is not None}

    @property
    def chip(self) -> str:
        """The chip that kernels run on, or are simulated for; empty when it is not known."""
        return self.soc or self.values.get("soc-version", "")

    def holds(self, condition: Condition) -> bool:
        """Whether a condition about options is met."""
        value = self.given.get(condition.option)
        if value is None or not condition.value:
            return value is not None
        return condition.value in self.mode.by_name[condition.option].value.parts(value)


def check(request: Request) -> list[str]:
    """Refuse what the profiler would refuse. Returns what cannot be told without the chip.

    Raises:
        UsageError: AI-DEV-010 an unknown chip, AI-PROF-034 a value, 035 an option of another mode,
            036 another chip, 037 options that contradict each other or lack another, 039 not
            exactly one thing to profile.
    """
    options = request.mode.by_name
    for name, value in request.given.items():
        if name not in options:
            raise _other_mode(request.mode, name)
        _check_value(request.mode, options[name], value)
    _check_rules(request)
    check_application(request.mode, request.given, request.application)
    check_length(request.output)
    return list(_check_chip(request))


def _check_value(mode: Mode, option: Option, value: str) -> None:
    if option.refused:
        raise UsageError(
            "AI-PROF-035",
            f"{option.flag}={value} is not passed on to {mode.name}",
            rule=option.refused,
            fix=option.instead,
        )
    fault = option.value.fault(value)
    if fault:
        raise UsageError(
            "AI-PROF-034",
            f"{option.flag}={value}: {fault}",
            rule=f"{option.flag} takes {option.value.rule}",
            fix=f"correct {option.flag}, or leave it out",
        )


def _check_rules(request: Request) -> None:
    for rule in request.mode.rules:
        if not request.holds(rule.given):
            continue
        if isinstance(rule, Needs) and not request.holds(rule.other):
            there = request.given.get(rule.other.option)
            raise UsageError(
                "AI-PROF-037",
                f"{rule.given} without {rule.other}"
                + (f", but with --{rule.other.option}={there}" if there else ""),
                rule=f"{rule.given} needs {rule.other}",
                fix=f"add {rule.other}, or leave --{rule.given.option} out",
            )
        if not isinstance(rule, Needs) and request.holds(rule.other):
            raise UsageError(
                "AI-PROF-037",
                f"{rule.given} together with {rule.other}",
                rule="the tool takes one or the other",
                fix=f"leave {rule.other} out",
            )


def _check_chip(request: Request) -> Iterator[str]:
    """What only some chips have: an error when the chip is another, else what stays open."""
    family = _family(request)
    for what, chips in _of_some_chips(request):
        families = ", ".join(sorted(map(str, chips)))
        if family is None:
            yield f"{what} is for {families} only; the chip is not known here"
        elif family not in chips:
            raise UsageError(
                "AI-PROF-036",
                f"{what} on {request.chip}",
                rule=f"{what} is for {families} only",
                fix=f"leave {what} out, or collect on a chip that has it",
            )


def _family(request: Request) -> Family | None:
    try:
        return family_of(request.chip) if request.chip else None
    except UsageError:
        if request.soc:
            raise
        return None  # a simulator may be newer than the table


def _of_some_chips(request: Request) -> Iterator[tuple[str, frozenset[Family]]]:
    every = frozenset(Family)
    for name, value in request.given.items():
        option = request.mode.by_name[name]
        if option.chips != every:
            yield option.flag, option.chips
        if isinstance(option.value, Names):
            for part in option.value.parts(value):
                if option.value.chips[part] != every:
                    yield f"{option.flag}={part}", option.value.chips[part]


def _other_mode(mode: Mode, name: str) -> UsageError:
    return UsageError(
        "AI-PROF-035",
        f"--{name} is no option of {' '.join(mode.tools[0])}",
        rule=f"its options are {', '.join(option.flag for option in mode.options)}",
        fix=f"leave --{name} out, or profile in another mode",
    )
