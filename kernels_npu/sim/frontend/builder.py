"""The kernel under construction: nested statement lists, allocations, addresses, layouts."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.diagnostics import fail, here
from kernels_npu.sim.frontend.values import PendingOp, TensorBuffer
from kernels_npu.sim.remarks import Remark

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.parser import Parser

_current: contextvars.ContextVar[Builder | None] = contextvars.ContextVar(
    "frontend_builder", default=None
)


class Builder:
    """Collects one `ir.PrimFunc`.

    Statements go to the innermost open list. Operations are created `pending` and are emitted by
    the statement that holds them; one that no statement holds is an error (see `PendingOp`).
    """

    def __init__(self, name: str, loc: SourceLocation, parser: Parser) -> None:
        self.name = name
        self.loc = loc
        self.parser = parser
        self.params: list[ir.Buffer | ir.Var] = []
        self.allocs: list[ir.Buffer] = []
        self.remarks: list[Remark] = []
        self.addresses: dict[ir.Buffer, int] = {}
        self.layouts: dict[ir.Buffer, str] = {}
        self.grid: ir.Expr | None = None
        self.threads: int | None = None
        self.cid = ir.Var("cid")
        self.vid = ir.Var("vid")
        self._before: list[ir.Stmt] = []
        self._after: list[ir.Stmt] = []
        self._lists: list[list[ir.Stmt]] = []
        self._pending: list[PendingOp] = []

    # ------------------------------------------------------------------ position

    @property
    def in_kernel(self) -> bool:
        """Whether `with T.Kernel(...)` is open."""
        return bool(self._lists)

    @property
    def where(self) -> SourceLocation:
        """The user's line of what is built now."""
        return here() or self.loc

    # ------------------------------------------------------------------ statements

    @contextlib.contextmanager
    def nested(self) -> Iterator[list[ir.Stmt]]:
        """Collect the statements emitted inside the `with` block into their own list."""
        body: list[ir.Stmt] = []
        self._lists.append(body)
        try:
            yield body
        finally:
            self._lists.pop()

    def emit(self, stmt: ir.Stmt) -> None:
        """Append `stmt` to the innermost open list; prints outside the launch go around it."""
        if not self._lists and _is_print(stmt):
            (self._before if self.grid is None else self._after).append(stmt)
            return
        if not self._lists:
            fail(
                "AI-SRC-024",
                f"{type(stmt).__name__} stands outside `with T.Kernel(...)`",
                rule="device code lives in the body of T.Kernel",
                fix="move the statement into the T.Kernel block",
            )
        self._lists[-1].append(stmt)

    def remark(self, code: str, message: str) -> None:
        """Warn about the statement being parsed."""
        self.remarks.append(Remark(code=code, severity="warning", message=message, loc=self.where))

    def defer(self, name: str, stmt: ir.Stmt) -> PendingOp:
        """`stmt` as the value of a call `T.name(...)`, to be emitted by an expression statement."""
        op = PendingOp(name, stmt)
        self._pending.append(op)
        return op

    def emit_pending(self, op: PendingOp) -> None:
        """Emit an operation that an expression statement holds."""
        self.forget(op)
        self.emit(op.stmt)

    def forget(self, op: PendingOp) -> None:
        """Drop an operation on purpose (the branch that a static conditional did not choose)."""
        self._pending = [p for p in self._pending if p is not op]

    def check_nothing_dropped(self) -> None:
        """Refuse operations that were created but that no statement holds."""
        if not self._pending:
            return
        lost = self._pending[0]
        self._pending = []
        fail(
            "AI-SRC-025",
            f"T.{lost.name}(...) was called but its result was dropped, so it would never execute",
            rule="an operation executes only as an expression statement "
            "of the kernel or of a T.macro",
            fix="decorate the helper with @T.macro, or let it return the operation to a statement",
            where=lost.stmt.loc,
        )

    # ------------------------------------------------------------------ buffers

    def alloc(self, scope: str, shape: tuple[int, ...], dtype: str) -> TensorBuffer:
        """A new on-chip buffer; it gets its name when it is bound."""
        if not self._lists:
            fail(
                "AI-SRC-024",
                f"a {scope} buffer is allocated outside `with T.Kernel(...)`",
                rule="on-chip memory exists only while a kernel runs",
                fix="move the allocation into the T.Kernel block",
            )
        buffer = TensorBuffer("", scope, shape, dtype, self.where)
        self.allocs.append(buffer)
        return buffer

    def finish(self, body: tuple[ir.Stmt, ...]) -> ir.PrimFunc:
        """The finished kernel."""
        if self.grid is None:
            fail(
                "AI-SRC-024",
                f"{self.name} has no `with T.Kernel(...)`",
                rule="a prim_func launches exactly one kernel",
                fix="write `with T.Kernel(n, is_npu=True) as (cid, vid):`",
                where=self.loc,
            )
        return ir.PrimFunc(
            name=self.name,
            params=tuple(self.params),
            grid=self.grid,
            cid=self.cid,
            vid=self.vid,
            threads=self.threads,
            allocs=tuple(self.allocs),
            body=(*self._before, *body, *self._after),
            addresses=dict(self.addresses),
            layouts=dict(self.layouts),
            loc=self.loc,
            remarks=tuple(self.remarks),
        )


def _is_print(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.TileOp) and stmt.op in ("printf", "dump_tensor")


def name_once(value: object, name: str) -> None:
    """Give a buffer or variable that has no name yet the name it is bound to, as TVM does."""
    if isinstance(value, (ir.Buffer, ir.Var)) and not value.name:
        # Allocation precedes binding, so the name arrives after the node;
        # nothing has seen it before.
        object.__setattr__(value, "name", name)


def active() -> Builder | None:
    """The kernel under construction in this context."""
    return _current.get()


def require(what: str) -> Builder:
    """The kernel under construction.

    Raises:
        KernelSourceError: AI-SRC-024 when `what` is called outside a `@T.prim_func`.
    """
    builder = _current.get()
    if builder is None:
        fail(
            "AI-SRC-024",
            f"T.{what} is called outside a kernel",
            rule="device operations exist only in the body of a @T.prim_func",
            fix="move the call into the kernel",
        )
    return builder


@contextlib.contextmanager
def building(builder: Builder) -> Iterator[Builder]:
    """Make `builder` the target of `T.*` calls inside the `with` block."""
    token = _current.set(builder)
    try:
        yield builder
    finally:
        _current.reset(token)


def op(name: str, make: Callable[[SourceLocation], ir.Stmt]) -> PendingOp:
    """Create the statement of `T.name(...)` at the current line."""
    builder = require(name)
    return builder.defer(name, make(builder.where))
