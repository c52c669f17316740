"""What the generated code of `T.Parallel` calls: index arrays in, elements read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine import functions
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.scalar_math import int_range

#: Per dimension of a buffer an integer or an array of indices, which together broadcast; or slices
#: in the order of the loop's variables, with None where a variable is missing.
Index = tuple[Any, ...]
#: Called with the first index that lies outside.
OutOfRange = Callable[[tuple[int, ...]], None]


def cast_scalar_unit(value: AnyArray, dtype: str) -> AnyArray:
    """A conversion by the scalar unit: floats to integers toward zero, saturating."""
    target = numpy_dtype(dtype)
    array = np.asarray(value)
    if target.kind in "iu" and array.dtype.kind not in "iub":
        low, high = int_range(dtype)
        wide = np.nan_to_num(np.trunc(array.astype(np.float64)), nan=0.0, posinf=high, neginf=low)
        array = np.clip(wide, low, high)
    converted: AnyArray = array.astype(target)
    return converted


def _divide_integers(a: AnyArray, b: AnyArray) -> AnyArray:
    quotient = np.abs(a) // np.abs(b)
    return np.where((np.asarray(a) < 0) == (np.asarray(b) < 0), quotient, -quotient)


def _remainder(a: AnyArray, b: AnyArray) -> AnyArray:
    return np.fmod(a, b)


def _reinterpret(value: AnyArray, source: str, target: str) -> AnyArray:
    return np.ascontiguousarray(np.asarray(value, numpy_dtype(source))).view(numpy_dtype(target))


def _both(a: AnyArray | None, b: AnyArray) -> AnyArray:
    bits = np.asarray(b, dtype=bool)
    return bits if a is None else a & bits


def place(
    index: Index, shape: tuple[int, ...], mask: AnyArray | None, outside: OutOfRange | None
) -> Index:
    """`index` inside `shape`; what lies outside is reported unless `mask` excludes it.

    Excluded elements become in-range ones; so do all outside when nothing is to be reported.
    """
    arrays = [np.asarray(i) for i in index]
    wrong = [(a < 0) | (a >= size) for a, size in zip(arrays, shape)]
    if not any(bool(w.any()) for w in wrong):
        return index
    bad = np.logical_or.reduce(np.broadcast_arrays(*wrong))
    seen = bad if mask is None else bad & mask
    if outside is not None and seen.any():
        first = tuple(np.argwhere(seen)[0])
        outside(tuple(int(np.broadcast_to(a, seen.shape)[first]) for a in arrays))
    return tuple(np.clip(a, 0, max(size - 1, 0)) for a, size in zip(arrays, shape))


def elements(index: Index) -> int:
    """How many elements `index` names."""
    shape = np.broadcast_shapes(*(np.shape(i) for i in index))
    return int(np.prod(shape, dtype=np.int64))


def scatter(target: AnyArray, index: Index, value: AnyArray, mask: AnyArray | None) -> None:
    """`target[index] = value` where `mask` is set."""
    array = np.asarray(value)
    if array.dtype != target.dtype:
        array = array.astype(target.dtype)
    if any(i is None or isinstance(i, slice) for i in index):
        target[index] = array
        return
    masked = () if mask is None else mask.shape
    shape = np.broadcast_shapes(masked, array.shape, *(np.shape(i) for i in index))
    places = tuple(np.broadcast_to(i, shape) for i in index)
    if mask is None:
        target[places] = array
        return
    chosen = np.broadcast_to(mask, shape)
    target[tuple(p[chosen] for p in places)] = np.broadcast_to(array, shape)[chosen]


_UNARY: dict[str, Callable[..., object]] = {
    "neg": np.negative,
    "not": np.logical_not,
    "bitnot": np.bitwise_not,
    "abs": np.abs,
    "exp": functions.exp,
    "exp2": functions.exp2,
    "log": functions.log,
    "log2": functions.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": functions.sin,
    "cos": functions.cos,
    "tanh": functions.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}

SERVICES: dict[str, object] = {
    **{f"p_{name}": function for name, function in _UNARY.items()},
    "p_min": np.minimum,
    "p_max": np.maximum,
    "p_pow": np.power,
    "p_where": np.where,
    "p_and": np.logical_and,
    "p_or": np.logical_or,
    "p_both": _both,
    "p_cast": cast_scalar_unit,
    "p_view": _reinterpret,
    "p_div": _divide_integers,
    "p_mod": _remainder,
    "p_place": place,
    "p_scatter": scatter,
    "p_elements": elements,
}
