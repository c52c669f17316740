"""Bytes that a buffer occupies on chip.

Every tile is flattened to two dimensions, its last one unchanged; in UB each row is padded to 32
bytes (a tile of one column is laid out as one row instead). A buffer with a fractal layout, the
default of L1, first grows to the highest index of that layout. The total is rounded up to 32 bytes.
"""

from __future__ import annotations

from math import prod

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bits_of, bytes_of
from kernels_npu.sim.passes.rewriting import static_int

BLOCK_BYTES = 32
FRACTAL_ROWS = 16


def align_up(value: int, alignment: int = BLOCK_BYTES) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


def physical_bytes(buffer: ir.Buffer, layout: str | None = None) -> int:
    """Bytes that the compiler reserves for `buffer`, an on-chip buffer whose scope is inferred.

    `layout` is `zn`, `nz`, another layout that only permutes, or None for a plain tile.

    Raises:
        KernelSourceError: AI-MEM-012 for an extent that is zero or known only at run time.
    """
    shape = _static_shape(buffer)
    cols = shape[-1]
    rows = _layout_elements(shape, buffer.dtype, layout) // cols
    if buffer.scope == "ub":
        if cols == 1:
            rows, cols = cols, rows
        bits = bits_of(buffer.dtype)
        cols = align_up(cols * bits, BLOCK_BYTES * 8) // bits
    return align_up(rows * cols * bytes_of(buffer.dtype))


def _static_shape(buffer: ir.Buffer) -> list[int]:
    shape = []
    for extent in buffer.shape or (1,):
        known = static_int(extent)
        if known is None or known <= 0:
            raise KernelSourceError(
                "AI-MEM-012",
                f"on-chip buffer {buffer.name!r} has an extent that is "
                + ("not constant" if known is None else f"{known}"),
                where=buffer.loc,
                rule="extents of on-chip buffers are positive constants",
                fix="allocate the largest tile and copy a part of it",
            )
        shape.append(known)
    return shape


def _layout_elements(shape: list[int], dtype: str, layout: str | None) -> int:
    """Elements up to the highest index, which the compiler bounds term by term."""
    if layout not in ("zn", "nz") or len(shape) < 2:
        return prod(shape)
    c0 = BLOCK_BYTES * 8 // bits_of(dtype)
    across, along = shape[-2:] if layout == "zn" else shape[:-3:-1]
    stripe = align_up(across, FRACTAL_ROWS) * c0
    within = min(along, c0) - 1
    highest = (across - 1) * c0 + (along - 1) // c0 * stripe + within
    return prod(shape[:-2]) * (highest + 1)
