"""Sizes of operands, and the checks that compare them."""

from __future__ import annotations

from collections.abc import Sequence

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import Call, Check
from kernels_npu.sim.frontend.values import describe, is_bound


def shape_of(value: ir.Operand) -> tuple[ir.Expr | int, ...]:
    """The shape of a buffer, the extents of a slice; ints where known."""
    if isinstance(value, ir.Buffer):
        extents: Sequence[ir.Expr | int] = value.shape
    elif isinstance(value, ir.Region):
        extents = value.extents
    else:
        return ()
    return tuple(e if (n := constant(e)) is None else n for e in extents)


def static_shape(name: str, value: ir.Operand) -> tuple[int, ...]:
    """The shape as ints.

    Raises:
        KernelSourceError: AI-SRC-015 when an extent is known only at run time.
    """
    shape = shape_of(value)
    bound = isinstance(value, ir.Region) and any(is_bound(e) for e in value.extents)
    if bound or not all(isinstance(n, int) for n in shape):
        why = "depends on a name bound inside the kernel" if bound else "is known only at run time"
        fail(
            "AI-SRC-015",
            f"T.{name}: an extent of {describe(value)} {why}",
            rule="size must be same: the compiler compares static element counts only",
            fix="use an extent from the factory's arguments; "
            "let T.copy clip at the tensor's border",
        )
    return tuple(int(n) for n in shape if isinstance(n, int))


def count_of(name: str, value: ir.Operand) -> int:
    """The number of elements."""
    total = 1
    for extent in static_shape(name, value):
        total *= extent
    return total


def same_size(*names: str) -> Check:
    """The named tiles have the same number of elements; scalars are skipped."""

    def check(call: Call) -> None:
        tiles = [(n, call[n]) for n in names if isinstance(call[n], (ir.Buffer, ir.Region))]
        counts = {n: count_of(call.name, v) for n, v in tiles}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{n} {show(shape_of(v))} = {counts[n]}" for n, v in tiles)
            call.refuse(
                "AI-SRC-014",
                f"size must be same: {listed} elements",
                rule="elementwise operands have the same number of elements",
                fix="slice the larger operand, or T.tile.broadcast the smaller one",
            )

    return check


def same_size_slice(first: str, other: str) -> Check:
    """`other` must match `first` when it is a slice; the compiler does not check whole buffers."""
    both = same_size(first, other)

    def check(call: Call) -> None:
        if isinstance(call[other], ir.Region):
            both(call)

    return check
