"""Evaluation of a kernel's expressions: Python, except where a run-time value decides.

`and`, `or`, `not` and comparisons are intercepted, because they mean "compute at run time" when an
operand is an `ir.Expr`; a conditional expression with a run-time condition is refused. As in the
real parser, every operand is evaluated: there is no short circuit.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kernels_npu.errors import AscendInferError, KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.diagnostics import DialectAttributeError, fail, move_to
from kernels_npu.sim.frontend.scopes import VarTable
from kernels_npu.sim.frontend.values import PendingOp, describe
from kernels_npu.sim.scalar_ops import is_float

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_CONVERSIONS: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
#: Calls whose positional slices stay regions; elsewhere the parser makes vector loads of them.
_KEEP_SLICES = {"copy", "reads", "writes", "match_buffer", "realize"}


def is_runtime(value: object) -> bool:
    """Whether `value` is known only when the kernel runs."""
    return isinstance(value, ir.Expr) and not isinstance(value, ir.Const)


class Evaluator:
    """Evaluates expressions of one function against its names.

    Args:
        names: the visible names.
        locate: the user's location of a node.
        forget: called with an operation that a static conditional did not choose.
    """

    def __init__(
        self,
        names: VarTable,
        locate: Callable[[ast.AST], SourceLocation],
        forget: Callable[[PendingOp], None],
    ) -> None:
        self.names = names
        self._locate = locate
        self._forget = forget

    def __call__(self, node: ast.expr) -> Any:
        """The value of `node`.

        Raises:
            KernelSourceError: with the user's line; AI-SRC-004 wraps anything Python raised.
        """
        loc = self._locate(node)
        move_to(loc)
        method = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
        if method is None:
            fail(
                "AI-SRC-003",
                f"`{ast.unparse(node)}` ({type(node).__name__}) is not an expression "
                "of the dialect",
                rule="kernel expressions are names, literals, operators, calls and subscripts",
                fix="compute the value outside the kernel",
            )
        try:
            return method(node)
        except AscendInferError:
            raise
        except RecursionError:
            raise
        except Exception as exc:
            raise KernelSourceError(
                "AI-SRC-004",
                f"`{_shorten(ast.unparse(node))}` raised {type(exc).__name__}: {exc}",
                where=loc,
                rule="the kernel's text is evaluated when the kernel is built",
                fix="correct the expression; values of the device are known only at run time",
            ) from exc

    # ------------------------------------------------------------------ atoms

    def _eval_constant(self, node: ast.Constant) -> Any:
        return node.value

    def _eval_name(self, node: ast.Name) -> Any:
        try:
            return self.names.lookup(node.id)
        except KeyError:
            pass
        if self.names.left_scope(node.id):
            fail(
                "AI-SRC-002",
                f"{node.id} was bound in a nested body that has ended",
                rule="a name bound inside for/if/with is visible only there, "
                "also when the `if` is static",
                fix=f"bind {node.id} before the body, use `a if c else b`, "
                "or T.alloc_var if it changes",
            )
        close = difflib.get_close_matches(node.id, self.names.names(), n=1)
        fail(
            "AI-SRC-002",
            f"undefined variable: {node.id}",
            rule="a kernel sees its parameters, its bindings, the closure and the module",
            fix=f"did you mean {close[0]}?" if close else f"define {node.id} before the kernel",
        )

    def _eval_attribute(self, node: ast.Attribute) -> Any:
        base = self(node.value)
        move_to(self._locate(node))
        try:
            return getattr(base, node.attr)
        except DialectAttributeError as exc:
            raise DialectAttributeError(
                exc.code, exc.what, where=self._locate(node), rule=exc.rule, fix=exc.fix
            ) from None
        except AttributeError as exc:
            kind = f"module {base.__name__}" if isinstance(base, ModuleType) else describe(base)
            raise KernelSourceError(
                "AI-SRC-008",
                f"{kind} has no attribute {node.attr}",
                where=self._locate(node),
                fix="check the spelling",
            ) from exc

    def _eval_subscript(self, node: ast.Subscript, ramp: bool = False) -> Any:
        base = self(node.value)
        index = self._index(node.slice, ramp)
        move_to(self._locate(node))
        return base[index]

    def _index(self, node: ast.expr, ramp: bool) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(self._index(part, ramp) for part in node.elts)
        if isinstance(node, ast.Slice):
            lower = None if node.lower is None else self(node.lower)
            upper = None if node.upper is None else self(node.upper)
            step = None if node.step is None else self(node.step)
            if ramp and step is None and lower is not None and upper is not None:
                step = 1
            return slice(lower, upper, step)
        return self(node)

    def index(self, node: ast.expr) -> Any:
        """The value of a subscript's index, with slices."""
        return self._index(node, ramp=False)

    # ------------------------------------------------------------------ containers and text

    def _eval_tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _eval_list(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _eval_set(self, node: ast.Set) -> set[Any]:
        return set(self._items(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for part in nodes:
            if isinstance(part, ast.Starred):
                items.extend(self(part.value))
            else:
                items.append(self(part))
        return items

    def _eval_dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                result.update(self(value))
            else:
                result[self(key)] = self(value)
        return result

    def _eval_joinedstr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self(part)) for part in node.values)

    def _eval_formattedvalue(self, node: ast.FormattedValue) -> str:
        value = self(node.value)
        if node.conversion >= 0:
            value = _CONVERSIONS[chr(node.conversion)](value)
        return format(value, "" if node.format_spec is None else self(node.format_spec))

    def _python(self, node: ast.expr) -> Any:
        """Comprehensions and lambdas have scopes of their own; Python itself evaluates them."""
        code = compile(ast.Expression(node), self._locate(node).file, "eval")
        return eval(code, self.names.merged())

    _eval_listcomp = _eval_setcomp = _eval_dictcomp = _eval_generatorexp = _eval_lambda = _python

    # ------------------------------------------------------------------ operators

    def _eval_binop(self, node: ast.BinOp) -> Any:
        left, right = self(node.left), self(node.right)
        move_to(self._locate(node))
        if isinstance(node.op, ast.Div) and _both_integers(left, right):
            fail(
                "AI-SRC-034",
                f"`{_shorten(ast.unparse(node))}` divides integers with `/`",
                rule="`/` of run-time integers is ambiguous and the compiler refuses it",
                fix="write `//`, or T.cast one side to float32",
            )
        return _BINARY[type(node.op)](left, right)

    def _eval_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self(node.operand)
        move_to(self._locate(node))
        if isinstance(node.op, ast.Not):
            return ir.unary("not", value) if isinstance(value, ir.Expr) else not value
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.UAdd):
            return value if isinstance(value, ir.Expr) else +value
        return ~value

    def _eval_boolop(self, node: ast.BoolOp) -> Any:
        name = "and" if isinstance(node.op, ast.And) else "or"
        result, *rest = [self(part) for part in node.values]
        for value in rest:
            if isinstance(result, ir.Expr) or isinstance(value, ir.Expr):
                result = ir.binary(name, result, value)
            else:
                result = (result and value) if name == "and" else (result or value)
        return result

    def _eval_compare(self, node: ast.Compare) -> Any:
        values = [self(node.left), *(self(part) for part in node.comparators)]
        move_to(self._locate(node))
        if len(node.ops) == 1:
            return _COMPARE[type(node.ops[0])](values[0], values[1])
        if any(isinstance(v, ir.Expr) for v in values):
            fail(
                "AI-SRC-007",
                f"`{_shorten(ast.unparse(node))}` chains comparisons of run-time values",
                rule="the compiler reads `a < b < c` as `(a < b) < c`",
                fix="write T.And(a < b, b < c)",
            )
        steps = zip(node.ops, values, values[1:])
        return all(_COMPARE[type(op)](a, b) for op, a, b in steps)

    def _eval_ifexp(self, node: ast.IfExp) -> Any:
        test = self(node.test)
        if is_runtime(test):
            fail(
                "AI-SRC-007",
                f"`{_shorten(ast.unparse(node))}` chooses by a run-time value",
                rule="a conditional expression needs a condition "
                "that is known when the kernel is built",
                fix="use T.if_then_else(condition, a, b)",
            )
        both = (self(node.orelse), self(node.body))
        chosen = both[bool(test)]
        for value in both:
            if isinstance(value, PendingOp) and value is not chosen:
                self._forget(value)
        return chosen

    # ------------------------------------------------------------------ calls

    def _eval_call(self, node: ast.Call) -> Any:
        function = self(node.func)
        ramp = isinstance(node.func, ast.Attribute) and node.func.attr not in _KEEP_SLICES
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.extend(self(arg.value))
            elif isinstance(arg, ast.Subscript) and ramp:
                move_to(self._locate(arg))
                args.append(self._eval_subscript(arg, ramp=True))
            else:
                args.append(self(arg))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords.update(self(keyword.value))
            else:
                keywords[keyword.arg] = self(keyword.value)
        move_to(self._locate(node))
        return function(*args, **keywords)


def _both_integers(left: object, right: object) -> bool:
    runtime = isinstance(left, ir.Expr) or isinstance(right, ir.Expr)
    return runtime and not any(
        isinstance(v, float) or (isinstance(v, ir.Expr) and is_float(v.dtype))
        for v in (left, right)
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
