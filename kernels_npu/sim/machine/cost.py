"""Modelled cycles of a named, deliberately simple model; a relative measure, never a time.

Vector: one 256-byte repeat per cycle per pass plus an issue overhead. Moves: bytes over the path
width plus a start-up. Cube: one 16x16x16 fp16 fractal product per cycle. The constants are round
numbers for orientation, not measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels_npu.sim.machine.operands import View

MODEL = "issue+repeat/1"

_VECTOR_ISSUE = 16
_REPEAT_BYTES = 256
_FRACTAL = 16
_FRACTAL_ROW_BYTES = 32
_MOVE_START = {"MTE1": 32, "MTE2": 256, "MTE3": 256, "FIX": 128}
_MOVE_BYTES_PER_CYCLE = {"MTE1": 256, "MTE2": 64, "MTE3": 64, "FIX": 128}


@dataclass(frozen=True)
class Arithmetic:
    """The operations of one instruction, as the device's counters have them, and their dtype.

    A repeat counts on all its lanes and a product in whole fractals, whether the tile fills them or
    not; a multiply-add of the cube is two operations, of the vector unit one.
    """

    dtype: str
    operations: int


def vector(nbytes: int, passes: int = 1) -> int:
    """Cycles of a vector operation over `nbytes` of its widest operand."""
    return _VECTOR_ISSUE + passes * -(-nbytes // _REPEAT_BYTES)


def move(pipe: str, nbytes: int) -> int:
    """Cycles of a data move of `nbytes` on `pipe`."""
    return _MOVE_START[pipe] + -(-nbytes // _MOVE_BYTES_PER_CYCLE[pipe])


def cube(m: int, n: int, k: int, itemsize: int) -> int:
    """Cycles of an m x n x k product with `itemsize`-byte inputs."""
    return _VECTOR_ISSUE + _fractals(m, n, k, itemsize)


def lanes(count: int, itemsize: int) -> int:
    """`count` elements, rounded up to whole repeats."""
    width = _REPEAT_BYTES // itemsize
    return -(-count // width) * width


def on_lanes(tile: View, count: int | None = None) -> Arithmetic:
    """The operations of a vector instruction over `count` elements of `tile`, by default all."""
    return Arithmetic(
        tile.buffer.dtype, lanes(tile.count if count is None else count, tile.itemsize)
    )


def product(m: int, n: int, k: int, dtype: str, itemsize: int) -> Arithmetic:
    """The operations of an m x n x k product."""
    each = 2 * _FRACTAL * _FRACTAL * (_FRACTAL_ROW_BYTES // itemsize)
    return Arithmetic(dtype, _fractals(m, n, k, itemsize) * each)


def _fractals(m: int, n: int, k: int, itemsize: int) -> int:
    k_step = _FRACTAL_ROW_BYTES // itemsize
    return -(-m // _FRACTAL) * -(-n // _FRACTAL) * -(-k // k_step)
