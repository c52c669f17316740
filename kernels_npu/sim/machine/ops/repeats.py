"""How the vector unit addresses UB: iterations of up to 8 blocks of 32 bytes, with strides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kernels_npu.sim import ir
from kernels_npu.sim.machine.operands import View, static_int

Offsets = npt.NDArray[np.int64]

BLOCK_BYTES = 32
BLOCKS = 8


def setting(stmt: ir.TileOp, name: str) -> int:
    """An attribute that must be a constant."""
    return static_int(stmt.attrs[name], stmt.loc, name)  # type: ignore[arg-type]


def lanes(
    itemsize: int, *, repeat: int, lanes: int, block_stride: int, repeat_stride: int
) -> Offsets:
    """Element offsets [repeat, lanes]: `lanes` elements per iteration, strides in blocks."""
    per_block = BLOCK_BYTES // itemsize
    lane = np.arange(lanes)
    within = lane // per_block * block_stride * per_block + lane % per_block
    starts = np.arange(repeat) * repeat_stride * per_block
    offsets: Offsets = starts[:, None] + within[None, :]
    return offsets


def views_at(base: View, offsets: Offsets, *, part: bool = False) -> tuple[View, ...]:
    """The elements at `offsets` from the start of `base`, as few views as they make.

    part: `base` itself may start anywhere.
    """
    return tuple(
        View(
            base.buffer,
            base.offset + start if start else base.offset,
            rows,
            cols,
            pitch,
            flat=False,
            part=part or bool(start),
        )
        for start, rows, cols, pitch in _boxes(offsets)
    )


def _boxes(offsets: Offsets) -> Iterator[tuple[int, int, int, int]]:
    """(start, rows, columns, pitch) of equally long runs at equal distances."""
    places = np.unique(offsets)
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    runs = [(int(r[0]), len(r)) for r in np.split(places, breaks) if len(r)]
    while runs:
        start, cols = runs[0]
        pitch = runs[1][0] - start if len(runs) > 1 else cols
        rows = 1
        while rows < len(runs) and runs[rows] == (start + rows * pitch, cols):
            rows += 1
        yield start, rows, cols, pitch if rows > 1 else cols
        runs = runs[rows:]
