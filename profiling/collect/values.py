"""Kinds of values that the profiler's options take, each with its rule in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from profiling.collect.families import ALL, Family

#: Names that a usage line can hold.
_FEW = 3


class Value(Protocol):
    """What an option takes."""

    @property
    def rule(self) -> str:
        """The values that are good, in words."""

    @property
    def metavar(self) -> str:
        """What stands for the value in a usage line."""

    def fault(self, text: str) -> str:
        """What is wrong with `text`; empty when nothing is."""

    def parts(self, text: str) -> tuple[str, ...]:
        """The single values of a list, spelled as in the option's rule."""


@dataclass(frozen=True, kw_only=True)
class _Single:
    """A value that is no list."""

    def parts(self, text: str) -> tuple[str, ...]:
        return (text,)


@dataclass(frozen=True, kw_only=True)
class WholeNumber(_Single):
    """`low` to `high`, in at most `digits` characters."""

    low: int
    high: int
    digits: int = 0
    metavar: str = "N"

    @property
    def rule(self) -> str:
        most = f", in at most {self.digits} characters" if self.digits else ""
        return f"a whole number from {self.low} to {self.high}{most}"

    def fault(self, text: str) -> str:
        if not re.fullmatch(r"[0-9]+", text):
            return "it is not a whole number"
        if self.digits and len(text) > self.digits:
            return f"it has {len(text)} characters"
        return "" if self.low <= int(text[:20]) <= self.high else "it is out of range"


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of a fixed set; several with `separator`.

    Args:
        chips: name -> the chips that have it.
        separator: between names; empty when only one is taken.
        any_case: whether case does not matter.
        most: characters in all; 0 for no limit.
        required: a name that the list has to have.
    """

    chips: Mapping[str, frozenset[Family]]
    separator: str = ""
    any_case: bool = False
    most: int = 0
    required: str = ""

    @property
    def metavar(self) -> str:
        """The names themselves, where they are few."""
        return "NAME" if len(self.chips) > _FEW else "|".join(self.chips)

    @property
    def rule(self) -> str:
        rule = ", ".join(self.chips)
        if self.separator:
            rule = f"of {rule}, separated by {self.separator!r}"
        if self.required:
            rule += f"; {self.required} has to be among them"
        return rule + (f"; at most {self.most} characters" if self.most else "")

    def fault(self, text: str) -> str:
        unknown = [part for part in self.parts(text) if part not in self.chips]
        if unknown:
            return f"{', '.join(map(repr, unknown))} is none of them"
        if self.most and len(text) > self.most:
            return f"it has {len(text)} characters"
        if self.required and self.required not in self.parts(text):
            return f"{self.required} is missing"
        return ""

    def parts(self, text: str) -> tuple[str, ...]:
        texts = text.split(self.separator) if self.separator else [text]
        spelled = {name.lower(): name for name in self.chips} if self.any_case else {}
        return tuple(spelled.get(part.lower(), part) for part in texts)


def names(*of_all_chips: str, **of_some: frozenset[Family]) -> dict[str, frozenset[Family]]:
    """The names with the chips that have each."""
    return {**dict.fromkeys(of_all_chips, ALL), **of_some}


def switch() -> Names:
    """`on` or `off`."""
    return Names(chips=names("on", "off"))


@dataclass(frozen=True, kw_only=True)
class Words:
    """Free names, separated by `|`, of the characters in `characters`.

    Args:
        characters: of a regular expression's class.
        most: characters in all; 0 for no limit.
    """

    characters: str
    most: int = 0
    metavar: str = "A|B"

    @property
    def rule(self) -> str:
        most = f", at most {self.most} characters" if self.most else ""
        return f"names of [{self.characters}], separated by '|'{most}"

    def fault(self, text: str) -> str:
        for part in self.parts(text):
            if not part:
                return "a name is empty"
            if not re.fullmatch(f"[{self.characters}]+", part):
                return f"{part!r} has other characters"
        return f"it has {len(text)} characters" if self.most and len(text) > self.most else ""

    def parts(self, text: str) -> tuple[str, ...]:
        return tuple(text.split("|"))


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Whole numbers from `low` to `high`, separated by `|`."""

    low: int
    high: int
    metavar: str = "N|N"

    @property
    def rule(self) -> str:
        return f"whole numbers from {self.low} to {self.high}, separated by '|'"

    def fault(self, text: str) -> str:
        number = WholeNumber(low=self.low, high=self.high)
        faults = ((part, number.fault(part)) for part in self.parts(text))
        return next((f"{part!r}: {fault}" for part, fault in faults if fault), "")

    def parts(self, text: str) -> tuple[str, ...]:
        return tuple(text.split("|"))


@dataclass(frozen=True, kw_only=True)
class File(_Single):
    """A file, or with `folder` a folder. Whether it is there only the host knows: `missing`."""

    folder: bool = False
    metavar: str = "FILE"

    @property
    def rule(self) -> str:
        return f"a {'folder' if self.folder else 'file'} that can be read"

    def fault(self, text: str) -> str:
        return "" if text else "it is empty"

    def missing(self, text: str) -> str:
        """Why it cannot be read here; empty when it can."""
        is_there = os.path.isdir(text) if self.folder else os.path.isfile(text)
        if not is_there:
            return "there is no such " + ("folder" if self.folder else "file")
        return "" if os.access(text, os.R_OK) else "it cannot be read"


@dataclass(frozen=True, kw_only=True)
class Text(_Single):
    """Any text that matches `pattern`, for which `rule` are the words."""

    pattern: str
    rule: str
    metavar: str = "NAME"

    def fault(self, text: str) -> str:
        return "" if re.fullmatch(self.pattern, text) else "it is none"
