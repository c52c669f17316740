"""Arguments for factories that nothing has called: found in the file's text.

A call anywhere in the file counts, also in functions and under `if __name__ == "__main__"`, when
its arguments are constants, names with a constant value, defaults of the enclosing function,
values of `pytest.mark.parametrize`, or defaults of argparse options. Nothing is executed.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Union

#: Combinations of parametrised values tried per call.
_MOST_COMBINATIONS = 64
#: How many callers up the arguments of a call are followed.
_MOST_CALLERS = 2

_SAFE_NODES = (
    ast.Expression,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Subscript,
    ast.Slice,
    ast.UnaryOp,
    ast.unaryop,
    ast.BinOp,
    ast.operator,
    ast.BoolOp,
    ast.boolop,
    ast.Compare,
    ast.cmpop,
    ast.IfExp,
)


#: What evaluating an expression raises when its value is known only to the running script.
_UNKNOWN = (LookupError, NameError, AttributeError, TypeError, ValueError, ArithmeticError)


_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class _Options:
    """What `parser.parse_args()` gives when no option is passed."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self.__dict__.update(defaults)


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def found_calls(
    text: str, file: str, name: str, globals_: Mapping[str, Any]
) -> Iterator[Arguments]:
    """Positional and keyword arguments of the calls of `name` in the file, where they are known."""
    tree = ast.parse(text, file)
    search = _Search(tree, globals_, _Options(_option_defaults(tree, globals_)))
    yield from search.calls(name, depth=_MOST_CALLERS)


class _Search:
    """Follows the file's text with the values that are known at each place."""

    def __init__(self, tree: ast.Module, globals_: Mapping[str, Any], options: _Options) -> None:
        self._tree = tree
        self._globals = dict(globals_)
        self._options = options

    def calls(self, name: str, depth: int) -> Iterator[Arguments]:
        """Known arguments of the calls of `name`; callers of callers up to `depth`."""
        yield from self._calls_in(self._tree.body, name, dict(self._globals), depth)

    def _calls_in(
        self, body: list[ast.stmt], name: str, scope: dict[str, Any], depth: int
    ) -> Iterator[Arguments]:
        """The calls in `body`, with what its assignments make known, in program order."""
        for stmt in body:
            if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for inner in itertools.islice(
                    self._bindings(stmt, scope, depth), _MOST_COMBINATIONS
                ):
                    yield from self._calls_in(stmt.body, name, scope | inner, depth)
                continue
            for call in (n for e in _own_expressions(stmt) for n in ast.walk(e)):
                if isinstance(call, ast.Call) and _called_name(call) == name:
                    arguments = _arguments(call, scope)
                    if arguments is not None:
                        yield arguments
            if isinstance(stmt, ast.Assign):
                _assign(stmt, scope, self._options)
            if isinstance(stmt, ast.For):
                for binding in _iterations(stmt, scope):
                    yield from self._calls_in(stmt.body, name, scope | binding, depth)
            elif isinstance(nested := getattr(stmt, "body", None), list):
                yield from self._calls_in(nested, name, scope, depth)
            for field in ("orelse", "finalbody"):
                yield from self._calls_in(getattr(stmt, field, []), name, scope, depth)

    def _bindings(
        self, function: _Function, scope: Mapping[str, Any], depth: int
    ) -> Iterator[dict[str, Any]]:
        """Values of a function's parameters: defaults, parametrisations, its own callers."""
        base, rows = _declared_values(function, scope)
        positional = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        callers: list[dict[str, Any]] = []
        if depth and not rows and any(arg not in base for arg in positional):
            callers = [
                {**dict(zip(positional, args)), **kwargs}
                for args, kwargs in self.calls(function.name, depth - 1)
            ]
        for values in callers or rows or [{}]:
            yield {**base, **values}


