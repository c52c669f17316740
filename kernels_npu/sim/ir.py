"""The typed IR between a dialect's front end, the developer-mode passes and the simulated machine.

It knows scalars, buffers in named memories, tile operations and synchronisation; it knows nothing
of TVMScript. Every statement carries the user's file and line.
Nodes are immutable; a pass returns new ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from kernels_npu.errors import SourceLocation
from kernels_npu.sim.remarks import Remark
from kernels_npu.sim.scalar_ops import fold_binary, fold_unary, is_comparison, is_float, promote

_ids = itertools.count()

# --------------------------------------------------------------------------- scalar expressions


class Expr:
    """A scalar computed at run time. `dtype` is a canonical dtype name such as `int32`.

    Python operators build new expressions, folding constants. Integer `//` and `%` of expressions
    truncate toward zero, folded or not, because the device compiler emits C's `/` and `%`.
    """

    __slots__ = ()
    dtype: str

    def __add__(self, other: ScalarLike) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: ScalarLike) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: ScalarLike) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: ScalarLike) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: ScalarLike) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: ScalarLike) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: ScalarLike) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: ScalarLike) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: ScalarLike) -> Expr:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: ScalarLike) -> Expr:
        return binary("floordiv", other, self)

    def __mod__(self, other: ScalarLike) -> Expr:
        return binary("mod", self, other)

    def __rmod__(self, other: ScalarLike) -> Expr:
        return binary("mod", other, self)

    def __lshift__(self, other: ScalarLike) -> Expr:
        return binary("shl", self, other)

    def __rlshift__(self, other: ScalarLike) -> Expr:
        return binary("shl", other, self)

    def __rshift__(self, other: ScalarLike) -> Expr:
        return binary("shr", self, other)

    def __rrshift__(self, other: ScalarLike) -> Expr:
        return binary("shr", other, self)

    def __and__(self, other: ScalarLike) -> Expr:
        return binary("bitand", self, other)

    __rand__ = __and__

    def __or__(self, other: ScalarLike) -> Expr:
        return binary("bitor", self, other)

    __ror__ = __or__

    def __xor__(self, other: ScalarLike) -> Expr:
        return binary("bitxor", self, other)

    __rxor__ = __xor__

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __invert__(self) -> Expr:
        return unary("bitnot", self)

    def __lt__(self, other: ScalarLike) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: ScalarLike) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: ScalarLike) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: ScalarLike) -> Expr:
        return binary("ge", self, other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return binary("eq", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return binary("ne", self, other)  # type: ignore[arg-type]

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            "the value of a kernel expression is known only when the kernel runs; "
            "use T.if_then_else, T.And/T.Or or a kernel-level `if`"
        )


@dataclass(frozen=True, eq=False, slots=True)
class Const(Expr):
    """A literal; `value` is a Python bool, int or float."""

    value: bool | int | float
    dtype: str

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, eq=False, slots=True)
class Var(Expr):
    """A bound name: loop variable, `x = expr`, scalar parameter, symbolic dimension, cid or vid."""

    name: str
    dtype: str = "int32"
    uid: int = field(default_factory=lambda: next(_ids))


@dataclass(frozen=True, eq=False, slots=True)
class Binary(Expr):
    """`op` in add sub mul div floordiv mod min max pow and or eq ne lt le gt ge shl shr bit*."""

    op: str
    a: Expr
    b: Expr
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Unary(Expr):
    """`op`: neg not bitnot abs exp exp2 log log2 sqrt rsqrt sin cos tanh floor ceil round trunc."""

    op: str
    a: Expr
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Expr):
    """Value conversion to `dtype`."""

    a: Expr
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Reinterpret(Expr):
    """Bit cast to `dtype` of the same width."""

    a: Expr
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Select(Expr):
    """Scalar choice, as C's conditional expression: only the chosen side is evaluated."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Load(Expr):
    """One element, `buffer[indices]`; as a tile operand a scalar, or the start of a copy."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    dtype: str


ScalarLike = Union[Expr, bool, int, float]


def as_expr(value: ScalarLike, dtype: str | None = None) -> Expr:
    """`value` as an expression; Python numbers become `Const` (bool, int32 or int64, float32)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, dtype or "bool")
    if isinstance(value, int):
        fits = -(2**31) <= value < 2**31
        return Const(value, dtype or ("int32" if fits else "int64"))
    if isinstance(value, float):
        return Const(value, dtype or "float32")
    raise TypeError(f"{value!r} is not a scalar expression")


