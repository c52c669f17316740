"""Operands of tile operations as typed runs and boxes of bytes.

A tile operation takes a *flat run* (start offset, element count) or a *tile* (rows x cols,
with the row pitch of the buffer). Global memory is addressed by a *rectangle* that the
tensor's border clips.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.soc import MEMORY_OF_SCOPE


@dataclass(frozen=True, eq=False)
class View:
    """`rows` x `cols` elements of an on-chip buffer, `pitch` elements apart, `offset` elements in.

    `flat` views are handed to NumPy as 1-D arrays of `cols` elements (rows is 1). overruns: the
    program asked for more elements than the buffer has, and was told so. part: elements in the
    middle of an operand, which need not start on a boundary of the memory. open: the start and the
    number of rows are known at run time only; as many rows as move, `rows` at most. An open view
    arrives as all elements from its start.
    """

    buffer: ir.Buffer
    offset: ir.Expr
    rows: int
    cols: int
    pitch: int
    flat: bool
    overruns: bool = False
    part: bool = False
    open: bool = False

    @property
    def count(self) -> int:
        return self.rows * self.cols

    @property
    def itemsize(self) -> int:
        return bytes_of(self.buffer.dtype)

    @property
    def memory(self) -> str:
        return MEMORY_OF_SCOPE[self.buffer.scope]

    @property
    def contiguous(self) -> bool:
        return self.rows == 1 or self.pitch == self.cols


@dataclass(frozen=True, eq=False)
class Rect:
    """A rectangle of a global tensor: its first indices, and the two dimensions that extend."""

    buffer: ir.Buffer
    mins: tuple[ir.Expr, ...]
    row_dim: int | None
    rows: ir.Expr
    cols: ir.Expr


def static_int(value: ir.Expr | int, loc: SourceLocation, what: str) -> int:
    """`value` as a Python int; extents of on-chip operands must be constants."""
    if isinstance(value, int):
        return value
    if isinstance(value, ir.Const):
        return int(value.value)
    raise KernelSourceError(
        "AI-SRC-050",
        f"{what} is known only at run time",
        where=loc,
        rule="extents of on-chip slices and tile operations are compile-time constants",
        fix="slice with a constant extent and handle the tail with a copy from global memory",
    )


def shape_of(buffer: ir.Buffer, loc: SourceLocation) -> tuple[int, ...]:
    """Static shape of an on-chip buffer."""
    return tuple(static_int(d, loc, f"the shape of {buffer.name}") for d in buffer.shape)


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def linear(shape: tuple[int, ...], indices: tuple[ir.Expr, ...]) -> ir.Expr:
    """Flat element offset of `indices` in a buffer of `shape`."""
    offset: ir.Expr = ir.Const(0, "int32")
    for index, stride in zip(indices, strides_of(shape)):
        if isinstance(index, ir.Const) and index.value == 0:
            continue
        term = index if stride == 1 else index * stride
        offset = term if isinstance(offset, ir.Const) and offset.value == 0 else offset + term
    return offset


def mins_extents(
    operand: ir.Operand, loc: SourceLocation
) -> tuple[ir.Buffer, tuple[ir.Expr, ...], tuple[ir.Expr, ...] | None]:
    """Buffer, first indices and extents of an operand; an element has no extents of its own."""
    if isinstance(operand, ir.Buffer):
        zeros = tuple(ir.Const(0, "int32") for _ in operand.shape)
        return operand, zeros, tuple(ir.as_expr(d) for d in operand.shape)
    if isinstance(operand, ir.Region):
        return operand.buffer, operand.mins, operand.extents
    if isinstance(operand, ir.Load):
        return operand.buffer, operand.indices, None
    raise KernelSourceError(
        "AI-SRC-051",
        "a scalar stands where a buffer is needed",
        where=loc,
        rule="this operand is a buffer, a slice of one, or one of its elements",
        fix="pass the buffer that holds the data",
    )


def flat_view(operand: ir.Operand, loc: SourceLocation) -> View:
    """The contiguous run a vector operation takes: from the region's start, all its elements."""
    buffer, mins, extents = mins_extents(operand, loc)
    require_on_chip(buffer, loc)
    shape = shape_of(buffer, loc)
    count = 1
    for extent in extents or ():
        count *= static_int(extent, loc, f"the extent of a slice of {buffer.name}")
    if extents is not None and not isinstance(operand, ir.Buffer):
        _require_contiguous(buffer, shape, extents, loc)
    return View(buffer, linear(shape, mins), 1, count, count, flat=True)


def flat_run(operand: ir.Operand, count: int, loc: SourceLocation) -> View:
    """`count` elements from where the operand starts, whatever its extents are."""
    buffer, mins, _ = mins_extents(operand, loc)
    require_on_chip(buffer, loc)
    return View(buffer, linear(shape_of(buffer, loc), mins), 1, count, count, flat=True)


def tile_view(operand: ir.Operand, loc: SourceLocation) -> View:
    """Rows and columns of an operand: its last two extents, rows at the buffer's pitch."""
    buffer, mins, extents = mins_extents(operand, loc)
    require_on_chip(buffer, loc)
    shape = shape_of(buffer, loc)
    if extents is None:
        extents = tuple(ir.Const(1, "int32") for _ in shape)
    sizes = [static_int(e, loc, f"the extent of a slice of {buffer.name}") for e in extents]
    rows = sizes[-2] if len(sizes) > 1 else 1
    return View(buffer, linear(shape, mins), rows, sizes[-1], shape[-1], flat=False)


def require_on_chip(buffer: ir.Buffer, loc: SourceLocation) -> None:
    """Vector and cube units cannot address global memory."""
    if buffer.scope == "global":
        raise KernelSourceError(
            "AI-SRC-052",
            f"{buffer.name} is a global tensor",
            where=loc,
            rule="tile operations work on on-chip buffers; global memory is reached by T.copy only",
            fix=f"copy {buffer.name} into a UB or L1 buffer first",
        )


def _require_contiguous(
    buffer: ir.Buffer, shape: tuple[int, ...], extents: tuple[ir.Expr, ...], loc: SourceLocation
) -> None:
    sizes = [static_int(e, loc, f"the extent of a slice of {buffer.name}") for e in extents]
    first = next((i for i, size in enumerate(sizes) if size != 1), len(sizes))
    if any(sizes[i] != shape[i] for i in range(first + 1, len(sizes))):
        raise KernelSourceError(
            "AI-SRC-053",
            f"the slice of {buffer.name}{list(shape)} with extents {sizes} is not contiguous",
            where=loc,
            rule="a vector operation takes a contiguous run; the device ignores the row pitch of a "
            "column slice and would silently process other elements",
            fix="loop over the rows, or copy the columns into a compact buffer first",
        )
