"""Scalar arithmetic of generated programs where Python's differs from the device's.

Integers wrap at their width and divide toward zero; floats follow IEEE (an overflow is an infinity,
an invalid operation a NaN) and round to their dtype after every operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.scalar_ops import is_float, trunc_div, trunc_mod


def int_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype or bool."""
    if dtype == "bool":
        return 0, 1
    bits = int("".join(c for c in dtype if c.isdigit()))
    return (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.startswith("int") else (0, (1 << bits) - 1)
    )


def wrap_int(value: int, dtype: str) -> int:
    """`value` modulo the width of an integer dtype."""
    low, high = int_range(dtype)
    return (int(value) - low) % (high - low + 1) + low


def float_to_int(value: float, dtype: str) -> int:
    """Toward zero, saturating; NaN is 0."""
    low, high = int_range(dtype)
    if value != value:
        return 0
    return low if value <= low else high if value >= high else int(value)


def round_to(value: float, dtype: str) -> float:
    """The nearest value of a float dtype."""
    return float(np.asarray(value, dtype=numpy_dtype(dtype)))


def reinterpret(value: float, source: str, target: str) -> float | int:
    """The bits of `value` in `source` as `target`."""
    bits = np.asarray(value, dtype=numpy_dtype(source)).view(numpy_dtype(target)).item()
    return float(bits) if is_float(target) else int(bits)


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_divide(a: float, b: float) -> float:
    return _keeping_special(math.floor)(_divide(a, b))


def _remainder(a: float, b: float) -> float:
    try:
        return math.fmod(a, b)
    except ValueError:
        return math.nan


def _power(a: float, b: float) -> float:
    try:
        result = float(a) ** float(b)
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf if a > 0 or float(b) % 2 == 0 else -math.inf
    return math.nan if isinstance(result, complex) else result


def _total(
    function: Callable[[float], float], overflow: float = math.inf
) -> Callable[[float], float]:
    """`function` with NaN outside its domain and `overflow` beyond its range."""

    def compute(a: float) -> float:
        try:
            return function(a)
        except ValueError:
            return math.nan
        except OverflowError:
            return overflow

    return compute


def _keeping_special(function: Callable[[float], int]) -> Callable[[float], float]:
    def compute(a: float) -> float:
        return float(function(a)) if math.isfinite(a) else a

    return compute


def _log(function: Callable[[float], float]) -> Callable[[float], float]:
    return _total(lambda a: -math.inf if a == 0 else function(a))


def _rsqrt(a: float) -> float:
    return math.inf if a == 0 else 1.0 / math.sqrt(a)


UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "not": lambda a: not a,
    "bitnot": lambda a: ~int(a),
    "abs": abs,
    "exp": _total(math.exp),
    "exp2": _total(lambda a: 2.0**a),
    "log": _log(math.log),
    "log2": _log(math.log2),
    "sqrt": _total(math.sqrt),
    "rsqrt": _total(_rsqrt),
    "sin": _total(math.sin),
    "cos": _total(math.cos),
    "tanh": math.tanh,
    "floor": _keeping_special(math.floor),
    "ceil": _keeping_special(math.ceil),
    "round": _keeping_special(round),
    "trunc": _keeping_special(math.trunc),
}

#: Unary operations whose result needs no rounding.
EXACT_UNARY = frozenset({"neg", "not", "bitnot", "abs", "floor", "ceil", "round", "trunc"})

#: Names that generated code may use; the code generator puts them into its globals.
SERVICES: dict[str, object] = {
    **{f"u_{name}": function for name, function in UNARY.items()},
    "math": math,
    "inf": math.inf,
    "nan": math.nan,
    "trunc_div": trunc_div,
    "trunc_mod": trunc_mod,
    "wrap_int": wrap_int,
    "float_to_int": float_to_int,
    "round_to": round_to,
    "single": np.float32,
    "reinterpret": reinterpret,
    "fdiv": _divide,
    "ffloordiv": _floor_divide,
    "fmod": _remainder,
    "power": _power,
}
