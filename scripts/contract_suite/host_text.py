"""The text of a vllm-ascend that the plugin depends on, beside that of the pinned releases."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascend_infer.vllm_plugin import pins
from ascend_infer.vllm_plugin.host import ASCEND
from contract_suite.packages import Package

HOST, PACKAGE = ASCEND.name, ASCEND.package
SAME, DIFFERS, GONE = "same", "differs", "gone"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One function or class. state: `SAME`, `DIFFERS` or `GONE`.

    pinned: the releases that have this very text. nearest: where the text differs, the pinned
    release that it differs least from, and how, as a unified diff; only if its files are at hand.
    """

    what: str
    state: str
    pinned: tuple[str, ...] = ()
    nearest: str | None = None
    diff: tuple[str, ...] = ()


def compare(
    package: Package, version: str, known: Mapping[str, Package] | None = None
) -> list[Definition]:
    """All that any operator depends on; a pinned release is held against its own text only.

    known: files of pinned releases, to show what differs.
    """
    pinned = pins.pinned()[HOST]
    against = [version] if version in pinned else list(pinned)
    wanted = sorted({what for depends in pins.DEPENDS[HOST].values() for what in depends})
    return [_compare(package, what, against, known or {}) for what in wanted]


def _compare(
    package: Package, what: str, against: Sequence[str], known: Mapping[str, Package]
) -> Definition:
    text = text_of(package, what)
    if text is None:
        return Definition(what=what, state=GONE)
    digest = pins.digest(text)
    same = tuple(release for release in against if pins.pinned()[HOST][release][what] == digest)
    if same:
        return Definition(what=what, state=SAME, pinned=same)
    diffs = {r: diff for r in known if (diff := _diff(known[r], r, what, text)) is not None}
    # Of equally near ones the last, which is the newest.
    nearest = min(reversed(diffs), key=lambda release: len(diffs[release]), default=None)
    diff = diffs[nearest] if nearest is not None else ()
    return Definition(what=what, state=DIFFERS, nearest=nearest, diff=diff)


def text_of(package: Package, what: str) -> str | None:
    """The text of `file:name` below the host's package; None where there is none."""
    file, _, name = what.partition(":")
    text = package.text(f"{PACKAGE}/{file}")
    return None if text is None else pins.definition(text, name)


def _diff(release: Package, version: str, what: str, text: str) -> tuple[str, ...] | None:
    old = text_of(release, what)
    if old is None:
        return None
    lines = (old.splitlines(), text.splitlines())
    return tuple(difflib.unified_diff(*lines, f"{version} {what}", what, lineterm=""))


def by_operator(definitions: Sequence[Definition]) -> dict[str, str]:
    """The worst state of what each operator depends on."""
    states = {definition.what: definition.state for definition in definitions}
    order = (SAME, DIFFERS, GONE)
    return {
        op: max((states[what] for what in depends), key=order.index)
        for op, depends in pins.DEPENDS[HOST].items()
    }
