"""`T.copy`: which rectangle moves is decided by the two operands; their shapes are checked here."""

from __future__ import annotations

from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import same_shape
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import emit, scalar_operand
from kernels_npu.sim.frontend.values import BoundRegion, PendingOp, RampLoad, describe, refuse_ramp

Rectangle = ir.Buffer | ir.Region | ir.Load


def rectangle(name: str, param: str, value: Any) -> Rectangle:
    """A copy operand: a buffer, a slice, or an element meaning "the tile that starts here"."""
    if isinstance(value, RampLoad):
        refuse_ramp(f"T.{name}: {param}", value)
    if isinstance(value, BoundRegion):
        return ir.Region(value.buffer, value.mins, value.extents)
    if isinstance(value, (ir.Buffer, ir.Region)):
        return value
    if isinstance(value, ir.Load) and value.buffer.scope != "var":
        return value
    fail(
        "AI-SRC-012",
        f"T.{name}: {param} is {describe(value)}",
        rule="this operand is a buffer, a slice, or the element where the tile starts",
        fix="a name bound with `x = buf[i]` is a value; write buf[i] in the call",
    )


def copy(
    src: Any,
    dst: Any,
    enable_relu: bool = False,
    transpose: bool | None = False,
    pad_value: Any = None,
) -> PendingOp:
    """`T.copy(src, dst, enable_relu=False, transpose=False, pad_value=None)`.

    Raises:
        KernelSourceError: AI-SRC-013 for two whole buffers of different shapes.
    """
    source, target = rectangle("copy", "src", src), rectangle("copy", "dst", dst)
    whole = isinstance(source, ir.Buffer) and isinstance(target, ir.Buffer)
    if whole and not transpose and not same_shape(source.shape, target.shape):  # type: ignore[union-attr]
        fail(
            "AI-SRC-013",
            f"T.copy of {describe(source)} to {describe(target)}",
            rule="two whole buffers must have the same shape, rank included",
            fix="slice the larger one, or index where its tile starts: T.copy(A[row, col], tile)",
        )
    if isinstance(source, ir.Load) and isinstance(target, ir.Load):
        fail(
            "AI-SRC-013",
            f"T.copy between two elements {describe(source)} and {describe(target)}",
            rule="Can't deduce copy extents from args: one side must be a buffer or a slice",
            fix="slice one side, or store the element with dst[i] = src[j]",
        )
    attrs: dict[str, ir.Attr] = {
        "enable_relu": _flag("enable_relu", enable_relu),
        "transpose": _flag("transpose", transpose),
        "pad_value": None if pad_value is None else _number(pad_value),
    }
    return emit("copy", "copy", (source, target), attrs)


def _flag(name: str, value: Any) -> bool:
    """A static condition; the third positional argument is easily a stray operand."""
    if value is None or isinstance(value, (bool, int, float)):
        return bool(value)
    fail(
        "AI-SRC-012",
        f"T.copy: {name} is {describe(value)}",
        rule=f"{name} is True or False when the kernel is compiled",
        fix="T.copy takes a source and a destination; pass options by keyword",
    )


def _number(value: Any) -> ir.Attr:
    expr = scalar_operand("copy", "pad_value", value)
    return expr.value if isinstance(expr, ir.Const) else expr
