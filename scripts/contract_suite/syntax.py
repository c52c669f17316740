"""Small questions to a syntax tree: what a statement binds, what a function takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KINDS = inspect.Parameter


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those below `if`, `try` and `with` included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
                yield from statements(getattr(node, field, []))


def bound_names(node: ast.stmt) -> set[str]:
    """Names that a statement binds itself; `*` for a star import."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inside = (name for target in targets for name in ast.walk(target))
        return {name.id for name in inside if isinstance(name, ast.Name)}
    return set()


def literal_names(tree: ast.Module, variable: str) -> frozenset[str] | None:
    """The strings of `variable = [...]` with all `+=`; None when absent or computed."""
    names: list[str] | None = None
    for node in statements(tree.body):
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if ast.unparse(target) != variable:
            continue
        try:
            values = list(ast.literal_eval(node.value))
        except (ValueError, TypeError):
            return None
        names = values if isinstance(node, ast.Assign) else [*(names or []), *values]
    return None if names is None else frozenset(names)


def absolute(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    """The module that `from ... import` names, seen from `module`."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function is read and set, not called."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return any(d.endswith(("property", ".setter")) for d in decorators)


def unpacked(node: ast.Call) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Arguments and keywords of a call, with those written out behind `*` and `**` in place."""
    arguments: list[ast.expr] = []
    for argument in node.args:
        inside = argument.value if isinstance(argument, ast.Starred) else None
        arguments += inside.elts if isinstance(inside, (ast.Tuple, ast.List)) else [argument]
    keywords: list[ast.keyword] = []
    for keyword in node.keywords:
        value = keyword.value
        names = value.keys if keyword.arg is None and isinstance(value, ast.Dict) else [None]
        texts = [n.value for n in names if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        if isinstance(value, ast.Dict) and len(texts) == len(names):
            keywords += map(ast.keyword, texts, value.values)
        else:
            keywords.append(keyword)
    return arguments, keywords


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
