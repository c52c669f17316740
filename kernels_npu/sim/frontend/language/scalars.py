"""Scalar expressions: arithmetic helpers, mathematics, conversions, typed literals."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend import mainline
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.memory import dtype_name
from kernels_npu.sim.frontend.language.operands import scalar_operand
from kernels_npu.sim.frontend.values import ScalarType, StaticInt, cast_to, describe
from kernels_npu.sim.scalar_ops import is_float, promote

#: Unary functions of one scalar, by name of `T` -> name in the IR.
UNARY = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "sin": "sin", "cos": "cos", "tanh": "tanh", "floor": "floor", "ceil": "ceil", "round": "round",
    "trunc": "trunc", "bitwise_not": "bitnot",
}  # fmt: skip
#: Binary functions, by name of `T` -> name in the IR.
BINARY = {
    "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "shift_left": "shl",
    "shift_right": "shr", "floormod": "mod", "truncdiv": "floordiv", "truncmod": "mod",
    "indexdiv": "floordiv", "indexmod": "mod", "floordiv": "floordiv", "pow": "pow", "power": "pow",
    "fmod": "mod", "div": "div",
}  # fmt: skip
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
)  # fmt: skip


def _both_python(a: Any, b: Any) -> bool:
    return not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr)


def _static(value: bool | int | float) -> bool | int | float:
    return StaticInt(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _scalar(name: str, value: Any) -> ir.Expr:
    return scalar_operand(name, "argument", value)


def _term(name: str, value: Any) -> ir.ScalarLike:
    """An operand of a binary operation: a Python number takes the dtype of the other side."""
    return value if isinstance(value, (bool, int, float)) else _scalar(name, value)


def unary(name: str) -> Callable[[Any], ir.Expr]:
    """`T.exp` and its kind."""
    op = UNARY[name]

    def function(x: Any) -> ir.Expr:
        value = _scalar(name, x)
        if not isinstance(value, ir.Const) and not is_float(value.dtype) and op != "bitnot":
            fail(
                "AI-SRC-012",
                f"T.{name} of {describe(x)}",
                rule=f"T.{name} takes a floating-point scalar",
                fix='convert first: T.cast(x, "float32")',
            )
        return ir.unary(op, value)

    function.__name__ = name
    return function


def binary(name: str) -> Callable[[Any, Any], Any]:
    """`T.floordiv` and its kind; Python numbers stay Python numbers."""
    op = BINARY[name]

    def function(a: Any, b: Any) -> Any:
        result = ir.binary(op, _term(name, a), _term(name, b))
        return (
            _static(result.value) if isinstance(result, ir.Const) and _both_python(a, b) else result
        )

    function.__name__ = name
    return function


def ceildiv(lhs: Any, rhs: Any) -> Any:
    """`T.ceildiv(a, b)`: `(a + b - 1) // b`; an int for ints."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return StaticInt(-(-lhs // rhs))
    a, b = _scalar("ceildiv", lhs), _scalar("ceildiv", rhs)
    return (a + (b - 1)) // b


def _extreme(name: str, a: Any, b: Any) -> Any:
    if _both_python(a, b):
        _term(name, a), _term(name, b)
        return _static(builtins.min(a, b) if name == "min" else builtins.max(a, b))
    return ir.binary(name, _term(name, a), _term(name, b))


def min(a: Any, b: Any) -> Any:
    """`T.min(a, b)`."""
    return _extreme("min", a, b)


def max(a: Any, b: Any) -> Any:
    """`T.max(a, b)`."""
    return _extreme("max", a, b)


def abs(x: Any) -> Any:
    """`T.abs(x)`."""
    return builtins.abs(x) if isinstance(x, (int, float)) else ir.unary("abs", _scalar("abs", x))


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """`T.clamp(x, low, high)` of a scalar."""
    return min(max(dst, min_val), max_val)


def sigmoid(x: Any) -> ir.Expr:
    """`1 / (1 + exp(-x))`."""
    value = _scalar("sigmoid", x)
    return 1.0 / (1.0 + ir.unary("exp", -value))


