"""Operations of `T.tile` whose arguments have rules that a table row cannot say."""

from __future__ import annotations

from typing import Any, NoReturn

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.copy import rectangle
from kernels_npu.sim.frontend.language.operands import (
    Call,
    Row,
    attr,
    emit,
    make,
    scalar_operand,
    strict_source,
    tile,
    tile_operand,
    whole,
)
from kernels_npu.sim.frontend.language.shapes import shape_of, static_shape
from kernels_npu.sim.frontend.values import BoundRegion, PendingOp, describe

SELECT_MODES = ("VSEL_CMPMASK_SPR", "VSEL_TENSOR_SCALAR_MODE", "VSEL_TENSOR_TENSOR_MODE")
GATHER_PATTERNS = ("P0101", "P1010", "P0001", "P0010", "P0100", "P1000", "P1111")


# --------------------------------------------------------------------------- fill


def fill(buffer: Any, value: Any) -> PendingOp:
    """`T.tile.fill(tile, value)`; a buffer of one element as value means that element."""
    dst = tile_operand("tile.fill", "buffer", buffer)
    if isinstance(value, ir.Buffer) and all(constant(n) == 1 for n in value.shape):
        zeros = tuple(ir.Const(0, "int32") for _ in value.shape)
        value = ir.Load(value, zeros, value.dtype)
    return emit("tile.fill", "fill", (dst, scalar_operand("tile.fill", "value", value)), {})


def clear(buffer: Any) -> PendingOp:
    """`T.tile.clear(tile)`: fill with zero."""
    dst = tile_operand("tile.clear", "buffer", buffer, allow_bound=True)
    return emit("tile.clear", "fill", (plain(dst), ir.Const(0, "int32")), {})


def plain(value: ir.Buffer | ir.Region) -> ir.Buffer | ir.Region:
    """A named slice as an ordinary region."""
    if isinstance(value, BoundRegion):
        return ir.Region(value.buffer, value.mins, value.extents)
    return value


# --------------------------------------------------------------------------- select


def _check_select(call: Call) -> None:
    if shape_of(call["dst"]) != shape_of(call["src0"]):
        call.refuse(
            "AI-SRC-014",
            f"dst {show(shape_of(call['dst']))} and src0 {show(shape_of(call['src0']))}",
            rule="dst and src0 must have the same shape",
            fix="slice the larger one",
        )
    src1, mode = call["src1"], call["selMode"]
    if isinstance(src1, ir.Region):
        call.refuse(
            "AI-SRC-012", f"src1 is {describe(src1)}", rule="src1 is a whole buffer or a scalar",
            fix="pass the whole buffer",
        )  # fmt: skip
    is_scalar = isinstance(src1, ir.Expr) and not isinstance(src1, ir.Load)
    if is_scalar != (mode == "VSEL_TENSOR_SCALAR_MODE"):
        call.refuse(
            "AI-SRC-016",
            f"{mode} with {describe(src1)} as src1",
            rule="VSEL_TENSOR_SCALAR_MODE takes a scalar, "
            "the other modes take a buffer or an element",
            fix="choose the mode that fits src1",
        )


SELECT = Row(
    name="select",
    op="select",
    params=(
        tile("dst"), whole("selMask"), tile("src0"), strict_source("src1"),
        attr("selMode", "mode", choices=SELECT_MODES),
    ),
    checks=(_check_select,),
)  # fmt: skip


# --------------------------------------------------------------------------- broadcast


def broadcast(dst: Any, src: Any, axis: int | None = None) -> PendingOp:
    """`T.tile.broadcast(dst, src, axis=None)`: replicate `src` along the axis where it has size 1.

    Raises:
        KernelSourceError: AI-SRC-018 when the shapes do not broadcast.
    """
    name = "tile.broadcast"
    target, operand = tile_operand(name, "dst", dst), tile_operand(name, "src", src)
    chosen = _broadcast_axis(
        static_shape(name, target)[-2:], static_shape(name, operand)[-2:], axis
    )
    return emit(name, "broadcast", (target, operand), {"axis": chosen})