def _own_expressions(stmt: ast.stmt) -> list[ast.AST]:
    """The expressions of `stmt` itself, without nested statements."""
    return [
        child
        for child in ast.iter_child_nodes(stmt)
        if not isinstance(child, (ast.stmt, ast.arguments))
    ]


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _arguments(
    call: ast.Call, scope: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    try:
        args: list[Any] = []
        for arg in call.args:
            if isinstance(arg, ast.Starred):
                args.extend(evaluate(arg.value, scope))
            else:
                args.append(evaluate(arg, scope))
        kwargs: dict[str, Any] = {}
        for keyword in call.keywords:
            value = evaluate(keyword.value, scope)
            kwargs.update(value if keyword.arg is None else {keyword.arg: value})
    except _UNKNOWN:  # the value is known only when the script runs
        return None
    return tuple(args), kwargs


def evaluate(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of an expression without calls.

    Raises:
        LookupError: it calls something or names something unknown; also whatever its operators
            raise.
    """
    for part in ast.walk(node):
        if not isinstance(part, _SAFE_NODES):
            raise LookupError(ast.dump(part))
    code = compile(ast.Expression(node), "<argument>", "eval")
    return eval(code, {"__builtins__": {}}, dict(scope))


def _assign(stmt: ast.Assign, scope: dict[str, Any], options: _Options) -> None:
    for target in stmt.targets:
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        try:
            if _is_parse_args(stmt.value):
                value: Any = options
            else:
                value = evaluate(stmt.value, scope)
            if isinstance(target, ast.Name):
                scope[target.id] = value
            elif isinstance(target, (ast.Tuple, ast.List)):
                scope.update(zip(names, value, strict=True))
        except _UNKNOWN:  # known only when the script runs: so is what is made of it
            for name in names:
                scope.pop(name, None)


def _is_parse_args(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called_name(node) in ("parse_args", "parse_known_args")


def _iterations(stmt: ast.For, scope: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a loop over constants binds; one empty binding when the values are not known."""
    names = [n.id for n in ast.walk(stmt.target) if isinstance(n, ast.Name)]
    try:
        values = list(evaluate(stmt.iter, scope))[:_MOST_COMBINATIONS]
        if isinstance(stmt.target, ast.Name):
            yield from ({names[0]: value} for value in values)
        else:
            yield from (dict(zip(names, value, strict=True)) for value in values)
    except _UNKNOWN:
        yield {}


def _declared_values(
    function: _Function, scope: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Defaults of a function's parameters, and the rows of its parametrisations combined."""
    defaults: dict[str, Any] = {}
    positional = [*function.args.posonlyargs, *function.args.args]
    given: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(positional[::-1], function.args.defaults[::-1])
    )
    given += list(zip(function.args.kwonlyargs, function.args.kw_defaults))
    for arg, default in given:
        if default is not None:
            try:
                defaults[arg.arg] = evaluate(default, scope)
            except _UNKNOWN:
                continue
    choices = [rows for mark in function.decorator_list if (rows := _parametrised(mark, scope))]
    combined = itertools.islice(itertools.product(*choices), _MOST_COMBINATIONS)
    rows = [{k: v for row in rows for k, v in row.items()} for rows in combined]
    return defaults, rows if choices else []


def _parametrised(decorator: ast.expr, scope: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of `@pytest.mark.parametrize(names, values)`."""
    if not isinstance(decorator, ast.Call) or _called_name(decorator) != "parametrize":
        return []
    try:
        names, values = (evaluate(a, scope) for a in decorator.args[:2])
        split = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
        if len(split) == 1:
            return [{split[0]: value} for value in values]
        return [dict(zip(split, value, strict=True)) for value in values]
    except _UNKNOWN:
        return []


def _option_defaults(tree: ast.Module, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of the options that the file adds to an argparse parser."""
    found: dict[str, Any] = {}
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        if _called_name(call) != "add_argument":
            continue
        names = [a.value for a in call.args if isinstance(a, ast.Constant)]
        long = [str(n).lstrip("-").replace("-", "_") for n in names if str(n).startswith("--")]
        keywords = {k.arg: k.value for k in call.keywords}
        try:
            if long and "default" in keywords:
                found[long[0]] = evaluate(keywords["default"], scope)
            elif long and evaluate(keywords["action"], scope) == "store_true":
                found[long[0]] = False
        except _UNKNOWN:
            continue
    return found
