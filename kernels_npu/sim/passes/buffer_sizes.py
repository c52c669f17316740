"""Bytes that a buffer occupies on chip.

Every tile is flattened to two dimensions, its last one unchanged; in UB each row is padded to 32 bytes
(a tile of one column is laid out as one row instead). The total is rounded up to 32 bytes.
"""

from __future__ import annotations

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bits_of, bytes_of
from kernels_npu.sim.passes.rewriting import static_int

BLOCK_BYTES = 32


def align_up(value: int, alignment: int = BLOCK_BYTES) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


def physical_bytes(buffer: ir.Buffer) -> int:
    """Bytes that the compiler reserves for `buffer`, an on-chip buffer whose scope is inferred.

    Raises:
        KernelSourceError: AI-MEM-012 for an extent that is zero or known only at run time.
    """
    shape = []
    for extent in buffer.shape:
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
    total = 1
    for known in shape:
        total *= known
    cols = shape[-1] if shape else 1
    rows = total // cols
    if buffer.scope == "ub":
        if cols == 1:
            rows, cols = cols, rows
        cols = align_up(cols * bits_of(buffer.dtype), BLOCK_BYTES * 8) // bits_of(buffer.dtype)
    return align_up(rows * cols * bytes_of(buffer.dtype))