def binary(op: str, a: ScalarLike, b: ScalarLike) -> Expr:
    """Build `a op b`, folded when both are constants, with TVM's promotion of dtypes."""
    left, right = _adopt_literal(op, a, b), _adopt_literal(op, b, a)
    dtype = promote(op, left.dtype, right.dtype)
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(fold_binary(op, left.value, right.value, dtype), dtype)
    return Binary(op, _widened(left, dtype), _widened(right, dtype), dtype)


def _widened(value: Expr, dtype: str) -> Expr:
    # An expression of its own keeps `T.Parallel` from becoming one vector instruction over both.
    if value.dtype == dtype or not (is_float(dtype) and is_float(value.dtype)):
        return value
    return Const(value.value, dtype) if isinstance(value, Const) else Cast(value, dtype)


def unary(op: str, a: ScalarLike) -> Expr:
    """Build `op(a)`, folded when constant."""
    operand = as_expr(a)
    dtype = "bool" if op == "not" else operand.dtype
    if isinstance(operand, Const):
        return Const(fold_unary(op, operand.value), dtype)
    return Unary(op, operand, dtype)


def _adopt_literal(op: str, value: ScalarLike, other: ScalarLike) -> Expr:
    """A Python number beside `other`: of its dtype if compared, or if it would not widen it."""
    literal = as_expr(value)
    if isinstance(value, (Expr, bool)) or not isinstance(other, Expr) or other.dtype == "bool":
        return literal
    if isinstance(value, float) and not is_float(other.dtype):
        return literal
    if is_comparison(op) or promote(op, literal.dtype, other.dtype) == other.dtype:
        return Const(float(value) if is_float(other.dtype) else value, other.dtype)
    return literal


