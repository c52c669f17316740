"""`with` statements: the launch, core scopes, run-time branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import binding
from kernels_npu.sim.frontend.diagnostics import fail, move_to
from kernels_npu.sim.frontend.frames import (
    ElseFrame,
    Frame,
    IfFrame,
    KernelFrame,
    ScopeFrame,
    ThenFrame,
)
from kernels_npu.sim.frontend.values import describe

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.parser import Parser


def visit(parser: Parser, node: ast.With, loc: SourceLocation) -> None:
    """One `with` statement; several items nest."""
    _items(parser, list(node.items), node.body, loc)


def _items(
    parser: Parser, items: list[ast.withitem], body: list[ast.stmt], loc: SourceLocation
) -> None:
    if not items:
        with parser.names.frame():
            parser.body(body)
        return
    first, rest = items[0], items[1:]
    frame = parser.eval(first.context_expr)
    move_to(loc)
    if not isinstance(frame, Frame):
        fail(
            "AI-SRC-003",
            f"`with {ast.unparse(first.context_expr)}` opens {describe(frame)}",
            rule="`with` takes T.Kernel, T.Scope, T.If, T.Then or T.Else",
            fix="use one of them",
        )

    def inner() -> tuple[ir.Stmt, ...]:
        with parser.builder.nested() as collected:
            _items(parser, rest, body, loc)
        return tuple(collected)

    _open(parser, frame, first, inner, loc)


def _open(
    parser: Parser,
    frame: Frame,
    item: ast.withitem,
    inner: Callable[[], tuple[ir.Stmt, ...]],
    loc: SourceLocation,
) -> None:
    if isinstance(frame, KernelFrame):
        _kernel(parser, frame, item, inner)
        return
    if item.optional_vars is not None:
        fail("AI-SRC-027", f"{ast.unparse(item.context_expr)} has no value to bind")
    if isinstance(frame, ScopeFrame):
        parser.builder.emit(ir.CoreScope(loc=loc, core=frame.core, body=inner()))
    elif isinstance(frame, IfFrame):
        parser.open_ifs.append({})
        stray = inner()
        branches = parser.open_ifs.pop()
        if stray or "then" not in branches:
            fail(
                "AI-SRC-003",
                "T.If holds statements outside T.Then and T.Else"
                if stray
                else "T.If has no T.Then",
                rule="with T.If(c): holds one `with T.Then():` and at most one `with T.Else():`",
                fix="put the statements into T.Then or T.Else",
            )
        parser.builder.emit(
            ir.If(
                loc=loc,
                cond=frame.cond,
                then=branches["then"],
                orelse=branches.get("else", ()),
            )
        )
    elif isinstance(frame, (ThenFrame, ElseFrame)):
        name = "then" if isinstance(frame, ThenFrame) else "else"
        if not parser.open_ifs or name in parser.open_ifs[-1]:
            fail(
                "AI-SRC-003",
                f"T.{name.capitalize()} outside T.If, or twice",
                fix="nest it in T.If",
            )
        parser.open_ifs[-1][name] = inner()


def _kernel(
    parser: Parser, frame: KernelFrame, item: ast.withitem, inner: Callable[[], tuple[ir.Stmt, ...]]
) -> None:
    builder = parser.builder
    if builder.grid is not None:
        fail(
            "AI-SRC-024",
            "a second T.Kernel",
            rule="a prim_func launches exactly one kernel",
            fix="write a second prim_func",
        )
    builder.grid, builder.threads = frame.grid, frame.threads
    indices = (ir.Var(""), ir.Var(""))
    value: Any = indices if frame.threads is None else indices[0]
    with parser.names.frame():
        if item.optional_vars is not None:
            binding.bind_target(parser, item.optional_vars, value, "kernel index")
        builder.cid = indices[0] if indices[0].name else builder.cid
        builder.vid = indices[1] if indices[1].name else builder.vid
        parser.kernel_body = inner()
