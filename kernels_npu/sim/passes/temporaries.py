"""Scratch buffers that the compiler adds to UB behind the kernel's back, before any other pass.

One byte buffer `tmp_ub` serves every operation that needs scratch and is as large as the largest
need; sort and top-k (and, for `pto`, a few more) add one typed buffer per dtype. The needs differ
by target: `ascendc` follows the AscendC library's requirements, `pto` mostly keeps a placeholder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.passes.buffer_sizes import align_up
from kernels_npu.sim.passes.rewriting import element_count, operand_buffer, static_int
from kernels_npu.sim.passes.vector_split.analysis import half_of

_REPEAT = 256


@dataclass(frozen=True, kw_only=True)
class Temporaries:
    """The hidden buffers, and which of them each operation touches, by the statement's identity."""

    buffers: tuple[ir.Buffer, ...] = ()
    of_statement: Mapping[int, tuple[ir.Buffer, ...]] = field(default_factory=dict)

    def halved(self, origins: Mapping[int, ir.TileOp]) -> Temporaries:
        """The buffers as `T.Kernel(threads=2)` halves them, for operations with these origins."""
        halves = {buffer: half_of(buffer) for buffer in self.buffers}
        of_statement = {
            new: tuple(halves[buffer] for buffer in self.of_statement[id(old)])
            for new, old in origins.items()
            if id(old) in self.of_statement
        }
        return Temporaries(buffers=tuple(halves.values()), of_statement=of_statement)


@dataclass(frozen=True, kw_only=True)
class _Need:
    """Scratch of one operation: bytes of `tmp_ub` (0: placeholder) or elements of a typed buffer.

    `rows` shapes the byte buffer as 2-D, whose rows are then padded to 32 bytes; `shape` does that
    for a typed buffer, and may hold more than the `count` elements asked for. `when_first` only
    counts while the byte buffer is still a placeholder. A need that is not `used` makes the shared
    buffer larger, but the operation itself takes another one.
    """

    count: int = 0
    dtype: str = "uint8"
    rows: int = 1
    shape: tuple[int, ...] = ()
    reduce_out: int = 0
    when_first: bool = False
    used: bool = True


def hidden_temporaries(func: ir.PrimFunc, target: str) -> Temporaries:
    """The scratch buffers of `func` for `target` (`ascendc` or `pto`).

    Raises:
        KernelSourceError: AI-MEM-011 when an operation with scratch has a size
            that is known only at run time.
    """
    rule = _pto_needs if target == "pto" else _ascendc_needs
    pool = _Pool()
    users: dict[int, list[str]] = {}
    for stmt in ir.walk(func.body):
        if isinstance(stmt, ir.TileOp):
            for need in rule(stmt):
                name = pool.ask(need)
                if need.used:
                    users.setdefault(id(stmt), []).append(name)
                if need.reduce_out:
                    users[id(stmt)].append(pool.ask_reduce_out(need.reduce_out))
    buffers = pool.buffers(func)
    return Temporaries(
        buffers=tuple(buffers.values()),
        of_statement={key: tuple(buffers[name] for name in names) for key, names in users.items()},
    )


