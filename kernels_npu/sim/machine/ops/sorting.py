"""Sorting of (value, index) pairs: sort, topk, sort32, merge_sort, init_sort_buf.

All lists are in descending order of their values; equal values keep the order of their indices.
"""

from __future__ import annotations

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    TaintRule,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view, shape_of, static_int
from kernels_npu.sim.machine.ops.elementwise import clamped, counted, same_dtype

_GROUP = 32  # elements that one step of the sorting unit orders
_SORTABLE = ("float32", "float16")
_RECORD = 8  # bytes of one element of a sorted list of hardware: value and index


def _check_dtype(stmt: ir.TileOp, view: View, context: LoweringContext) -> None:
    if view.buffer.dtype not in _SORTABLE:
        context.note(
            "AI-TYPE-001",
            "error",
            f"{stmt.op} of {view.buffer.dtype} ({view.buffer.name}): the vector unit sorts "
            "float32 and float16; cast first",
            stmt,
        )


def descending(values: AnyArray) -> AnyArray:
    """The order of `values` along the last axis, greatest first; ties keep their order."""
    # Reversed twice: a stable ascending sort of the reversed list puts later ties first.
    last = values.shape[-1] - 1
    order: AnyArray = last - np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return order


def _pairs(order: AnyArray, values: AnyArray, out: AnyArray) -> None:
    """The first pairs (value, position as a number) of `values` in `order`, as many as fit."""
    shown = min(out.size // 2, order.size)
    pairs = out[: 2 * shown].reshape(shown, 2)
    chosen = order[:shown]
    pairs[:, 0] = values[chosen]
    pairs[:, 1] = chosen


def _sort(count: int, source: AnyArray, out: AnyArray) -> None:
    if source.itemsize == 2:  # half is sorted as float in a scratch buffer
        source = source.astype(np.float32)
    source[max(0, int(count)) :] = -np.inf
    with np.errstate(over="ignore"):  # half has no index above 65504: infinity, as on the device
        _pairs(descending(source), source, out)


def _taint(count: ir.Expr) -> TaintRule:
    """What lies behind the sorted count is replaced before it is read."""
    known = int(count.value) if isinstance(count, ir.Const) else 0
    return lambda sources, shape: np.full(shape, sources[0][:known].all())


def _sorted_length(stmt: ir.TileOp, source: View) -> int:
    """Elements that take part, a multiple of 32; for topk the sizes of the source are added up."""
    if stmt.op == "topk":
        given = sum(shape_of(source.buffer, stmt.loc))
    else:
        count = stmt.attrs.get("actual_num")
        given = count if isinstance(count, int) else source.count
    return -(-given // _GROUP) * _GROUP


@lowers("sort", "topk")
def lower_sort(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`sort(dst, src, n)` and `topk(dst, src, K, n)`: pairs (value, index as a number) of src[:n].

    What src holds behind n becomes -inf. topk keeps the first K pairs, up to whole 32 bytes.
    """
    whole_dst, whole_src = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    _check_dtype(stmt, whole_src, context)
    same_dtype(stmt, whole_dst, whole_src)
    length = _sorted_length(stmt, whole_src)
    results, unit = 2 * length, 32 // whole_dst.itemsize
    if stmt.op == "topk":
        wanted = static_int(stmt.attrs["K"], stmt.loc, "K")  # type: ignore[arg-type]
        results = min(results, -(-2 * wanted // unit) * unit)
    count = ir.as_expr(stmt.attrs["actual_num"])  # type: ignore[arg-type]
    if isinstance(count, ir.Const) and not 0 < int(count.value) <= length:
        context.note(
            "AI-BOUND-031",
            "error",
            f"{stmt.op} of {count.value} elements of {whole_src.buffer.name}, "
            f"of which it takes {length} (the sizes of its dimensions, added up); "
            "give it a one-dimensional source that is large enough",
            stmt,
        )
    src = counted(stmt, whole_src, length, context)
    # The last 32 bytes that topk writes may lie in the padding behind its destination.
    if whole_dst.count < results <= -(-whole_dst.count // unit) * unit:
        results = whole_dst.count
    dst = counted(stmt, whole_dst, results, context)
    # float32 is padded where it lies, half in a scratch buffer.
    pads = src.itemsize == 4 and not (isinstance(count, ir.Const) and count.value == length)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_sort,
        args=(count, src, dst),
        reads=(src,),
        writes=(dst, src) if pads else (dst,),
        cycles=cost.vector(length * 8, 2 + length.bit_length()),
        taint=_taint(count),
    )


# --------------------------------------------------------------------------- sort32


def _sort32(values: AnyArray, indices: AnyArray, out: AnyArray) -> None:
    groups = values.reshape(-1, _GROUP)
    order = descending(groups)
    records = out.view(np.uint8).reshape(len(groups), _GROUP, _RECORD)
    records[:] = 0  # half has two bytes of padding between value and index
    ordered = np.take_along_axis(groups, order, axis=1)
    records[:, :, : values.itemsize] = ordered.view(np.uint8).reshape(len(groups), _GROUP, -1)
    chosen = np.take_along_axis(indices.reshape(-1, _GROUP), order, axis=1)
    records[:, :, 4:] = chosen.view(np.uint8).reshape(len(groups), _GROUP, 4)


@lowers("sort32")
def lower_sort32(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`sort32(dst, src, idx)`: each 32 elements become 8-byte records (value, uint32 index)."""
    whole_dst, whole_src, whole_index = (flat_view(o, stmt.loc) for o in stmt.operands[:3])
    _check_dtype(stmt, whole_src, context)
    if whole_index.buffer.dtype != "uint32":
        context.note(
            "AI-TYPE-005",
            "error",
            f"sort32 indices {whole_index.buffer.name} are {whole_index.buffer.dtype}; "
            "they are of dtype uint32",
            stmt,
        )
    length = whole_src.count // _GROUP * _GROUP
    src, index = (counted(stmt, v, length, context) for v in (whole_src, whole_index))
    dst = counted(stmt, whole_dst, length * _RECORD // whole_dst.itemsize, context)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_sort32,
        args=(src, index, dst),
        reads=(src, index),
        writes=(dst,),
        cycles=cost.vector(length * _RECORD),
        taint=lambda sources, shape: np.full(shape, all(s.all() for s in sources)),
    )


# --------------------------------------------------------------------------- merge_sort


def _merge(*arrays: AnyArray) -> None:
    *lists, out = arrays
    pairs = np.concatenate([a.reshape(-1, 2) for a in lists])
    order = descending(pairs[:, 0])
    out.reshape(-1, 2)[:] = pairs[order]


@lowers("merge_sort")
def lower_merge(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`merge_sort(dst, list0, list1, ...)`: merges two to four descending lists of pairs."""
    whole_dst, *lists = (flat_view(o, stmt.loc) for o in stmt.operands)
    for item in lists:
        same_dtype(stmt, whole_dst, item)
    if whole_dst.buffer.dtype != "float32":
        context.note(
            "AI-TYPE-001",
            "error",
            f"merge_sort of {whole_dst.buffer.dtype} pairs ({whole_dst.buffer.name}): the sorting "
            "unit reads records of 8 bytes, which a pair of half elements does not fill; "
            "sort and merge in float32",
            stmt,
        )
    if context.target == "pto" and len({item.count for item in lists}) > 1:
        sizes = ", ".join(f"{item.buffer.name} {item.count // 2}" for item in lists)
        context.note(
            "AI-BOUND-032",
            "error",
            f"merge_sort of lists of different lengths ({sizes}): target pto takes the length of "
            "the first for all; pad the lists to one length",
            stmt,
        )
    length = sum(item.count // 2 * 2 for item in lists)
    sources = [clamped(v, v.count // 2 * 2) for v in lists]
    dst = counted(stmt, whole_dst, length, context)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_merge,
        args=(*sources, dst),
        reads=tuple(sources),
        writes=(dst,),
        cycles=cost.vector(length * dst.itemsize, 2),
        taint=lambda sources, shape: np.full(shape, all(s.all() for s in sources)),
    )


# --------------------------------------------------------------------------- init_sort_buf


def _initialise(out: AnyArray) -> None:
    words = out.view(np.uint32)
    words[0::2] = 0xFF800000  # minus infinity
    words[1::2] = 0xFFFFFFFF  # no index


def _plain_count(value: object) -> int | None:
    return value if isinstance(value, int) else None


@lowers("init_sort_buf")
def lower_init(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`init_sort_buf(buffer, num, rsv)`: empty pairs (-inf, -1).

    The generated code passes `rsv` where the library expects the number of elements.
    """
    whole = flat_view(stmt.operands[0], stmt.loc)
    wanted, passed = (_plain_count(stmt.attrs.get(k)) for k in ("num", "rsv"))
    if wanted != passed:
        context.note(
            "AI-BOUND-033",
            "error",
            f"init_sort_buf of {wanted} elements of {whole.buffer.name}: the compiler passes rsv "
            f"({passed}) as the number of elements; give both the same value",
            stmt,
        )
    words = (wanted if wanted is not None else whole.count) // 64 * 64
    dst = counted(stmt, whole, words * 4 // whole.itemsize, context)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_initialise,
        args=(dst,),
        writes=(dst,),
        cycles=cost.vector(words * 4, 2),
    )
