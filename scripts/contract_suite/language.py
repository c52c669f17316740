"""The language of a clone of tilelang-ascend: its own names, and those that come from its TVM.

The clone re-exports TVM's script parser, which it holds as a submodule and so without files. A
name from there counts as known when the clone's own examples or tests use it; its parameters stay
unknown.
"""

from __future__ import annotations

import ast

from contract_suite.packages import Package
from contract_suite.surface import Definition, Surface

LANGUAGE = "tilelang.language"
_MODULES = (LANGUAGE, f"{LANGUAGE}.tile")
_EVIDENCE = ("examples/", "testing/")


def surface(package: Package) -> Surface:
    """Names of the clone, with TVM's as `external`."""
    return Surface(package, _external(package))


def all_names(package: Package) -> set[str]:
    """All names of the language, dotted."""
    own = Surface(package)
    names = {f"{module}.{name}" for module in _MODULES for name in own.names(_real(own, module))}
    return names | set(_external(package))


def _real(own: Surface, module: str) -> str:
    found = own.find(module)
    return found.where if found else module


def _external(package: Package) -> dict[str, Definition]:
    used: dict[str, Definition] = {}
    for folder in _EVIDENCE:
        for file in package.files(folder):
            try:
                tree = ast.parse(package.text(file) or "")
            except SyntaxError:
                continue  # a template, which shows nothing
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "T":
                    where = f"tvm.script.parser.tir, as used in {file}"
                    found = Definition(kind="external", where=where)
                    used.setdefault(f"{LANGUAGE}.{node.attr}", found)
    own = Surface(package)
    return {name: found for name, found in used.items() if own.find(name) is None}