class _Pool:
    """The largest need seen so far per buffer."""

    def __init__(self) -> None:
        self.tmp_ub: tuple[int, int] | None = None  # rows, bytes in total
        self.reduce_out = 0
        self.typed: dict[str, tuple[int, ...]] = {}

    def ask(self, need: _Need) -> str:
        if need.dtype != "uint8":
            known = self.typed.get(need.dtype)
            if known is None or need.count > math.prod(known):
                self.typed[need.dtype] = need.shape or (need.count,)
            return need.dtype
        if self.tmp_ub is None:
            self.tmp_ub = (need.rows, need.count)
        elif need.count > self.tmp_ub[1] and not (need.when_first and self.tmp_ub[1]):
            self.tmp_ub = (need.rows, need.count)
        return "uint8"

    def ask_reduce_out(self, size: int) -> str:
        self.reduce_out = max(self.reduce_out, size)
        return "reduce_out"

    def buffers(self, func: ir.PrimFunc) -> dict[str, ir.Buffer]:
        made: dict[str, ir.Buffer] = {}
        if self.tmp_ub is not None:
            rows, size = self.tmp_ub
            size = max(1, size)
            shape = (rows, size // rows) if rows > 1 else (size,)
            made["uint8"] = ir.Buffer("tmp_ub", "ub", shape, "uint8", func.loc)
        if self.reduce_out:
            made["reduce_out"] = ir.Buffer(
                "tmp_ub_reduce_out", "ub", (self.reduce_out,), "uint8", func.loc
            )
        for number, (dtype, dims) in enumerate(self.typed.items(), 1):
            made[dtype] = ir.Buffer(f"tmp_ub_{number}", "ub", dims, dtype, func.loc)
        return made


# --------------------------------------------------------------------------- operands


def _count(op: ir.TileOp, position: int) -> int:
    count = element_count(op.operands[position])
    if count is None:
        raise KernelSourceError(
            "AI-MEM-011",
            f"operand {position + 1} of T.{op.op} has a size known only at run time",
            where=op.loc,
            rule="the compiler sizes the operation's scratch buffer at compile time",
            fix="use a constant extent and mask the tail",
        )
    return count


def _dtype(op: ir.TileOp, position: int) -> str:
    buffer = operand_buffer(op.operands[position])
    return "float32" if buffer is None else buffer.dtype


def _bytes(op: ir.TileOp, position: int) -> int:
    return _count(op, position) * bytes_of(_dtype(op, position))


def _whole_bytes(op: ir.TileOp, position: int) -> int:
    """Bytes of the operand's whole buffer, also when the operand is a region of it."""
    buffer = operand_buffer(op.operands[position])
    return 0 if buffer is None else (element_count(buffer) or 0) * bytes_of(buffer.dtype)


# --------------------------------------------------------------------------- ascendc

_SRC, _DST = 1, 0  # operand positions of (dst, src, ...) operations

_ASCENDC: dict[str, Callable[[ir.TileOp], tuple[_Need, ...]]] = {
    **dict.fromkeys(("sin", "cos"), lambda op: (_Need(count=2 * _whole_bytes(op, _SRC)),)),
    "pow": lambda op: (_Need(count=2 * _whole_bytes(op, _SRC)),),
    **dict.fromkeys(
        ("clamp", "clamp_max", "clamp_min", "sigmoid", "bitwise_xor"),
        lambda op: (_Need(count=_bytes(op, _SRC)),),
    ),
    **dict.fromkeys(
        (
            "bilinear_interpolation",
            "reduce_sum_experiment",
            "reduce_sum_mask_experiment",
        ),
        lambda op: (_Need(count=_bytes(op, _SRC)),),
    ),
    **dict.fromkeys(
        ("reduce_sum", "reduce_max", "reduce_min"), lambda op: (_Need(count=_bytes(op, 0)),)
    ),
    "broadcast": lambda op: (_Need(count=_bytes(op, _DST) // 4),),
    "round": lambda op: (_Need(count=max(_REPEAT, _bytes(op, _DST))),),
    "merge_sort": lambda op: (_Need(count=_bytes(op, _DST)),),
    "sort": lambda op: (
        _Need(count=8 * _bytes(op, _SRC), used=False),
        _Need(count=8 * _count(op, _SRC), dtype=_dtype(op, _SRC)),
    ),
    "topk": lambda op: (
        _Need(count=4 * _count(op, _SRC), used=False),
        _Need(count=4 * _count(op, _SRC), dtype=_dtype(op, _SRC)),
    ),
}


def _ascendc_needs(op: ir.TileOp) -> tuple[_Need, ...]:
    rule = _ASCENDC.get(op.op)
    return () if rule is None else rule(op)


# --------------------------------------------------------------------------- pto

_PLACEHOLDER = _Need(count=1, when_first=True)


def _pto_needs(op: ir.TileOp) -> tuple[_Need, ...]:
    rule = _PTO.get(op.op)
    return () if rule is None else rule(op)


def _pto_reduce(op: ir.TileOp) -> tuple[_Need, ...]:
    source = operand_buffer(op.operands[0])
    if source is None:
        return ()
    shape = [static_int(extent) or 0 for extent in source.shape]
    rows, cols = (1, shape[0]) if len(shape) == 1 else (shape[-2], shape[-1])
    kept = op.attrs.get("clear", True) is False
    out = _pto_reduce_out(op) if kept else 0
    if _reduces_rows(op, len(shape)):
        per_repeat = _REPEAT // bytes_of(source.dtype)
        wide = max(cols // 2, per_repeat) if cols > per_repeat else 1
        return (_Need(count=rows * _padded_bytes(wide, source.dtype), reduce_out=out),)
    if op.op == "reduce_sum" and cols > 1:
        return (_Need(count=rows * (cols // 2), rows=rows, reduce_out=out),)
    return (_Need(reduce_out=out),)


def _reduces_rows(op: ir.TileOp, rank: int) -> bool:
    dim = op.attrs.get("dim", -1)
    last = min(rank, 2) - 1
    return rank == 1 or dim in (-1, last)


def _pto_reduce_out(op: ir.TileOp) -> int:
    """Bytes of the scratch copy of the old output that `clear=False` merges with."""
    out = operand_buffer(op.operands[1])
    if out is None:
        return 0
    cols = (static_int(out.shape[0 if len(out.shape) == 1 else 1])) or 1
    extent = _count(op, 1)
    rows = max(1, -(-extent // cols))
    return rows * _padded_bytes(min(extent, cols), out.dtype)


def _padded_bytes(elements: int, dtype: str) -> int:
    return align_up(elements * bytes_of(dtype))


def _pto_sort(op: ir.TileOp) -> tuple[_Need, ...]:
    dtype = _dtype(op, _SRC)
    if bytes_of(dtype) == 2:
        factor = 16  # half is sorted as float
    else:
        factor = 6 if op.op == "topk" else 4
    count = _count(op, _SRC)
    return (_Need(count=factor * count, dtype=dtype),)


def _pto_xor(op: ir.TileOp) -> tuple[_Need, ...]:
    """Scratch like the whole source, also when the operand is a region of it."""
    source = operand_buffer(op.operands[_SRC])
    shape = () if source is None else tuple(static_int(extent) or 0 for extent in source.shape)
    return (_Need(count=_count(op, _SRC), dtype=_dtype(op, _SRC), shape=shape),)


def _pto_merge_sort(op: ir.TileOp) -> tuple[_Need, ...]:
    return (_Need(count=_count(op, _DST), dtype=_dtype(op, _DST)),)


def _pto_gather_mask(op: ir.TileOp) -> tuple[_Need, ...]:
    pattern = op.operands[2] if len(op.operands) > 2 else None
    buffer = None if pattern is None else operand_buffer(pattern)
    if buffer is None:
        return (_PLACEHOLDER,)
    return (_Need(count=_count(op, _DST), dtype=buffer.dtype),)


_PTO: dict[str, Callable[[ir.TileOp], tuple[_Need, ...]]] = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min"), _pto_reduce),
    **dict.fromkeys(("sigmoid", "pow", "round", "broadcast"), lambda op: (_PLACEHOLDER,)),
    **dict.fromkeys(
        ("clamp", "clamp_max", "clamp_min"),
        lambda op: (_Need(count=_bytes(op, _SRC), when_first=True),),
    ),
    "select": lambda op: (_Need(count=_bytes(op, _DST)),),
    "bitwise_xor": _pto_xor,
    "merge_sort": _pto_merge_sort,
    "sort": _pto_sort,
    "topk": _pto_sort,
    "gather_mask": _pto_gather_mask,
    "gather": lambda op: (_Need(count=8, dtype=_dtype(op, 2)),),
}