def if_then_else(cond: Any, t: Any, f: Any) -> ir.Expr:
    """`T.if_then_else(condition, a, b)`: a scalar choice."""
    test, a, b = (_scalar("if_then_else", v) for v in (cond, t, f))
    if isinstance(test, ir.Const):
        return a if test.value else b
    dtype = a.dtype if a.dtype == b.dtype else promote("add", a.dtype, b.dtype)
    return ir.Select(test, cast_to(a, dtype), cast_to(b, dtype), dtype)


def _logic(name: str, values: tuple[Any, ...]) -> Any:
    if not values:
        fail("AI-SRC-009", f"T.{name} takes at least one condition")
    result = values[0]
    for value in values[1:]:
        result = ir.binary(name.lower(), _scalar(name, result), _scalar(name, value))
    return result


def And(*conditions: Any) -> Any:
    """`T.And(a, b, ...)`; all are evaluated."""
    return _logic("And", conditions)


def Or(*conditions: Any) -> Any:
    """`T.Or(a, b, ...)`; all are evaluated."""
    return _logic("Or", conditions)


def Not(a: Any) -> ir.Expr:
    """`T.Not(a)`."""
    return ir.unary("not", _scalar("Not", a))


def cast(value: Any, dtype: Any) -> ir.Expr:
    """`T.cast(value, dtype)`."""
    return cast_to(_scalar("cast", value), dtype_name(dtype))


def Cast(dtype: Any, value: Any) -> ir.Expr:
    """`T.Cast(dtype, value)`."""
    return cast(value, dtype)


def reinterpret(dtype: Any, value: Any) -> ir.Expr:
    """`T.reinterpret(dtype, value)`: the same bits as another dtype."""
    return ir.Reinterpret(_scalar("reinterpret", value), dtype_name(dtype))


def infinity(dtype: Any) -> ir.Const:
    """`T.infinity(dtype)`."""
    return ir.Const(math.inf, dtype_name(dtype))


_FLOAT_MAX = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
}


def _limit(dtype: Any, low: bool) -> ir.Const:
    name = dtype_name(dtype)
    if is_float(name):
        top = _FLOAT_MAX.get(name, 1.7976931348623157e308)
        return ir.Const(-top if low else top, name)
    bits = int("".join(c for c in name if c.isdigit()) or 1)
    if name.startswith("int"):
        return ir.Const(-(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1, name)
    return ir.Const(0 if low else 2**bits - 1, name)


def min_value(dtype: Any) -> ir.Const:
    """The least finite value of a dtype."""
    return _limit(dtype, low=True)


def max_value(dtype: Any) -> ir.Const:
    """The greatest finite value of a dtype."""
    return _limit(dtype, low=False)


def use_swizzle(
    cid: Any = None,
    m: Any = None,
    n: Any = None,
    k: Any = None,
    block_m: Any = None,
    block_n: Any = None,
    off: int = 1,
    dir: int = 0,
    in_loop: bool = False,
    **mainline_options: Any,
) -> ir.Expr:
    """`T.use_swizzle(cid, M, N, K, block_M, block_N, off, dir)`: a permutation of the block index.

    The permutation only steers the L2 cache; every block is still done once, so the index is kept.
    """
    del k, off, dir, in_loop
    if mainline_options or block_m is None or block_n is None:
        mainline.refuse_swizzle(describe(cid))
    if m % block_m or n % block_n:
        fail(
            "AI-SRC-032",
            f"T.use_swizzle: M={m}, N={n}, block_M={block_m}, block_N={block_n}",
            rule="m and n must be divisible by block_m and block_n",
            fix="leave the swizzle out for ragged shapes",
        )
    return _scalar("use_swizzle", cid)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: unary(name) for name in UNARY},
    **{name: binary(name) for name in BINARY},
    **{name: ScalarType(name) for name in DTYPES},
    "min": min,
    "Min": min,
    "max": max,
    "Max": max,
    "abs": abs,
    "clamp": clamp,
    "sigmoid": sigmoid,
    "ceildiv": ceildiv,
    "if_then_else": if_then_else,
    "Select": if_then_else,
    "And": And,
    "all": And,
    "Or": Or,
    "any": Or,
    "Not": Not,
    "cast": cast,
    "Cast": Cast,
    "reinterpret": reinterpret,
    "infinity": infinity,
    "min_value": min_value,
    "max_value": max_value,
    "use_swizzle": use_swizzle,
}
