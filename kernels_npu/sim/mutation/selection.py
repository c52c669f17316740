"""Which files of a clone synchronise by hand, and which tests of a file lead to such a kernel."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_NAMES = frozenset(
    (
        "set_flag",
        "wait_flag",
        "pipe_barrier",
        "barrier_all",
        "set_cross_flag",
        "wait_cross_flag",
        "sync_all",
    )
)
_CALLS = re.compile(rf"\.(?:{'|'.join(sorted(_NAMES))})\(")

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_files(clone: Path) -> list[Path]:
    """Kernel files of a clone that synchronise by hand, those with the most to delete first."""
    weights: dict[Path, int] = {}
    for folder in ("examples", "testing/python"):
        for file in sorted((clone / folder).rglob("*.py")):
            calls = len(_CALLS.findall(file.read_text(encoding="utf-8", errors="replace")))
            if calls:
                weights[file] = calls
    return sorted(weights, key=lambda f: -weights[f])


def synchronising_tests(script: Path) -> list[str]:
    """Node ids of the tests whose functions mention, directly or not, one that synchronises.

    Tests without one need not run at all: nothing can be deleted in their kernels.
    """
    tree = ast.parse(script.read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _Function)}
    mentions = {name: _mentioned(node) for name, node in functions.items()}
    leading: set[str] = set()
    found = {name for name, used in mentions.items() if used & _NAMES}
    while found:
        leading |= found
        found = {name for name, used in mentions.items() if used & found} - leading
    return [f"{script}::{'::'.join(path)}" for path in _tests(tree.body, ()) if path[-1] in leading]


def _mentioned(node: ast.AST) -> set[str]:
    names = (
        child.id if isinstance(child, ast.Name) else child.attr
        for child in ast.walk(node)
        if isinstance(child, (ast.Name, ast.Attribute))
    )
    return set(names)


def _tests(body: list[ast.stmt], prefix: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The tests in a module or a class, as pytest finds them."""
    found = []
    for node in body:
        if isinstance(node, _Function) and node.name.startswith("test"):
            found.append((*prefix, node.name))
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found += _tests(node.body, (*prefix, node.name))
    return found
