"""Modelled cycles of a named, deliberately simple model; a relative measure, never a time.

Vector: one 256-byte repeat per cycle per pass plus an issue overhead. Moves: bytes over the path
width plus a start-up. Cube: one 16x16x16 fp16 fractal product per cycle. The constants are round
numbers for orientation, not measurements.
"""

from __future__ import annotations

MODEL = "issue+repeat/1"

_VECTOR_ISSUE = 16
_REPEAT_BYTES = 256
_MOVE_START = {"MTE1": 32, "MTE2": 256, "MTE3": 256, "FIX": 128}
_MOVE_BYTES_PER_CYCLE = {"MTE1": 256, "MTE2": 64, "MTE3": 64, "FIX": 128}


def vector(nbytes: int, passes: int = 1) -> int:
    """Cycles of a vector operation over `nbytes` of its widest operand."""
    return _VECTOR_ISSUE + passes * -(-nbytes // _REPEAT_BYTES)


def move(pipe: str, nbytes: int) -> int:
    """Cycles of a data move of `nbytes` on `pipe`."""
    return _MOVE_START[pipe] + -(-nbytes // _MOVE_BYTES_PER_CYCLE[pipe])


def cube(m: int, n: int, k: int, itemsize: int) -> int:
    """Cycles of an m x n x k product with `itemsize`-byte inputs."""
    k_step = 32 // itemsize
    return _VECTOR_ISSUE + (-(-m // 16)) * (-(-n // 16)) * (-(-k // k_step))
