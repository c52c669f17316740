"""The syntax tree of a function, with the line numbers of the user's file."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from kernels_npu.errors import KernelSourceError, SourceLocation


@dataclass(frozen=True, kw_only=True)
class FunctionSource:
    """A function's definition; `node` has line numbers of `file`, `text` includes decorators."""

    file: str
    node: ast.FunctionDef
    text: str

    def at(self, node: ast.AST) -> SourceLocation:
        """The user's location of `node`."""
        return SourceLocation(self.file, getattr(node, "lineno", self.node.lineno))

    @property
    def loc(self) -> SourceLocation:
        """The `def` line."""
        return SourceLocation(self.file, self.node.lineno)


#: Text of a file -> its functions by (name, first line); a factory called often is parsed once.
_parsed: dict[str, dict[tuple[str, int], ast.FunctionDef]] = {}


def _functions(text: str, file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    found = _parsed.get(text)
    if found is None:
        found = {}
        for node in ast.walk(ast.parse(text, file)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                found[node.name, first] = node
        _parsed[text] = found
    return found


def read_source(fn: FunctionType) -> FunctionSource:
    """The source of `fn`.

    Raises:
        KernelSourceError: AI-SRC-001 when the text cannot be found (interactive input, a lambda).
    """
    code = fn.__code__
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, fn.__globals__)
    if lines:
        node = _functions("".join(lines), file).get((fn.__name__, code.co_firstlineno))
        if node is not None:
            text = "".join(lines[code.co_firstlineno - 1 : node.end_lineno])
            return FunctionSource(file=file, node=node, text=textwrap.dedent(text))
    return _read_by_inspect(fn)


def _read_by_inspect(fn: FunctionType) -> FunctionSource:
    where = SourceLocation(fn.__code__.co_filename, fn.__code__.co_firstlineno)
    try:
        lines, first = inspect.getsourcelines(fn)
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError, IndentationError) as exc:
        raise KernelSourceError(
            "AI-SRC-001",
            f"the source of {fn.__qualname__} cannot be read ({exc})",
            where=where,
            rule="a kernel is parsed from its source text",
            fix="define the kernel with `def` in a .py file",
        ) from exc
    node = tree.body[0] if tree.body else None
    if not isinstance(node, ast.FunctionDef):
        raise KernelSourceError(
            "AI-SRC-001",
            f"{fn.__qualname__} is not a `def` function",
            where=where,
            rule="a kernel is a plain function",
            fix="write it with `def`",
        )
    ast.increment_lineno(tree, max(first, 1) - 1)
    return FunctionSource(file=fn.__code__.co_filename, node=node, text=text)


def captured_names(fn: FunctionType) -> Mapping[str, Any]:
    """The names that `fn` can see: its module's globals and its closure, without builtins."""
    names = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the enclosing function has not bound it yet
            names.pop(name, None)
    return names


def builtin(name: str) -> Any:
    """A Python builtin, or KeyError."""
    return vars(builtins)[name]
