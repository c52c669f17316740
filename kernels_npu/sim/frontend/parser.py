"""Statements: the user's text, walked once, becomes IR.

Scoping follows TVMScript: `x = expr` binds an immutable value where it stands,
bodies of for/if/with have their own names, `T.alloc_var` names are mutable,
and a static `if` is decided here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from kernels_npu.errors import AscendInferError, KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import binding, for_blocks, with_blocks
from kernels_npu.sim.frontend.builder import Builder
from kernels_npu.sim.frontend.diagnostics import at, fail, move_to
from kernels_npu.sim.frontend.evaluator import Evaluator
from kernels_npu.sim.frontend.frames import Frame
from kernels_npu.sim.frontend.scopes import VarTable
from kernels_npu.sim.frontend.source import FunctionSource
from kernels_npu.sim.frontend.values import PendingOp, describe


class Returned(Exception):
    """A `return` of a macro; carries the value."""

    def __init__(self, value: Any, node: ast.Return) -> None:
        super().__init__()
        self.value = value
        self.node = node


class Parser:
    """Walks the statements of one prim_func and of the macros that it calls."""

    def __init__(self, source: FunctionSource, names: VarTable) -> None:
        self.builder = Builder(source.node.name, source.loc, self)
        self.kernel_body: tuple[ir.Stmt, ...] = ()
        self._in_macro = False
        self.open_ifs: list[dict[str, tuple[ir.Stmt, ...]]] = []
        self._enter(source, names)

    def _enter(self, source: FunctionSource, names: VarTable) -> None:
        self.source, self.names = source, names
        self.eval = Evaluator(names, source.at, self.builder.forget)

    # ------------------------------------------------------------------ bodies

    def body(self, statements: Iterable[ast.stmt]) -> None:
        """Parse statements in order."""
        for node in statements:
            loc = self.source.at(node)
            method: Callable[[Any, SourceLocation], None] | None = getattr(
                self, f"_stmt_{type(node).__name__.lower()}", None
            )
            with at(loc):
                if method is None:
                    fail(
                        "AI-SRC-003",
                        f"`{ast.unparse(node).splitlines()[0]}` ({type(node).__name__}) is not a "
                        "statement of the dialect",
                        rule="kernels have assignments, calls, for, while, if, with",
                        fix="do it in Python, outside the kernel",
                    )
                self._statement(method, node, loc)

    def _statement(
        self, method: Callable[[Any, SourceLocation], None], node: ast.stmt, loc: SourceLocation
    ) -> None:
        try:
            method(node, loc)
        except (AscendInferError, Returned, RecursionError):
            raise
        except Exception as exc:
            raise KernelSourceError(
                "AI-SRC-004",
                f"`{ast.unparse(node).splitlines()[0]}` raised {type(exc).__name__}: {exc}",
                where=loc,
                rule="the kernel's text is evaluated when the kernel is built",
                fix="correct the statement",
            ) from exc
        move_to(loc)
        self.builder.check_nothing_dropped()

    def block(self, statements: Iterable[ast.stmt]) -> tuple[ir.Stmt, ...]:
        """Parse a nested body with its own names; its statements."""
        with self.builder.nested() as collected, self.names.frame():
            self.body(statements)
        return tuple(collected)

    def macro_body(self, source: FunctionSource, names: VarTable) -> Any:
        """Expand a macro here: its statements go to the current body; the value it returns."""
        saved = (self.source, self.names)
        outer, self._in_macro = self._in_macro, True
        self._enter(source, names)
        try:
            self.body(source.node.body)
            return None
        except Returned as result:
            if result.node is not source.node.body[-1]:
                with at(source.at(result.node)):
                    fail(
                        "AI-SRC-033",
                        "a macro returns before its last statement",
                        rule="macros are expanded in place: "
                        "`return` may only be the last statement",
                        fix="compute the value with T.if_then_else and return it at the end",
                    )
            return result.value
        finally:
            self._in_macro = outer
            self._enter(*saved)

    # ------------------------------------------------------------------ simple statements

    def _stmt_pass(self, node: ast.Pass, loc: SourceLocation) -> None:
        del node, loc

    def _stmt_expr(self, node: ast.Expr, loc: SourceLocation) -> None:
        value = self.eval(node.value)
        move_to(loc)
        if isinstance(value, PendingOp):
            self.builder.emit_pending(value)
        elif isinstance(value, Frame):
            fail(
                "AI-SRC-003",
                f"`{ast.unparse(node)}` opens nothing",
                rule="T.Kernel, T.Scope and T.If are used in a `with` statement",
                fix="write `with ...:`",
            )
        elif not (value is None or isinstance(value, (ir.Expr, ir.Buffer, bool, int, str))):
            fail(
                "AI-SRC-003",
                f"the statement `{ast.unparse(node)}` gives {describe(value)}",
                rule="an expression statement is one operation",
                fix="write one operation per statement",
            )

    def _stmt_return(self, node: ast.Return, loc: SourceLocation) -> None:
        del loc
        if self._in_macro:
            raise Returned(None if node.value is None else self.eval(node.value), node)
        fail(
            "AI-SRC-003",
            "a kernel returns a value",
            rule="a prim_func has no result: it writes its tensor parameters",
            fix="guard the rest of the body with `if` instead of returning early",
        )

    def _stmt_break(self, node: ast.Break, loc: SourceLocation) -> None:
        del node, loc
        fail(
            "AI-SRC-003",
            "`break` is not a statement of the dialect",
            rule="loops are counted",
            fix="use T.loop_break(), a `while` with a condition, or an `if` around the body",
        )

    def _stmt_assert(self, node: ast.Assert, loc: SourceLocation) -> None:
        del loc
        test = self.eval(node.test)
        if isinstance(test, ir.Expr) and not isinstance(test, ir.Const):
            fail("AI-SRC-003", "an assertion about a run-time value", fix="use T.printf")
        if not test:
            text = "" if node.msg is None else f": {self.eval(node.msg)}"
            fail("AI-SRC-003", f"the kernel's assertion `{ast.unparse(node.test)}` fails{text}")

    # ------------------------------------------------------------------ assignments

    def _stmt_assign(self, node: ast.Assign, loc: SourceLocation) -> None:
        value = self.eval(node.value)
        move_to(loc)
        for target in node.targets:
            binding.note_lost_update(self, target, node.value)
            binding.assign(self, target, value)

    def _stmt_augassign(self, node: ast.AugAssign, loc: SourceLocation) -> None:
        load = ast.copy_location(_as_load(node.target), node.target)
        operation = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        value = self.eval(operation)
        move_to(loc)
        binding.note_lost_update(self, node.target, operation)
        binding.assign(self, node.target, value)

    def _stmt_annassign(self, node: ast.AnnAssign, loc: SourceLocation) -> None:
        declared = self.eval(node.annotation)
        move_to(loc)
        if node.value is None:
            fail("AI-SRC-027", f"{ast.unparse(node.target)} is declared without a value")
        value = binding.typed(declared, self.eval(node.value))
        move_to(loc)
        binding.assign(self, node.target, value)

    # ------------------------------------------------------------------ control flow

    def _condition(self, test: ast.expr) -> Any:
        value = self.eval(test)
        if not isinstance(value, (bool, ir.Expr)):
            fail(
                "AI-SRC-006",
                f"the condition `{ast.unparse(test)}` is {describe(value)}",
                rule="a condition is a bool known at build time, or a run-time expression",
                fix="compare explicitly, for example `n % 2 != 0` or `x is not None`",
            )
        return value

    def _stmt_if(self, node: ast.If, loc: SourceLocation) -> None:
        with self.names.frame():
            test = self._condition(node.test)
            if not isinstance(test, ir.Expr):
                with self.names.frame():
                    self.body(node.body if test else node.orelse)
                return
            then = self.block(node.body)
            orelse = self.block(node.orelse)
        self.builder.emit(ir.If(loc=loc, cond=test, then=then, orelse=orelse))

    def _stmt_while(self, node: ast.While, loc: SourceLocation) -> None:
        cond = ir.as_expr(self._condition(node.test))
        with self.names.frame(loop=True):
            body = self.block(node.body)
        self.builder.emit(ir.While(loc=loc, cond=cond, body=body))

    def _stmt_for(self, node: ast.For, loc: SourceLocation) -> None:
        for_blocks.visit(self, node, loc)

    def _stmt_with(self, node: ast.With, loc: SourceLocation) -> None:
        with_blocks.visit(self, node, loc)


def _as_load(target: ast.expr) -> ast.expr:
    """An assignment target as an expression to read; the shared tree stays untouched."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target
