"""Rewrites a core's generated program so that Python's debugger shows the user's source.

Every node gets the line of the statement that it was generated from, and the code the user's file,
so stepping, listing and breakpoints of `pdb` work on the kernel's own text. Generated names get a
prefix; what the kernel binds becomes a local variable under the name that the user gave it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType

from kernels_npu.sim import ir
from kernels_npu.sim.debugger.breakpoints import Breakpoint

#: In front of every generated name, so that the user's names are free.
PREFIX = "_sim_"
#: The function that is called where a breakpoint stands, with its number.
STOP = f"{PREFIX}stop"
#: Other files of a program: code has one file name, so their lines are numbered beyond it.
FILES = f"{PREFIX}files"
_FILE_STEP = 10_000_000


@dataclass(frozen=True, kw_only=True)
class DebugNames:
    """Generated names by what the user calls them.

    variables: generated local name -> the user's name, for values that the program assigns.
    at_start: the user's name -> generated name, for what exists before the first statement.
    """

    variables: Mapping[str, str]
    at_start: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MappedProgram:
    """code: a module that defines the function `entry`.

    line_stmts: by line of the code, the first statement on it. files: other files that statements
    come from; `place_of` tells their lines.
    """

    code: CodeType
    entry: str
    filename: str
    line_stmts: Mapping[int, ir.Stmt]
    files: tuple[str, ...]


def place_of(line: int, filename: str, files: Sequence[str]) -> tuple[str, int]:
    """File and line that a line number of mapped code stands for."""
    number, inside = divmod(line, _FILE_STEP)
    return (files[number - 1], inside) if number else (filename, line)


def map_program(
    source: str,
    line_stmts: Mapping[int, ir.Stmt],
    func: ir.PrimFunc,
    names: DebugNames,
    breakpoints: Sequence[Breakpoint],
) -> MappedProgram:
    """The generated `source`, whose line `n` belongs to `line_stmts[n]`, for the debugger."""
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    mapper = _Mapper(line_stmts, func, names, breakpoints)
    first = next(i for i, s in enumerate(function.body) if mapper.stmt_of(s) is not None)
    start = [mapper.show(user, name, function.body[0]) for user, name in names.at_start.items()]
    body = mapper.block(function.body[first:], names.at_start)
    function.body = [*function.body[:first], *start, *body]
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword)):
            mapper.move(node)
    _Prefix().visit(tree)
    function.name = func.name or "kernel"
    by_line: dict[int, ir.Stmt] = {}
    for stmt in line_stmts.values():
        by_line.setdefault(mapper.line_of(stmt), stmt)
    return MappedProgram(
        code=compile(ast.fix_missing_locations(tree), func.loc.file, "exec"),
        entry=function.name,
        filename=func.loc.file,
        line_stmts=by_line,
        files=mapper.files,
    )


class _Mapper:
    """Inserts stops and the user's variables, and moves nodes to the user's lines."""

    def __init__(
        self,
        line_stmts: Mapping[int, ir.Stmt],
        func: ir.PrimFunc,
        names: DebugNames,
        breakpoints: Sequence[Breakpoint],
    ) -> None:
        self._stmts = line_stmts
        self._last = max(line_stmts, default=0)
        self._func = func
        others = {s.loc.file for s in line_stmts.values()} - {func.loc.file}
        self.files = tuple(sorted(others))
        self._names = names
        self._breakpoints = breakpoints
        self._stopped: ir.Stmt | None = None

    def stmt_of(self, node: ast.AST) -> ir.Stmt | None:
        """The kernel's statement that `node`, still on its generated line, belongs to."""
        line: int = node.lineno  # type: ignore[attr-defined]
        return self._stmts.get(min(line, self._last))

    def move(self, node: ast.AST) -> None:
        """Put `node` on the user's line."""
        stmt = self.stmt_of(node)
        line = self._func.loc.line if stmt is None else self.line_of(stmt)
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]

    def line_of(self, stmt: ir.Stmt) -> int:
        """The line of the code for `stmt`; of one from another file, a number beyond any file."""
        if stmt.loc.file == self._func.loc.file:
            return stmt.loc.line
        return (self.files.index(stmt.loc.file) + 1) * _FILE_STEP + stmt.loc.line

    def show(self, user: str, generated: str, near: ast.AST) -> ast.stmt:
        """The assignment that makes a generated name's value visible under the user's name."""
        target = ast.Name(_SHOWN + user, ast.Store())
        value = ast.Name(generated, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([target], value), near))

    def block(self, body: list[ast.stmt], scope: Mapping[str, str]) -> list[ast.stmt]:
        """`body` with stops and shown variables; `scope` is what its names mean around it."""
        visible = dict(scope)
        result: list[ast.stmt] = []
        for node in body:
            result += self._stops(node)
            result.append(node)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                generated = node.targets[0].id
                user = self._names.variables.get(generated)
                if user is not None:
                    visible[user] = generated
                    result.append(self.show(user, generated, node))
            elif isinstance(node, (ast.For, ast.While, ast.If)):
                changed = self._nested(node, visible)
                result += [self.show(u, visible[u], node) for u in changed if u in visible]
        return result

    def _nested(self, node: ast.For | ast.While | ast.If, scope: Mapping[str, str]) -> list[str]:
        """Rewrite the bodies of `node`; the names whose meaning they changed."""
        inner, first = dict(scope), []
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            user = self._names.variables.get(node.target.id)
            if user is not None:
                inner[user] = node.target.id
                first = [self.show(user, node.target.id, node)]
        node.body = [*first, *self.block(node.body, inner)]
        node.orelse = self.block(node.orelse, scope)
        shown = {
            target.id.removeprefix(_SHOWN): value.id
            for part in (node.body, node.orelse)
            for statement in part
            if isinstance(statement, ast.Assign)
            for target, value in [(statement.targets[0], statement.value)]
            if isinstance(target, ast.Name) and target.id.startswith(_SHOWN)
            if isinstance(value, ast.Name)
        }
        return [user for user, generated in shown.items() if scope.get(user) != generated]

    def _stops(self, node: ast.stmt) -> list[ast.stmt]:
        """The calls that stop before the first generated line of a statement."""
        stmt = self.stmt_of(node)
        if stmt is None or stmt is self._stopped:
            return []
        self._stopped = stmt
        numbers = [i for i, point in enumerate(self._breakpoints) if point.matches(stmt.loc)]
        calls = [ast.parse(f"stop({number})").body[0] for number in numbers]
        return [_at(node, call) for call in calls]


def _at(place: ast.stmt, node: ast.stmt) -> ast.stmt:
    """`node` and what is in it on the line of `place`."""
    for part in ast.walk(node):
        ast.copy_location(part, place)
    return node


#: Marks names that are the user's while the tree is rewritten.
_SHOWN = "shown "


class _Prefix(ast.NodeTransformer):
    """Puts `PREFIX` before every generated name; names marked as shown become the user's."""

    @staticmethod
    def _renamed(name: str) -> str:
        return name.removeprefix(_SHOWN) if name.startswith(_SHOWN) else PREFIX + name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._renamed(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._renamed(node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._renamed(node.name)
        self.generic_visit(node)
        return node
