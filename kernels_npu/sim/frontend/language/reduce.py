"""`T.reduce_sum`, `T.reduce_max`, `T.reduce_min` and the shapes they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, same_shape, same_value, show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import emit, tile_operand
from kernels_npu.sim.frontend.language.shapes import shape_of
from kernels_npu.sim.frontend.values import PendingOp, describe

Extent = ir.Expr | int
Shape = tuple[Extent, ...]

_UNSET: Any = object()


def reduce_sum(
    buffer: Any, out: Any, dim: Any = -1, *args: Any, clear: Any = _UNSET, real_shape: Any = _UNSET
) -> PendingOp:
    """`out = (0 if clear else out) + sum(buffer, dim)`; see `_reduce`."""
    return _reduce("reduce_sum", buffer, out, dim, args, clear, real_shape)


def reduce_max(
    buffer: Any, out: Any, dim: Any = -1, *args: Any, clear: Any = _UNSET, real_shape: Any = _UNSET
) -> PendingOp:
    """`out = max(buffer, dim)`, with `clear=False` also over the old `out`; see `_reduce`."""
    return _reduce("reduce_max", buffer, out, dim, args, clear, real_shape)


def reduce_min(
    buffer: Any, out: Any, dim: Any = -1, *args: Any, clear: Any = _UNSET, real_shape: Any = _UNSET
) -> PendingOp:
    """`out = min(buffer, dim)`, with `clear=False` also over the old `out`; see `_reduce`."""
    return _reduce("reduce_min", buffer, out, dim, args, clear, real_shape)


def _reduce(
    name: str, buffer: Any, out: Any, dim: Any, extra: Sequence[Any], clear: Any, real_shape: Any
) -> PendingOp:
    """One reduction: operands (src, dst), attributes dim (0 or -1), clear, real_shape.

    Raises:
        KernelSourceError: AI-SRC-017 for a wrong axis, output shape or real_shape.
    """
    src, dst = tile_operand(name, "buffer", buffer), tile_operand(name, "out", out)
    for value in extra[:2]:
        if isinstance(value, bool) and clear is _UNSET:
            clear = value
        elif isinstance(value, (list, tuple)) and real_shape is _UNSET:
            real_shape = value
        else:
            _refuse(name, f"got {describe(value)} after dim", "clear is a bool, real_shape a pair")
    if len(extra) > 2:
        _refuse(name, f"{len(extra)} arguments after dim", "at most clear and real_shape")
    clear = True if clear is _UNSET else clear
    if not isinstance(clear, bool):
        _refuse(name, f"clear is {describe(clear)}", "clear must be a bool")
    axis = _axis(name, shape_of(src), dim)
    return _reduce_with_clear(
        src, dst, name, axis, clear, None if real_shape is _UNSET else real_shape
    )


def _reduce_with_clear(
    src: Any, dst: Any, name: str, axis: int, clear: bool, real_shape: Any
) -> PendingOp:
    """The operation, with the arguments in their places; tests of the dialect replace it."""
    shape = shape_of(src)
    logical = _real_shape(name, shape, real_shape)
    _check_out(name, shape, shape_of(dst), axis, logical, isinstance(dst, ir.Region))
    attrs: dict[str, ir.Attr] = {"dim": axis, "clear": clear, "real_shape": logical}
    return emit(name, name, (src, dst), attrs)


def _refuse(name: str, what: str, rule: str, fix: str | None = None) -> NoReturn:
    fail("AI-SRC-017", f"T.{name}: {what}", rule=rule, fix=fix)


def _real_shape(name: str, shape: Shape, real: Any) -> Shape | None:
    if real is None:
        return None
    if not isinstance(real, (list, tuple)) or len(real) != 2:
        _refuse(name, f"real_shape is {real!r}", "real_shape is [rows, cols], 0 meaning all")
    for position, value in enumerate(real):
        if isinstance(value, bool) or not isinstance(value, (int, ir.Expr)):
            _refuse(name, f"real_shape[{position}] is {describe(value)}", "extents are integers")
        number = constant(value)
        limit = constant(shape[position]) if len(shape) == 2 else None
        if number is not None and (number < 0 or (limit is not None and number > limit)):
            _refuse(
                name,
                f"real_shape[{position}]={number} for the buffer {show(shape)}",
                "a logical extent lies between 0 and the physical one",
                fix="reduce only what the buffer holds",
            )
    return tuple(n if (n := constant(v)) is not None else v for v in real)


def _axis(name: str, shape: Shape, dim: Any) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        _refuse(name, f"dim is {describe(dim)}", "dim is an integer axis")
    rank = len(shape)
    if rank not in (1, 2, 3):
        _refuse(name, f"the buffer has rank {rank}: {show(shape)}", "rank is 1, 2 or 3")
    span = 1 if rank == 1 else 2
    normalized = dim if dim >= 0 else span + dim
    if normalized not in range(span):
        allowed = {1: "0/-1 for 1D buffers", 2: "0/1/-1/-2 for 2D buffers"}.get(
            rank, "the trailing axes 0/1/-1/-2 of 3D buffers"
        )
        _refuse(
            name,
            f"dim={dim} for shape {show(shape)}",
            f"Ascend reduce only supports axis {allowed}",
            fix="reduce along the last (-1) or the last but one (0) axis",
        )
    return 0 if span == 2 and normalized == 0 else -1


def _check_out(
    name: str, shape: Shape, out: Shape, axis: int, real: Shape | None, out_is_slice: bool
) -> None:
    if len(shape) == 3:
        return
    logical = shape
    if len(shape) == 2 and real is not None:
        logical = tuple(p if r == 0 else r for r, p in zip(real, shape))
    position = axis % len(shape)
    before, after = logical[:position], logical[position + 1 :]
    expected: list[Shape] = [(*before, *after), (*before, 1, *after)]
    if len(shape) == 2 and real is not None:
        expected += [(shape[1],), (1, shape[1])]  # a physical row that is only partly valid
    if any(same_shape(out, e) for e in expected):
        return
    if out_is_slice and any(_embeds(out, e) for e in expected):
        return
    _refuse(
        name,
        f"logical input shape is {show(logical)}, physical buffer shape is {show(shape)}, "
        f"dim is {axis}, output shape is {show(out)}",
        "expected " + " or ".join(dict.fromkeys(show(e) for e in expected)),
        fix="allocate the output with one of these shapes",
    )


def _embeds(out: Shape, expected: Shape) -> bool:
    """Whether `out` is `expected` with extra dimensions of size 1."""
    rest = list(expected)
    for extent in out:
        if rest and same_value(extent, rest[0]):
            rest.pop(0)
        elif constant(extent) != 1:
            return False
    return not rest
