"""Where in the user's file the front end stands, and the one way it refuses a kernel."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from kernels_npu.errors import KernelSourceError, SourceLocation

#: The simulator's modules, and what it imports as the dialect.
_OWN = ("kernels_npu.sim.", "kernels_npu.dialect")

_here: contextvars.ContextVar[SourceLocation | None] = contextvars.ContextVar(
    "frontend_here", default=None
)


def here() -> SourceLocation | None:
    """The line being evaluated; outside a kernel, the user's line that is being executed."""
    return _here.get() or _users_line()


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


def _users_line() -> SourceLocation | None:
    """The innermost line being executed that is neither the simulator's nor Python's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        own = module.startswith(_OWN)
        if not own and module.partition(".")[0] not in sys.stdlib_module_names:
            return SourceLocation(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


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
    """Refuse the kernel at `where`, by default `here()`."""
    raise KernelSourceError(code, what, where=where or here(), rule=rule, fix=fix)
