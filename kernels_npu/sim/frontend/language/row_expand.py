"""Operations that apply one scalar per row, and the block broadcast that prepares them."""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, show
from kernels_npu.sim.frontend.language.operands import Call, Row, attr, optional, strided, tile
from kernels_npu.sim.frontend.language.shapes import shape_of


def _check_row_expand(call: Call) -> None:
    dst, src0 = shape_of(call["dst"]), shape_of(call["src0"])
    if isinstance(call["dst"], ir.Region):
        dst = _folded(dst)
    if isinstance(call["src0"], ir.Region):
        src0 = _folded(src0)
    dst, src0 = dst[-2:], src0[-2:]
    if len(dst) != 2 or len(src0) != 2:
        call.refuse("AI-SRC-032", f"dst {show(dst)}, src0 {show(src0)}", rule="both must be 2D")
    if show(dst) != show(src0):
        call.refuse(
            "AI-SRC-032", f"dst and src0 shapes must match: dst={show(dst)}, src0={show(src0)}"
        )
    scalars = _scalar_count(call, dst)
    if show(scalars) != show(dst[0]):
        call.refuse(
            "AI-SRC-032",
            f"src1 scalar count must match dst rows: src1={show(scalars)}, dst[0]={show(dst[0])}",
            fix="give src1 one element per row",
        )


def _folded(shape: tuple[ir.Expr | int, ...]) -> tuple[ir.Expr | int, ...]:
    """Leading extents folded into rows, the last kept as columns."""
    rows: ir.Expr | int = 1
    for extent in shape[:-1]:
        rows = rows * extent
    return (rows, shape[-1])


def _scalar_count(call: Call, dst: tuple[ir.Expr | int, ...]) -> ir.Expr | int:
    shape = shape_of(call["src1"])
    if isinstance(call["src1"], ir.Region) and len(shape) >= 2:
        shape = shape[-1:]
    if len(shape) == 1:
        return shape[0]
    if len(shape) == 2:
        if constant(shape[0]) == 1:
            return shape[1]
        if constant(shape[1]) == 1 or (
            "experiment" in call.name and show(shape[0]) == show(dst[0])
        ):
            return shape[0]
    call.refuse("AI-SRC-032", f"src1 must be 1D [R], [1, R], or [R, 1]; got {show(shape)}")


def _row_expand(name: str, strict: bool) -> Row:
    kind = tile if strict else strided
    params = (kind("dst"), kind("src0"), kind("src1"), optional("tmp"))
    return Row(name=name, op=name, params=params, checks=(_check_row_expand,))


def _check_brcb(call: Call) -> None:
    repeat = constant(call["repeat_times"])
    shape = [constant(n) for n in shape_of(call["src"])]
    if repeat is None or None in shape:
        return
    size = 1
    for n in shape:
        size *= n or 0
    if size < repeat * 8:
        call.refuse(
            "AI-SRC-032",
            f"src has {size} elements, repeat_times is {repeat}",
            rule="src size must be not less than repeat_times * 8",
            fix=f"repeat at most {size // 8} times",
        )


_BRCB = (
    tile("dst"), tile("src"), attr("repeat_times"),
    attr("dst_blk_stride"), attr("dst_repeat_stride"),
)  # fmt: skip


ROWS: tuple[Row, ...] = (
    _row_expand("row_expand_mul", strict=True),
    *(_row_expand(f"row_expand_{op}_experiment", strict=False) for op in ("mul", "sub", "div")),
    Row(name="brcb_experiment", op="brcb_experiment", params=_BRCB, checks=(_check_brcb,)),
)
