"""Scalar arithmetic of constant folding and generated code: dtype promotion and C semantics."""

from __future__ import annotations

import math
from collections.abc import Callable

Number = bool | int | float

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_LOGICAL = {"and", "or"}
_WIDTH = {
    "bool": 1,
    "int4": 4,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "float8_e4m3": 8,
    "float8_e5m2": 8,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
}


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def promote(op: str, a: str, b: str) -> str:
    """The dtype of `a op b`, by TVM's rules: float16 to float64 win over bfloat16, that over
    integers; among equals the wider, of one width the unsigned. Truth values count as int32.
    """
    if op in _COMPARISONS or op in _LOGICAL:
        return "bool"
    a, b = ("int32" if dtype == "bool" else dtype for dtype in (a, b))
    return max(a, b, key=_rank)


def _rank(dtype: str) -> tuple[int, int, bool]:
    family = 2 if dtype.startswith("float") else 1 if dtype == "bfloat16" else 0
    return family, _WIDTH[dtype], dtype.startswith("uint")


def is_comparison(op: str) -> bool:
    """Whether `op` compares two numbers."""
    return op in _COMPARISONS


def trunc_div(a: int, b: int) -> int:
    """C's integer division."""
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def trunc_mod(a: int, b: int) -> int:
    """C's integer remainder: the sign of the dividend."""
    return a - trunc_div(a, b) * b


def _floordiv(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return math.floor(a / b)
    return trunc_div(a, b)


def _mod(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return trunc_mod(a, b)


_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": min,
    "max": max,
    "pow": lambda a, b: a**b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "shl": lambda a, b: int(a) << int(b),
    "shr": lambda a, b: int(a) >> int(b),
    "bitand": lambda a, b: int(a) & int(b),
    "bitor": lambda a, b: int(a) | int(b),
    "bitxor": lambda a, b: int(a) ^ int(b),
}

UNARY: dict[str, Callable[[Number], Number]] = {
    "neg": lambda a: -a,
    "not": lambda a: not a,
    "bitnot": lambda a: ~int(a),
    "abs": abs,
    "exp": math.exp,
    "exp2": lambda a: 2.0**a,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}


def fold_binary(op: str, a: Number, b: Number, dtype: str) -> Number:
    """The value of a constant `a op b`; in an integer dtype `div` truncates."""
    if op == "div" and not is_float(dtype):
        return trunc_div(int(a), int(b))
    return _BINARY[op](a, b)


def fold_unary(op: str, a: Number) -> Number:
    """The value of a constant `op(a)`."""
    return UNARY[op](a)
