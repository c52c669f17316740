"""Walks through a module and knows at each place what its names denote in other packages."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass, field

from contract_suite.names import Names, declared
from contract_suite.syntax import FUNCTIONS, bound_names, signature_of
from contract_suite.uses import root_of

#: What the dialect module hands on.
_DIALECT = {
    "T": "tilelang.language",
    "tilelang": "tilelang",
    "make_zn_layout": "tilelang.intrinsics.make_zn_layout",
}


@dataclass(kw_only=True)
class Scopes(ast.NodeVisitor):
    """Visits what is executed in its order, methods after `__init__`, branches from one state.

    A subclass says what is done with what it meets.
    """

    names: Names = field(default_factory=Names)
    #: Defaults of the parameters of the function around.
    defaults: dict[str, str] = field(default_factory=dict)
    #: What the module's names denote when all of it has run, which is when functions are called.
    late: dict[str, str] = field(default_factory=dict)

    def unrecorded(self) -> contextlib.AbstractContextManager[None]:
        """What is visited inside is visited for its names only."""
        raise NotImplementedError

    def note_function(self, name: str, arguments: list[ast.arg]) -> None:
        """A function, or a class and the arguments that make an object of it."""

    def note_class(self, node: ast.ClassDef) -> None:
        """A class, before its statements."""

    def visit_Module(self, node: ast.Module) -> None:
        with self.unrecorded():
            self.generic_visit(node)
        self.late, self.names = self.names.known, Names()
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.names.known[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.names.known[alias.asname or alias.name] = imported(node, alias)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, outer_defaults, late = dict(self.names.known), self.defaults, self.late
        self.names.known = {**late, **outer}
        self.late = {}  # what hides a name in this function hides it in those inside
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.names.declare(every)
        self.defaults = {
            parameter.name: parameter.default
            for parameter in signature_of(arguments).parameters.values()
            if parameter.default is not parameter.empty
        }
        self.note_function(node.name, every)
        self.generic_visit(node)
        kept = {key: value for key, value in self.names.known.items() if key.startswith("self.")}
        self.names.known, self.defaults, self.late = {**outer, **kept}, outer_defaults, late

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outside)
        with self.unrecorded():  # a method may set what another one uses
            self._visit_body(node)
        self._visit_body(node)

    def _visit_body(self, node: ast.ClassDef) -> None:
        self.note_class(node)
        for statement in node.body:
            if isinstance(statement, FUNCTIONS) and statement.name == "__init__":
                self.note_function(node.name, statement.args.args[1:])
                self.visit(statement)  # first: it says what `self.x` is
        for statement in node.body:
            if not (isinstance(statement, FUNCTIONS) and statement.name == "__init__"):
                self.visit(statement)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                for name in bound_names(statement) & self.names.known.keys():
                    self.names.known[f"self.{name}"] = self.names.known[name]

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._branches([*node.body, *node.orelse], *(handler.body for handler in node.handlers))
        for statement in node.finalbody:
            self.visit(statement)

    def _branches(self, *branches: list[ast.stmt]) -> None:
        """What a name denotes after one branch, it may denote after all of them."""
        before, after = dict(self.names.known), dict[str, str]()
        for branch in branches:
            self.names.known = dict(before)
            for statement in branch:
                self.visit(statement)
            for name, denoted in self.names.known.items():
                if root_of(after.get(name, "")) is None:
                    after[name] = denoted
        self.names.known = after

    def visit_Assign(self, node: ast.Assign) -> None:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        is_parallel = all(isinstance(target, ast.Tuple) for target in node.targets)
        for value in values if is_parallel else [node.value]:
            self.visit(value)
        for target in node.targets:
            self.names.bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        self.names.bind(node.target, node.value, declared(node.annotation))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.names.bind(node.target, node.value)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.names.bind(item.optional_vars, item.context_expr)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncWith = visit_With

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._loop(node.target, node.iter)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    visit_AsyncFor = visit_For

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node.generators, node.elt)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, node.key, node.value)

    def _comprehension(self, generators: list[ast.comprehension], *values: ast.expr) -> None:
        outer = dict(self.names.known)
        for generator in generators:
            self._loop(generator.target, generator.iter)
            for test in generator.ifs:
                self.visit(test)
        for value in values:
            self.visit(value)
        self.names.known = outer

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        """The target is whatever of a written list is of another package; all of it is visited."""
        elements = over.elts if isinstance(over, (ast.Tuple, ast.List, ast.Set)) else []
        for visited in elements or [over]:
            self.visit(visited)
        self.names.bind(target, next(filter(self.names.denotes, elements), None))


def imported(node: ast.ImportFrom, alias: ast.alias) -> str:
    """The dotted name that an import binds."""
    name = f"{node.module}.{alias.name}"
    return _DIALECT.get(alias.name, name) if node.module == "kernels_npu.dialect" else name
