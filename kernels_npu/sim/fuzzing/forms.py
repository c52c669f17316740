"""Statements over whole tiles, as text of the dialect and as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.dtypes import numpy_dtype

Array = npt.NDArray[Any]

FLOATS = ("float32", "float16")
NUMBERS = (*FLOATS, "int32")

#: Shapes of a value: a whole tile [rows, cols], or one number per row, or one per column.
TILE, PER_ROW, PER_COLUMN = "tile", "per_row", "per_column"


@dataclass(frozen=True, kw_only=True)
class Form:
    """One kind of statement.

    text: lines with {d} for the destination, {a} and {b} for sources, {k} for a constant, {rows},
    {cols} and {count} of a tile, {mask} for a buffer of packed bits. compute: the destination's
    value from the sources and the constant, in the destination's dtype. dtypes: of the first
    source. dtype: of the destination, where it is another one. takes, gives: shapes. fresh: whether
    the destination may not be a source. exact: whether any order of computing gives the same bits.
    halved: whether the compiler's automatic split over two vector cores covers it. scalar: whether
    the scalar unit executes it.
    """

    text: str
    compute: Callable[..., Array]
    sources: int = 1
    dtypes: tuple[str, ...] = NUMBERS
    dtype: str = ""
    takes: str = TILE
    gives: str = TILE
    constant: bool = False
    fresh: bool = False
    exact: bool = True
    halved: bool = False
    scalar: bool = False


def _rounded_once(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` in double precision, rounded to the dtype of its argument."""

    def compute(a: Array) -> Array:
        rounded: Array = function(a.astype(np.float64)).astype(a.dtype)
        return rounded

    return compute


def _binary(name: str, function: Callable[..., Array]) -> list[Form]:
    return [
        Form(text=f"T.tile.{name}({{d}}, {{a}}, {{b}})", compute=function, sources=2, halved=True),
        Form(
            text=f"T.tile.{name}({{d}}, {{a}}, {{k}})", compute=function, constant=True, halved=True
        ),
    ]


def _elements(expression: str, function: Callable[..., Array], **options: Any) -> Form:
    text = "for i, j in T.Parallel({rows}, {cols}):\n    {d}[i, j] = " + expression
    return Form(text=text, compute=function, **options)


def _smaller(a: Array, b: Array) -> Array:
    """What a comparison and a selection by it make of two tiles."""
    chosen: Array = np.where(a < b, a, b)
    return chosen


def _keep_row(a: Array, k: Array) -> Array:
    """What a scalar loop makes of the tile's first row."""
    changed: Array = a.copy()
    changed[0] = a[0] * k + k
    return changed


FORMS: tuple[Form, ...] = (
    *_binary("add", np.add),
    *_binary("sub", np.subtract),
    *_binary("mul", np.multiply),
    *_binary("max", np.maximum),
    *_binary("min", np.minimum),
    Form(text="T.tile.abs({d}, {a})", compute=np.abs, dtypes=FLOATS, halved=True),
    Form(text="T.tile.relu({d}, {a})", compute=lambda a: np.maximum(a, a.dtype.type(0)),
         dtypes=FLOATS, halved=True),
    Form(text="T.tile.fill({d}, {k})", compute=lambda a, k: np.full_like(a, k), constant=True,
         halved=True),
    Form(text="T.copy({a}, {d})", compute=np.copy, fresh=True),
    Form(text="T.tile.min({d}, {a}, 3.0)\nT.tile.exp({d}, {d})", dtypes=("float32",), halved=True,
         compute=lambda a: _rounded_once(np.exp)(np.minimum(a, a.dtype.type(3)))),
    Form(text="T.tile.min({d}, {a}, 3.0)\nT.tile.exp({d}, {d})", dtypes=("float16",), halved=True,
         compute=lambda a: _rounded_once(np.exp)(np.minimum(a, a.dtype.type(3))), exact=False),
    Form(text="T.tile.abs({d}, {a})\nT.tile.sqrt({d}, {d})", dtypes=FLOATS, halved=True,
         compute=lambda a: _rounded_once(np.sqrt)(np.abs(a))),
    Form(text="T.tile.abs({d}, {b})\nT.tile.add({d}, {d}, 1.0)\nT.tile.div({d}, {a}, {d})",
         compute=lambda a, b: a / (np.abs(b) + a.dtype.type(1)), sources=2, dtypes=FLOATS,
         fresh=True, halved=True),
    Form(text='T.tile.cast({d}, {a}, "CAST_NONE", {count})', dtypes=("float16",), dtype="float32",
         compute=lambda a: a.astype(np.float32)),
    Form(text='T.tile.cast({d}, {a}, "CAST_RINT", {count})', dtypes=("float32",), dtype="float16",
         compute=lambda a: a.astype(np.float16)),
    Form(text='T.tile.cast({d}, {a}, "CAST_NONE", {count})', dtypes=("bfloat16",), dtype="float32",
         compute=lambda a: a.astype(np.float32)),
    Form(text='T.tile.cast({d}, {a}, "CAST_RINT", {count})', dtypes=("float32",), dtype="bfloat16",
         compute=lambda a: a.astype(numpy_dtype("bfloat16"))),
    Form(text='T.tile.cast({d}, {a}, "CAST_RINT", {count})', dtypes=("int32",), dtype="float32",
         compute=lambda a: a.astype(np.float32)),
    Form(text='T.tile.compare({mask}, {a}, {b}, "LT")\n'
         'T.tile.select({d}, {mask}, {a}, {b}, "VSEL_TENSOR_TENSOR_MODE")',
         compute=_smaller, sources=2, dtypes=FLOATS, fresh=True),
    Form(text="T.reduce_max({a}, {d}, dim=-1)", compute=lambda a: a.max(axis=1),
         dtypes=("float32",), gives=PER_ROW),
    Form(text="T.reduce_min({a}, {d}, dim=0)", compute=lambda a: a.min(axis=0),
         dtypes=("float32",), gives=PER_COLUMN),
    Form(text="T.reduce_sum({a}, {d}, dim=-1)", compute=lambda a: a.sum(axis=1, dtype=np.float64)
         .astype(np.float32), dtypes=("float32",), gives=PER_ROW, exact=False),
    Form(text="T.tile.add({d}, {a}, {k})", compute=np.add, dtypes=("float32",), takes=PER_ROW,
         gives=PER_ROW, constant=True),
    Form(text="T.tile.broadcast({d}, {a}, axis=1)", dtypes=("float32",), takes=PER_ROW,
         compute=lambda a, shape: np.broadcast_to(a[:, None], shape).copy()),
    Form(text="T.tile.broadcast({d}, {a}, axis=0)", dtypes=("float32",), takes=PER_COLUMN,
         compute=lambda a, shape: np.broadcast_to(a[None, :], shape).copy()),
    _elements("{a}[i, j] * {b}[i, j] + {k}", lambda a, b, k: a * b + k, sources=2, constant=True),
    _elements("T.max({a}[i, j], {b}[i, j])", np.maximum, sources=2, dtypes=FLOATS),
    Form(text="T.copy({a}, {d})\nfor j in T.serial({cols}):\n    {d}[0, j] = {a}[0, j] * {k} + {k}",
         compute=_keep_row, dtypes=("float32", "int32"), constant=True, fresh=True, scalar=True),
)  # fmt: skip
