"""Whether a use of a name agrees with what a package defines; traps that must stay known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from contract_suite.surface import Definition
from contract_suite.uses import Use, root_of

Find = Callable[[str], Definition | None]

OK, NATIVE, PRIVATE, ABSENT = "ok", "native", "private", "absent"
MISSING, MISMATCH, UNEXPORTED = "missing", "mismatch", "unexported"
BROKEN = frozenset({MISSING, MISMATCH, UNEXPORTED})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one use.

    verdict: `ok`; `native`: the name exists, its parameters are not known; `private`: it fits, but
    no release promises it; `absent`: missing, and the code asks first. `missing`, `mismatch` and
    `unexported` break the contract.
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


def check_all(uses: Sequence[Use], find: Find, reference: Find | None = None) -> list[Verdict]:
    """One verdict per use.

    reference: another release, whose defaults are those that our calls were written for.
    """
    asked = {use.name for use in uses if use.optional}
    return [check(use, find, reference, optional=use.name in asked) for use in uses]


def check(
    use: Use, find: Find, reference: Find | None = None, *, optional: bool = False
) -> Verdict:
    """Existence first, then whether the arguments can be bound, then what is left to defaults."""
    found = find(use.name)
    if found is None:
        return Verdict(use=use, verdict=ABSENT if optional else MISSING, detail="no such name")
    private = any(part.startswith("_") for part in use.name.split("."))
    # Every operator is an attribute of torch_npu; its list of public ones leaves many out.
    private |= found.kind == "operator" and found.exported is False
    if found.exported is False and not private:
        detail = f"__all__ of its module does not have it; it is defined in {found.where}"
        return Verdict(use=use, verdict=UNEXPORTED, detail=detail)
    if found.kind in ("native", "external") or (use.call and not found.signatures):
        return Verdict(use=use, verdict=NATIVE, detail=f"a {found.kind}: exists, not bound")
    if use.call:
        problems = [_call_problem(use, signature) for signature in found.signatures]
        if all(problems):
            return Verdict(use=use, verdict=MISMATCH, detail=problems[0] or "")
        known = reference(use.name) if reference else None
        changed = _changed_default(use, found, known) if known else None
        if changed:
            return Verdict(use=use, verdict=MISMATCH, detail=changed)
    return Verdict(use=use, verdict=PRIVATE if private else OK)


def _call_problem(use: Use, signature: inspect.Signature) -> str | None:
    """Why the call does not fit one signature; None when it does."""
    described = f"it is {use.name}{signature_text(signature)}"
    try:
        _bind(use, signature)
    except TypeError as error:
        return f"{error}; {described}"
    for trap in TRAPS:
        if trap.name == use.name and trap.position and use.positional > trap.position:
            return f"by position: {trap.why}"
    if root_of(use.name) == "tilelang":
        return None  # what a kernel's own parameters default to is its author's choice
    parameters = list(signature.parameters.values())
    for place, ours in use.defaults:
        if isinstance(place, int):
            parameter = parameters[place] if place < len(parameters) else None
        else:
            parameter = signature.parameters.get(place)
        theirs = parameter.default if parameter else Parameter.empty
        if parameter and theirs is not Parameter.empty and theirs != ours:
            return f"our parameter defaults to {ours}, {parameter.name} to {theirs}; {described}"
    return None


def _changed_default(use: Use, found: Definition, known: Definition) -> str | None:
    """A parameter that the call leaves out, whose default is another one in the other release."""
    if len(found.signatures) != 1 or len(known.signatures) != 1 or use.open:
        return None
    (here,), (there,) = found.signatures, known.signatures
    given = _bind(use, here).arguments
    for name, parameter in here.parameters.items():
        other = there.parameters.get(name)
        if name in given or other is None or other.default is Parameter.empty:
            continue
        if parameter.default != other.default:
            return (
                f"leaves {name} to its default, which is {parameter.default} here and "
                f"{other.default} in the release that the call was written for"
            )
    return None


def _bind(use: Use, signature: inspect.Signature) -> inspect.BoundArguments:
    bind = signature.bind_partial if use.open else signature.bind
    return bind(*[None] * use.positional, **dict.fromkeys(use.keywords))


def signature_text(signature: inspect.Signature) -> str:
    """`(x, *, axis=-1)`: defaults are source text already and are not quoted again."""
    parts: list[str] = []
    starred: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(p.startswith("*") for p in parts):
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default}"
        parts.append(f"{starred.get(parameter.kind, '')}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def check_traps(find: Find) -> list[str]:
    """Traps that are no longer as our code assumes."""
    problems = []
    for trap in TRAPS:
        found = find(trap.name)
        names = list(found.signatures[0].parameters) if found and found.signatures else []
        if names[trap.position : trap.position + 1] != [trap.parameter]:
            place = f"position {trap.position + 1} of {trap.name}"
            problems.append(f"{place} is not {trap.parameter}: {', '.join(names) or 'unknown'}")
    return problems
