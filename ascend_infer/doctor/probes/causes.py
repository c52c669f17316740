"""One line about an exception."""

from __future__ import annotations


def cause(error: BaseException) -> str:
    """The exception at the root of a chain, and the last one, which only reports it."""
    root = error
    seen: set[int] = set()
    while id(root) not in seen:
        seen.add(id(root))
        context = None if root.__suppress_context__ else root.__context__
        root = root.__cause__ or context or root
    return _line(error) if root is error else f"{_line(root)} (reported as {_line(error)})"


def _line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
