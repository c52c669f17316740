"""What a dotted name of a package is, from its source: imports, aliases and bases are followed."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contract_suite import operators
from contract_suite.packages import Package
from contract_suite.syntax import (
    FUNCTIONS,
    absolute,
    bound_names,
    is_property,
    literal_names,
    signature_of,
    statements,
)

#: Names under which a package publishes its modules.
ALIASES = {"torch.npu": "torch_npu.npu"}
#: Where torch_npu lists its public operators; each is a name of the package itself.
_OPERATORS = ("torch_npu", "torch_npu.utils.exposed_api", "public_npu_functions")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A name that a package has.

    kind: `function`, `class`, `module`, `value`; `operator` and `native` for what a library
    defines, and `external` for what another package does.
    signatures: of calling it, without `self`; defaults are source text. Several for an operator
    with overloads, none when unknown.
    exported: whether its module's `__all__` has it; None where the module has no such list.
    """

    kind: str
    where: str
    signatures: tuple[inspect.Signature, ...] = ()
    exported: bool | None = None


class Surface:
    """Names of one package."""

    def __init__(self, package: Package, external: Mapping[str, Definition] | None = None) -> None:
        self.package = package
        self.external = external or {}
        self._found: dict[tuple[str, ...], Definition | None] = {}
        self._looking: set[tuple[str, ...]] = set()

    def find(self, name: str) -> Definition | None:
        """The definition of `torch.npu.graph`; None when the package has no such name.

        `external` names what the package re-exports from one that is not at hand.
        """
        path = self.path(name)
        top, *rest = path.split(".")
        found = self._at(top, rest) or self._operator(path) or self.external.get(name)
        if found is None or found.kind == "module":
            return found
        module, _, last = path.rpartition(".")
        exports = self.exports(module) if self._tree(module) else None
        return replace(found, exported=None if exports is None else last in exports)

    @staticmethod
    def path(name: str) -> str:
        """`torch.npu.graph` as the package's files have it, `torch_npu.npu.graph`."""
        for alias, module in ALIASES.items():
            if name == alias or name.startswith(alias + "."):
                return module + name[len(alias) :]
        return name

    def exports(self, module: str) -> frozenset[str] | None:
        """The names of the module's `__all__`; None when it has none, or one that is computed."""
        tree = self._tree(module)
        names = literal_names(tree, "__all__") if tree else None
        package, listing, variable = _OPERATORS
        listed = self._tree(listing) if module == package else None
        if names is not None and listed is not None:
            names |= literal_names(listed, variable) or frozenset()
        return names

    def methods(self, name: str) -> set[str]:
        """Public methods that the class `name` defines itself, dotted."""
        found = self.find(name)
        tree = self._tree(found.where) if found and found.kind == "class" else None
        last = name.rpartition(".")[2]
        return {
            f"{name}.{member.name}"
            for node in (tree.body if tree else [])
            if isinstance(node, ast.ClassDef) and node.name == last
            for member in node.body
            if isinstance(member, FUNCTIONS) and not member.name.startswith("_")
        }

    def names(self, module: str) -> set[str]:
        """All public names of a module that the package itself defines."""
        found: set[str] = set()
        tree = self._tree(module)
        for node in statements(tree.body if tree else []):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                source = absolute(module, node, self._is_package(module))
                found |= {n for n in self.names(source) if self._brings(source, n)}
            elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                found |= bound_names(node)
        return {n for n in found if not n.startswith("_") and self._at(module, [n])}

    def _operator(self, path: str) -> Definition | None:
        package, _, name = path.partition(".")
        if package != _OPERATORS[0] or "." in name:
            return None
        signatures = operators.schemas(self.package.native, name)
        if not signatures:
            return None
        return Definition(kind="operator", where=package, signatures=signatures)

    def _at(self, module: str, rest: Sequence[str]) -> Definition | None:
        """What `rest` is in the module that a statement imports by this path."""
        key = (module, *rest)
        if key in self._found:
            return self._found[key]
        if key in self._looking:  # modules that import each other: nothing new down this path
            return None
        self._looking.add(key)
        try:
            if self._tree(module) is not None:
                self._found[key] = self._in_module(module, rest)
            else:  # a compiled module, or one inside it: `torch_npu._C._profiler`
                parent, _, last = module.rpartition(".")
                if self.package.has_native_module(module):
                    self._found[key] = self._in_native(module, rest)
                elif self.package.has_native_module(parent):
                    self._found[key] = self._in_native(parent, [last, *rest])
                else:
                    self._found[key] = None
        finally:
            self._looking.discard(key)
        return self._found[key]

    def _in_module(self, module: str, rest: Sequence[str]) -> Definition | None:
        if not rest:
            return Definition(kind="module", where=module)
        for node in self._bindings(module, rest[0]):
            if isinstance(node, ast.ImportFrom):
                source = absolute(module, node, self._is_package(module))
                if node.names[0].name == "*":
                    if not self._brings(source, rest[0]):
                        continue
                    return self._at(source, rest)
                original = next(
                    a.name for a in reversed(node.names) if (a.asname or a.name) == rest[0]
                )
                if (source, original) == (module, rest[0]):
                    break  # `from . import name` brings the module itself
                return self._at(source, [original, *rest[1:]])
            if isinstance(node, ast.ClassDef):
                return self._in_class(module, node, rest[1:])
            if isinstance(node, FUNCTIONS):
                return _function(module, node, method=False) if len(rest) == 1 else None
            value = getattr(node, "value", None)
            if isinstance(value, ast.Name) and value.id != rest[0]:
                aliased = self._at(module, [value.id, *rest[1:]])
                if aliased is not None:
                    return aliased
            return Definition(kind="value", where=module) if len(rest) == 1 else None
        # A name bound in a package hides the module of that name, so modules come last.
        below = f"{module}.{rest[0]}"
        if self._tree(below) is not None:
            return self._in_module(below, rest[1:])
        if self.package.has_native_module(below):
            return self._in_native(below, rest[1:])
        return None

    def _in_native(self, module: str, rest: Sequence[str]) -> Definition | None:
        if not rest:
            return Definition(kind="module", where=module)
        known = all(self.package.has_native_name(name) for name in rest)
        return Definition(kind="native", where=module) if known else None

    def _in_class(self, module: str, node: ast.ClassDef, rest: Sequence[str]) -> Definition | None:
        if not rest:
            for constructor in ("__init__", "__new__"):
                found = self._in_class(module, node, [constructor])
                if found is not None and found.signatures:
                    return Definition(kind="class", where=module, signatures=found.signatures)
            return Definition(kind="class", where=module)
        for statement in node.body:
            if rest[0] not in bound_names(statement):
                continue
            if isinstance(statement, FUNCTIONS):
                return _function(module, statement, method=True)
            return Definition(kind="value", where=module)
        for base in node.bases:
            path = ast.unparse(base)
            inherited = self._at(module, [*path.split("."), rest[0]])
            inherited = inherited or self.find(f"{path}.{rest[0]}")
            if inherited is not None:
                return inherited
        return None

    def _bindings(self, module: str, name: str) -> Iterator[ast.stmt]:
        """Statements that may bind `name`, the last one, which wins, first."""
        tree = self._tree(module)
        for node in reversed(list(statements(tree.body if tree else []))):
            if bound_names(node) & {name, "*"}:
                yield node

    def _brings(self, module: str, name: str) -> bool:
        """Whether `from module import *` brings `name`."""
        exports = self.exports(module)
        if exports is not None:
            return name in exports
        return not name.startswith("_") and self._at(module, [name]) is not None

    @functools.cache  # noqa: B019  the object lives as long as the process
    def _tree(self, module: str) -> ast.Module | None:
        base = module.replace(".", "/")
        for member in (f"{base}/__init__.py", f"{base}.py"):
            text = self.package.text(member)
            if text is not None:
                return ast.parse(text)
        return None

    def _is_package(self, module: str) -> bool:
        return self.package.text(module.replace(".", "/") + "/__init__.py") is not None


def _function(
    module: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool
) -> Definition:
    if is_property(node):
        return Definition(kind="value", where=module)
    bound = method and "staticmethod" not in map(ast.unparse, node.decorator_list)
    signature = signature_of(node.args, bound)
    return Definition(kind="function", where=module, signatures=(signature,))