# --------------------------------------------------------------------------- buffers and operands


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """A tensor in one memory. On-chip shapes are static ints; global shapes may hold `Var`s.

    scope: global, ub, l1, l0a, l0b, l0c or var; until scope inference also shared or fragment.
    `alias_of` makes this a view of another buffer's bytes, starting `alias_offset` bytes in.
    """

    name: str
    scope: str
    shape: tuple[Expr | int, ...]
    dtype: str
    loc: SourceLocation | None = None
    alias_of: Buffer | None = None
    alias_offset: int = 0
    uid: int = field(default_factory=lambda: next(_ids))


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A box of a buffer: per dimension the first index and the extent."""

    buffer: Buffer
    mins: tuple[Expr, ...]
    extents: tuple[Expr, ...]


#: What a tile operation takes: a whole buffer, a box, an element, or a scalar.
Operand = Union[Buffer, Region, Expr]
Attr = Union[None, bool, int, float, str, tuple[object, ...], Expr, Buffer]

# --------------------------------------------------------------------------- statements


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Stmt:
    """A statement at the user's `loc`."""

    loc: SourceLocation


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Let(Stmt):
    """`var = value`, evaluated once where it stands."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Store(Stmt):
    """`buffer[indices] = value`: one element (scope `var`: the scalar register, indices `(0,)`)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class For(Stmt):
    """A counted loop over `start <= var < stop`; `kind` is serial, unroll, pipelined or persistent.

    `attrs` holds `num_stages`, `cross_interval`, ... of the constructor, unused by the machine.
    """

    var: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    kind: str = "serial"
    attrs: Mapping[str, Attr] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class While(Stmt):
    """A loop that runs while `cond` is non-zero."""

    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Break(Stmt):
    """Leave the innermost loop: `T.loop_break()`, and `T.Persistent` past its domain."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class If(Stmt):
    """A run-time branch."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Parallel(Stmt):
    """`T.Parallel`: every statement of `body` over the whole index space before the next one."""

    vars: tuple[Var, ...]
    extents: tuple[int, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CoreScope(Stmt):
    """`T.Scope("C")` or `T.Scope("V")`: `core` is `cube` or `vector`."""

    core: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TileOp(Stmt):
    """One tile instruction. `op` is a key of the machine's operation tables.

    Buffers, slices, elements and scalar operands stand in the order of the dialect's signature.
    `attrs` holds what qualifies the operation (modes, counts, dimensions, flags) by parameter name.
    """

    op: str
    operands: tuple[Operand, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SetFlag(Stmt):
    """`set_flag(src, dst, event_id)`; pipes are canonical upper case: MTE1 MTE2 MTE3 M V FIX S."""

    src: str
    dst: str
    event_id: Expr


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WaitFlag(Stmt):
    """`wait_flag(src, dst, event_id)`."""

    src: str
    dst: str
    event_id: Expr


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PipeBarrier(Stmt):
    """`pipe_barrier(pipe)`; pipe `ALL` is `barrier_all()`."""

    pipe: str


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SetCrossFlag(Stmt):
    """`set_cross_flag(pipe, flag_id, mode)`: signals when `pipe` of this core has drained.

    in_flight: outstanding by construction (pipelines across cores)."""

    pipe: str
    flag_id: Expr
    mode: int = 2
    in_flight: int = 1


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WaitCrossFlag(Stmt):
    """`wait_cross_flag(flag_id, pipe)`: on A2/A3 the whole core waits; only A5 uses `pipe`."""

    flag_id: Expr
    pipe: str = ""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SyncAll(Stmt):
    """A barrier over all blocks of the launch."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Debug(Stmt):
    """Python's `print(...)` or `breakpoint()` in a kernel: an aid of the simulator.

    action: `print` or `breakpoint`. args: what is printed, static text as strings. They count as
    uses for no pass, so that an aid changes neither placement nor order.
    """

    action: str
    args: tuple[Operand | str, ...] = ()


# --------------------------------------------------------------------------- kernels


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PrimFunc:
    """A parsed kernel.

    params: tensors (scope `global`) and scalar `Var`s in the order of the signature.
    grid: number of blocks, an int or an expression of symbolic dimensions and scalar parameters.
    threads: None (the program splits work by `vid`), 1 (one AIV per block) or 2 (automatic split).
    allocs: on-chip buffers and scalar registers in declaration order.
    addresses: byte offsets given by `T.annotate_address`, keyed by buffer.
    layouts: layouts given by `T.annotate_layout`. They change how the start offset of a region is
        computed; the data of L1 is always in zN fractals.
    remarks: what the front end has to say about the source.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    grid: Expr
    cid: Var
    vid: Var
    threads: int | None
    allocs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    addresses: Mapping[Buffer, int]
    layouts: Mapping[Buffer, str]
    loc: SourceLocation
    remarks: tuple[Remark, ...] = ()

    @property
    def tensors(self) -> tuple[Buffer, ...]:
        """The tensor parameters in order."""
        return tuple(p for p in self.params if isinstance(p, Buffer))


def children(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The nested statement lists of `stmt`."""
    if isinstance(stmt, If):
        return (stmt.then, stmt.orelse)
    if isinstance(stmt, (For, While, Parallel, CoreScope)):
        return (stmt.body,)
    return ()


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements of `body` in program order, parents first."""
    for stmt in body:
        yield stmt
        for nested in children(stmt):
            yield from walk(nested)