def _broadcast_axis(dst: tuple[int, ...], src: tuple[int, ...], axis: Any) -> int:
    if len(src) == 1 and len(dst) == 2:
        if axis == 0 or (axis is None and dst[1] == src[0]):
            src, axis = (1, src[0]), 0
        elif axis == 1 or (axis is None and dst[0] == src[0]):
            src, axis = (src[0], 1), 1
        else:
            _refuse_broadcast(dst, src, f"Cannot broadcast 1D src to 2D dst, axis={axis}")
    if len(src) != len(dst):
        _refuse_broadcast(dst, src, f"Dimension mismatch: dst_dim={len(dst)} != src_dim={len(src)}")
    if axis is None:
        stretches_columns = len(dst) == 2 and src[1] == 1 and dst[1] != 1
        axis = 1 if stretches_columns and not (src[0] == 1 and dst[0] != 1) else 0
    if isinstance(axis, bool) or not isinstance(axis, int) or axis not in range(len(dst)):
        _refuse_broadcast(dst, src, f"axis must be 0 or 1, got {axis}")
    if src[axis] != 1 and src != dst:
        _refuse_broadcast(dst, src, f"Shapes must match when src[{axis}] != 1")
    if len(dst) == 2 and src[axis] == 1 and src[1 - axis] != dst[1 - axis]:
        other = 1 - axis
        _refuse_broadcast(
            dst, src,
            f"Broadcast dimension mismatch: src[{other}]={src[other]} != dst[{other}]={dst[other]}",
        )  # fmt: skip
    return int(axis)


def _refuse_broadcast(dst: tuple[int, ...], src: tuple[int, ...], why: str) -> NoReturn:
    fail(
        "AI-SRC-018",
        f"T.tile.broadcast: {why} (src {show(src)}, dst {show(dst)})",
        rule="src has size 1 along one axis and the size of dst along the other",
        fix="reshape the source to [rows, 1] or [1, cols]",
    )


# --------------------------------------------------------------------------- gather_mask


def _check_pattern(call: Call) -> None:
    pattern = call["src1Pattern"]
    if isinstance(pattern, ir.Buffer) and pattern.dtype != "uint32":
        call.refuse(
            "AI-SRC-032",
            f"src1Pattern is {pattern.dtype}",
            rule="src1Pattern dtype must be uint32",
            fix="allocate the pattern as uint32, or T.reinterpretcast it",
        )


def gather_mask(dst: Any, src: Any, src1Pattern: Any) -> PendingOp:
    """`T.tile.gather_mask(dst, src, pattern)` with a pattern name or a uint32 buffer of indices."""
    is_text = isinstance(src1Pattern, str)
    return (_GATHER_BY_NAME if is_text else _GATHER_BY_BUFFER)(dst, src, src1Pattern)


_GATHER_BY_NAME = make(
    Row(
        name="gather_mask",
        op="gather_mask",
        params=(
            whole("dst"),
            whole("src"),
            attr("src1Pattern", "pattern", choices=GATHER_PATTERNS),
        ),
    ),
    "tile.",
)
_GATHER_BY_BUFFER = make(
    Row(
        name="gather_mask",
        op="gather_mask",
        params=(whole("dst"), whole("src"), whole("src1Pattern")),
        checks=(_check_pattern,),
    ),
    "tile.",
)


# --------------------------------------------------------------------------- merge_sort


def merge_sort(dst: Any, src0: Any, src1: Any, src2: Any = None, src3: Any = None) -> PendingOp:
    """`T.tile.merge_sort(dst, s0, s1[, s2[, s3]])`: merge two to four descending pair lists."""
    name = "tile.merge_sort"
    given = {"dst": dst, "src0": src0, "src1": src1, "src2": src2, "src3": src3}
    operands = [tile_operand(name, k, v) for k, v in given.items() if v is not None]
    if len(operands) < 3:
        fail(
            "AI-SRC-032",
            f"T.{name}: {len(operands) - 1} source buffer",
            rule="merge_sort requires 2-4 source buffers",
            fix="pass src0 and src1; T.tile.sort sorts one list",
        )
    return emit(name, "merge_sort", operands, {})


# --------------------------------------------------------------------------- atomic_add


def atomic_add(dst: Any, src: Any) -> PendingOp:
    """`T.tile.atomic_add(dst_gm, src)`: add a UB or L0C tile into global memory.

    Raises:
        KernelSourceError: AI-SRC-035 when dst is not global or src is.
    """
    name = "tile.atomic_add"
    target, operand = rectangle(name, "dst", dst), rectangle(name, "src", src)
    scopes = (_buffer(target).scope, _buffer(operand).scope)
    if scopes[0] != "global" or scopes[1] == "global":
        fail(
            "AI-SRC-035",
            f"T.{name}: dst is in {scopes[0]}, src in {scopes[1]}",
            rule="T.tile.atomic_add adds a local tile into global memory",
            fix="pass the tensor first and the local tile second",
        )
    if isinstance(target, ir.Load) and isinstance(operand, ir.Load):
        fail(
            "AI-SRC-035", f"T.{name}: Cannot deduce atomic_add extents.", fix="pass the whole tile"
        )
    return emit(name, "atomic_add", (target, operand), {})


def _buffer(value: ir.Buffer | ir.Region | ir.Load) -> ir.Buffer:
    return value if isinstance(value, ir.Buffer) else value.buffer


ROWS: tuple[Row, ...] = (SELECT,)
FUNCTIONS = (fill, clear, broadcast, gather_mask, merge_sort, atomic_add)
