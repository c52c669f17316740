"""What the names of a file denote: followed from imports and assignments to a tilelang."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from kernels_npu.dialect.translations import LANGUAGES

LANGUAGE = "tilelang.language"
#: `T` and `tilelang` of files that take them from this package.
_OWN_MODULE = "kernels_npu.dialect"
_OWN = {f"{_OWN_MODULE}.T": LANGUAGE, f"{_OWN_MODULE}.tilelang": "tilelang"}
#: What only TileLang has in it: attribute -> (whose it is, the name that it has to have).
_TELLING = {"jit": ("tilelang", "tilelang"), "prim_func": (LANGUAGE, "")}


def backend_of(module: str) -> str:
    """`ascend` for `tilelang.ascend.language`: the language of one backend of mainline; else ''."""
    parts = module.split(".")
    shape = len(parts) == 3 and parts[0] == "tilelang" and parts[2] == "language"
    return parts[1] if shape and parts[1] in LANGUAGES else ""


def is_language(module: str) -> bool:
    """Whether `module` is where the names of a dialect are, in files `T`."""
    return module == LANGUAGE or bool(backend_of(module))


class Names:
    """Names of one file, given all nodes of its tree; of what else they are bound to, nothing."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._denoted: dict[str, str] = {}
        #: Names from modules that may hand a tilelang on; `*` for any name.
        self._handed_on: set[str] = set()
        self._starred = ""
        self._bound: frozenset[str] = frozenset()
        for node in nodes:
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        if self._starred and "*" not in self._handed_on:
            self._bound = frozenset(name for node in nodes for name in _bound(node))
        else:
            self._starred = ""  # with several it cannot be told whose a name is
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                self._assign(node)
            elif isinstance(node, ast.Attribute):
                self._recognise(node)

    def __bool__(self) -> bool:
        """Whether any name leads to a tilelang."""
        return bool(self._denoted or self._starred)

    def full(self, node: ast.expr) -> str:
        """`tilelang.language.copy` for `T.copy`; empty for what leads to no tilelang."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not (head := self._head(node)):
            return ""
        path = ".".join((head, *reversed(attributes)))
        for own, theirs in _OWN.items():
            if path == own or path.startswith(f"{own}."):
                return theirs + path.removeprefix(own)
        return path

    def in_language(self, node: ast.expr) -> str:
        """The name in the language, as `copy` for `T.copy` of any dialect; else empty."""
        module, _, name = self.full(node).rpartition(".")
        return name if is_language(module) else ""

    def _head(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            if node.id in self._denoted:
                return self._denoted[node.id]
            taken = node.id in self._bound or hasattr(builtins, node.id)
            return f"{self._starred}.{node.id}" if self._starred and not taken else ""
        return _imported_by(node) if isinstance(node, ast.Call) else ""

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if _leads_there(alias.name):
                top = alias.name.partition(".")[0]
                self._denoted[alias.asname or top] = alias.name if alias.asname else top

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "" if node.level else node.module or ""
        for alias in node.names:
            name, full = alias.asname or alias.name, f"{module}.{alias.name}"
            if alias.name == "*" and is_language(module):
                self._starred = module
            elif _leads_there(full):
                self._denoted[name] = full
            elif module.partition(".")[0] != "tvm":  # TVM's script has a prim_func, too
                self._handed_on.add(name)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
            for name, value in _pairs(target, node.value):
                if full := self.full(value):
                    self._denoted.setdefault(name, full)

    def _recognise(self, node: ast.Attribute) -> None:
        if node.attr in _TELLING and isinstance(node.value, ast.Name):
            denoted, required = _TELLING[node.attr]
            name = node.value.id
            if {name, "*"} & self._handed_on and required in ("", name):
                self._denoted.setdefault(name, denoted)


def _imported_by(call: ast.Call) -> str:
    """The module of `importlib.import_module("tilelang.language")`."""
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    module = getattr(call.args[0], "value", None) if call.args else None
    found = function == "import_module" and isinstance(module, str) and _leads_there(module)
    return str(module) if found else ""


def _leads_there(module: str) -> bool:
    return module.partition(".")[0] == "tilelang" or f"{module}.".startswith(f"{_OWN_MODULE}.")


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    """Names with what is assigned to them, also in `T, jit = tilelang.language, tilelang.jit`."""
    if isinstance(target, ast.Name) and value is not None:
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for one, its_value in zip(target.elts, value.elts):
            yield from _pairs(one, its_value)


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a file binds itself, which are not those of a starred import."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
