"""Whether a use of a name agrees with what a package defines; traps that must stay known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contract_suite.calls import Use
from contract_suite.surface import Definition

Find = Callable[[str], Definition | None]

OK, NATIVE, ABSENT = "ok", "native", "absent"
MISSING, MISMATCH = "missing", "mismatch"
BROKEN = frozenset({MISSING, MISMATCH})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one use.

    verdict: `ok`; `native`: the name exists, its parameters are not known; `absent`: missing, and
    the code asks first; `missing` and `mismatch` break the contract.
    """

    use: Use
    verdict: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A parameter that stands where another API, or intuition, has a different one."""

    name: str
    position: int
    parameter: str
    why: str


TRAPS = (
    Trap(
        name="torch.npu.graph",
        position=3,
        parameter="auto_dispatch_capture",
        why="torch.cuda.graph has capture_error_mode there: everything after the graph by keyword",
    ),
    Trap(
        name="torch.npu.graph",
        position=0,
        parameter="npu_graph",
        why="torch.cuda.graph calls it cuda_graph: the graph is passed by position",
    ),
)


def check_all(uses: Sequence[Use], find: Find) -> list[Verdict]:
    """One verdict per use."""
    asked = {use.name for use in uses if use.optional}
    return [check(use, find, optional=use.name in asked) for use in uses]


def check(use: Use, find: Find, *, optional: bool = False) -> Verdict:
    """Existence first, then whether the arguments can be bound. Values are never looked at."""
    definition = find(use.name)
    if definition is None:
        detail = "no such name"
        return Verdict(use=use, verdict=ABSENT if optional else MISSING, detail=detail)
    if definition.kind in ("native", "external") or (use.call and definition.signature is None):
        return Verdict(use=use, verdict=NATIVE, detail=f"a {definition.kind}: exists, not bound")
    if use.call and definition.signature is not None:
        arguments = [None] * use.positional
        keywords = dict.fromkeys(use.keywords)
        bind = definition.signature.bind_partial if use.open else definition.signature.bind
        try:
            bind(*arguments, **keywords)
        except TypeError as error:
            detail = f"{error}; it is {use.name}{definition.signature}"
            return Verdict(use=use, verdict=MISMATCH, detail=detail)
        for trap in TRAPS:
            if trap.name == use.name and trap.position and use.positional > trap.position:
                return Verdict(use=use, verdict=MISMATCH, detail=f"by position: {trap.why}")
    return Verdict(use=use, verdict=OK)


def check_traps(find: Find) -> list[str]:
    """Traps that are no longer as our code assumes."""
    problems = []
    for trap in TRAPS:
        definition = find(trap.name)
        names = list(definition.signature.parameters) if definition and definition.signature else []
        if names[trap.position : trap.position + 1] != [trap.parameter]:
            place = f"position {trap.position + 1} of {trap.name}"
            problems.append(f"{place} is not {trap.parameter}: {', '.join(names) or 'unknown'}")
    return problems
