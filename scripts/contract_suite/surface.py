"""What a dotted name of a package is, from its source: imports, aliases and bases are followed."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contract_suite.packages import Package

#: Names under which a package publishes its modules.
ALIASES = {"torch.npu": "torch_npu.npu"}
_KINDS = inspect.Parameter


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A name that a package has.

    kind: `function`, `class`, `module`, `value`; `native` for what a library defines and `external`
    for what another package does.
    signature: of calling it, without `self`; defaults are source text. None when unknown.
    """

    kind: str
    where: str
    signature: inspect.Signature | None = None


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
        path = name
        for alias, module in ALIASES.items():
            if name == alias or name.startswith(alias + "."):
                path = module + name[len(alias) :]
        top, *rest = path.split(".")
        return self._at(top, rest) or self.external.get(name)

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
            elif self.package.has_native_module(module):
                self._found[key] = self._in_native(module, rest)
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
                source = _absolute(module, node, self._is_package(module))
                if node.names[0].name == "*":
                    if not self._exports(source, rest[0]):
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
            if isinstance(node, ast.FunctionDef):
                return _function(module, node, method=False) if len(rest) == 1 else None
            if isinstance(node.value, ast.Name) and node.value.id != rest[0]:
                aliased = self._at(module, [node.value.id, *rest[1:]])
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
        known = self.package.has_native_name(rest[0])
        return Definition(kind="native", where=module) if known else None

    def _in_class(self, module: str, node: ast.ClassDef, rest: Sequence[str]) -> Definition | None:
        if not rest:
            for constructor in ("__init__", "__new__"):
                found = self._in_class(module, node, [constructor])
                if found is not None and found.signature is not None:
                    return Definition(kind="class", where=module, signature=found.signature)
            return Definition(kind="class", where=module)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == rest[0]:
                return _function(module, statement, method=True)
        for base in node.bases:
            path = ast.unparse(base)
            inherited = self._at(module, [*path.split("."), rest[0]])
            inherited = inherited or self.find(f"{path}.{rest[0]}")
            if inherited is not None:
                return inherited
        return None

    def _bindings(
        self, module: str, name: str
    ) -> Iterator[ast.FunctionDef | ast.ClassDef | ast.ImportFrom | ast.Assign]:
        """Statements that may bind `name`, the last one, which wins, first."""
        tree = self._tree(module)
        for node in reversed(list(_statements(tree.body if tree else []))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                bound = [node.name]
            elif isinstance(node, ast.ImportFrom):
                bound = [a.asname or a.name for a in node.names]
            elif isinstance(node, ast.Assign):
                bound = [t.id for t in node.targets if isinstance(t, ast.Name)]
            else:
                continue
            if name in bound or bound == ["*"]:
                yield node

    def _exports(self, module: str, name: str) -> bool:
        """Whether `from module import *` brings `name`."""
        tree = self._tree(module)
        for node in tree.body if tree else []:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return f"'{name}'" in ast.unparse(node.value)
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

    def names(self, module: str) -> set[str]:
        """All public names of a module that the package itself defines."""
        found: set[str] = set()
        tree = self._tree(module)
        for node in _statements(tree.body if tree else []):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.ImportFrom):
                source = _absolute(module, node, self._is_package(module))
                if node.names[0].name == "*":
                    found |= {n for n in self.names(source) if self._exports(source, n)}
                elif node.module != "__future__":
                    found |= {a.asname or a.name for a in node.names}
        return {n for n in found if not n.startswith("_") and self._at(module, [n])}


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those below `if` and `try` included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
                yield from _statements(getattr(node, field, []))


def _absolute(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _function(module: str, node: ast.FunctionDef, *, method: bool) -> Definition:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if any(d == "property" or d.endswith(".setter") for d in decorators):
        return Definition(kind="value", where=module)
    bound = method and "staticmethod" not in decorators
    return Definition(kind="function", where=module, signature=signature_of(node.args, bound))


def signature_of(arguments: ast.arguments, bound: bool = False) -> inspect.Signature:
    """The signature that `arguments` declare; without the first parameter when `bound`."""
    parameters = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for index, (argument, default) in enumerate(zip(plain, defaults)):
        positional_only = index < len(arguments.posonlyargs)
        kind = _KINDS.POSITIONAL_ONLY if positional_only else _KINDS.POSITIONAL_OR_KEYWORD
        parameters.append(_parameter(argument.arg, kind, default))
    if arguments.vararg:
        parameters.append(_KINDS(arguments.vararg.arg, _KINDS.VAR_POSITIONAL))
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        parameters.append(_parameter(argument.arg, _KINDS.KEYWORD_ONLY, keyword_default))
    if arguments.kwarg:
        parameters.append(_KINDS(arguments.kwarg.arg, _KINDS.VAR_KEYWORD))
    return inspect.Signature(parameters[1:] if bound else parameters)


def _parameter(name: str, kind: inspect._ParameterKind, default: ast.expr | None) -> _KINDS:
    return _KINDS(name, kind, default=_KINDS.empty if default is None else ast.unparse(default))
