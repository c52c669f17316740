"""Where in the user's file the front end stands, and the one way it refuses a kernel."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NoReturn

from kernels_npu.errors import KernelSourceError, SourceLocation

_here: contextvars.ContextVar[SourceLocation | None] = contextvars.ContextVar(
    "frontend_here", default=None
)


def here() -> SourceLocation | None:
    """The line being evaluated, or None outside a kernel."""
    return _here.get()


@contextlib.contextmanager
def at(loc: SourceLocation | None) -> Iterator[None]:
    """Blame `loc` for errors raised inside the `with` block."""
    token = _here.set(loc)
    try:
        yield
    finally:
        _here.reset(token)


def move_to(loc: SourceLocation) -> None:
    """Blame `loc` from now on (until the enclosing `at` block ends)."""
    _here.set(loc)


class DialectAttributeError(KernelSourceError, AttributeError):
    """A name that `T` or `T.tile` does not have; also an AttributeError, so `hasattr` works."""


def fail(
    code: str,
    what: str,
    *,
    rule: str | None = None,
    fix: str | None = None,
    where: SourceLocation | None = None,
) -> NoReturn:
    """Refuse the kernel at `where`, by default the line being evaluated."""
    raise KernelSourceError(code, what, where=where or here(), rule=rule, fix=fix)
