"""Operators that a native library registers, from the schemas that it holds as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_KINDS = inspect.Parameter


def schemas(native: bytes, operator: str) -> tuple[inspect.Signature, ...]:
    """The signatures of all overloads of an operator, `npu_rms_norm`; () when there is none."""
    name = re.escape(operator.encode())
    texts: dict[str, None] = {}
    for prefix in (rb"\0", rb"\0npu::"):  # literal, so that the search is a fast one
        for found in re.finditer(prefix + name + rb"(?:\.\w+)?\(([^\0]*)\) -> ", native):
            texts[found[1].decode("ascii", "replace")] = None
    return tuple(signature for text in texts if (signature := parse(text)) is not None)


def parse(parameters: str) -> inspect.Signature | None:
    """`Tensor x, int[2] k=[1, 1], *, float eps=1e-06` as Python calls it; None if it is not one."""
    found: list[inspect.Parameter] = []
    kind: inspect._ParameterKind = _KINDS.POSITIONAL_OR_KEYWORD
    for text in _split(parameters):
        if text == "*":
            kind = _KINDS.KEYWORD_ONLY
            continue
        declared, equals, default = text.partition("=")
        words = declared.split()  # a type and a name; otherwise it is prose
        if len(words) != 2 or not words[1].isidentifier():
            return None
        name = words[1]
        found.append(_KINDS(name, kind, default=default if equals else _KINDS.empty))
    try:
        return inspect.Signature(found)
    except ValueError:  # a default before a parameter without one
        return None


def _split(text: str) -> Iterator[str]:
    """At the commas outside brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    if text.strip():
        yield text[start:].strip()
