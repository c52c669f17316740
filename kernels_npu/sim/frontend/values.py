"""What expressions of a kernel evaluate to, beyond plain Python values and `ir.Expr`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, difference, show
from kernels_npu.sim.frontend.diagnostics import fail

_RAMP_RULE = (
    "inside a call the compiler's parser turns `[lo:hi]` of a positional argument "
    "into a vector load; only T.copy takes such a slice"
)
_RAMP_FIX = "write `[:hi]` or `[lo:]`, index with one row, or pass the slice by keyword"


@dataclass(frozen=True, eq=False, slots=True)
class BoundRegion(ir.Region):
    """A slice that was given a name; an alias of the bytes, not a copy of the data."""


@dataclass(frozen=True, eq=False, slots=True)
class RampLoad(ir.Region):
    """A slice with both bounds, as a positional argument of a call other than `T.copy`."""


@dataclass(frozen=True, eq=False, slots=True)
class TensorBuffer(ir.Buffer):
    """A buffer that can be indexed: all scalars give an element, any slice gives a region."""

    def __getitem__(self, index: object) -> ir.Load | ir.Region:
        items = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if len(items) != len(self.shape):
            fail(
                "AI-SRC-011",
                f"{self.name or 'the buffer'} has {len(self.shape)} dimensions {show(self.shape)} "
                f"but {len(items)} indices are given",
                rule="a buffer is indexed with exactly one index or slice per dimension",
                fix="give every dimension an index or `:`",
            )
        slices = [i for i in items if isinstance(i, slice)]
        if not slices:
            return ir.Load(self, tuple(index_expr(i) for i in items), self.dtype)
        mins, extents = self._box(items)
        if all(s.step is None for s in slices):
            return ir.Region(self, mins, extents)
        return self._ramp(slices, mins, extents)

    def _box(self, items: tuple[Any, ...]) -> tuple[tuple[ir.Expr, ...], tuple[ir.Expr, ...]]:
        mins: list[ir.Expr] = []
        extents: list[ir.Expr] = []
        for item, size in zip(items, self.shape):
            if isinstance(item, slice):
                start: Any = 0 if item.start is None else index_expr(item.start)
                stop: Any = size if item.stop is None else index_expr(item.stop)
                mins.append(ir.as_expr(start))
                extent = difference(stop, start)
                if isinstance(extent, ir.Const) and is_bound(item.start) != is_bound(item.stop):
                    extent = BoundConst(extent.value, extent.dtype)
                extents.append(extent)
            else:
                mins.append(index_expr(item))
                extents.append(ir.Const(1, "int32"))
        return tuple(mins), tuple(extents)

    def _ramp(
        self, slices: list[slice], mins: tuple[ir.Expr, ...], extents: tuple[ir.Expr, ...]
    ) -> ir.Load | ir.Region:
        if any(s.step not in (None, 1) for s in slices):
            fail(
                "AI-SRC-010",
                f"{self.name}: a slice with step {[s.step for s in slices]}",
                rule="regions are dense boxes",
                fix="copy the rows or elements one by one",
            )
        lanes = [constant(e) for e in extents]
        if any(n is None for n in lanes):
            fail(
                "AI-SRC-010",
                f"{self.name}: a slice with a run-time extent as a positional argument",
                rule=_RAMP_RULE,
                fix="use a static extent and one of the forms `[:hi]`, `[lo:]`, or T.copy",
            )
        if all(n == 1 for n in lanes):
            return ir.Load(self, mins, self.dtype)
        return RampLoad(self, mins, extents)


def refuse_ramp(what: str, region: ir.Region) -> None:
    """Raise the error of a slice with both bounds where an operand of `what` is expected."""
    fail(
        "AI-SRC-010",
        f"{what}: the slice of {region.buffer.name} {show(region.extents)} has both bounds",
        rule=_RAMP_RULE,
        fix=_RAMP_FIX,
    )


def index_expr(value: object) -> ir.Expr:
    """An index as an integer expression."""
    if isinstance(value, ir.Expr) and not value.dtype.startswith(("float", "bfloat")):
        return value
    if isinstance(value, int):
        return ir.as_expr(int(value))
    fail(
        "AI-SRC-011",
        f"{describe(value)} is not an index",
        rule="an index is an integer expression or a slice",
        fix="index with integers; T.cast a float to int32 first",
    )


def describe(value: object) -> str:
    """What `value` is, in the words of the dialect."""
    if isinstance(value, (BoundRegion, RampLoad, ir.Region)):
        return f"a slice of {value.buffer.name} {show(value.extents)}"
    if isinstance(value, ir.Buffer):
        return f"the buffer {value.name} {show(value.shape)}"
    if isinstance(value, ir.Load):
        return f"an element of {value.buffer.name}"
    if isinstance(value, ir.Const):
        return f"the number {value.value}"
    if isinstance(value, ir.Var):
        return f"the value {value.name}"
    if isinstance(value, ir.Expr):
        return f"an {value.dtype} expression"
    if isinstance(value, PendingOp):
        return f"the operation T.{value.name}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"a {type(value).__name__}"


@dataclass(frozen=True, eq=False, slots=True)
class LooseBuffer(TensorBuffer):
    """A buffer of no kernel: an operation on it is a node that goes nowhere."""


@dataclass(eq=False)
class PendingOp:
    """An operation that `T.something(...)` returned; an expression statement emits it.

    The real compiler works the same way: the call only builds a node, and a node that no statement
    holds never becomes an instruction.
    """

    name: str
    stmt: ir.Stmt

    @property
    def op(self) -> Intrinsic:
        """The compiler's intrinsic that the call becomes."""
        reduces = self.name.startswith("reduce_")
        return Intrinsic.get("tl.ascend_reduce" if reduces else f"tl.ascend_{self.name}")


@dataclass(frozen=True)
class Intrinsic:
    """An intrinsic of the compiler, known by its name."""

    name: str

    @classmethod
    def get(cls, name: str) -> Intrinsic:
        """The intrinsic called `name`."""
        return cls(name)

    def same_as(self, other: object) -> bool:
        """Whether both are the same intrinsic."""
        return self == other


@dataclass(frozen=True)
class TensorSpec:
    """`T.Tensor(shape, dtype)` in a kernel's signature."""

    shape: tuple[ir.Expr | int, ...]
    dtype: str


class StaticInt(int):
    """An int that `T.ceildiv` and its kind return; scripts read `.value`, as of TVM's IntImm."""

    dtype = "int32"

    @property
    def value(self) -> int:
        """The plain int."""
        return int(self)


class BoundInt(int):
    """An int given a name inside the kernel, and ints computed from it.

    It is a number here, but the real compiler turns the name into a run-time variable; so it may
    not decide a size (see `is_bound`).
    """


def _keep_bound(name: str) -> None:
    plain = getattr(int, name)

    def operation(self: BoundInt, *args: Any) -> Any:
        result = plain(self, *args)
        return BoundInt(result) if type(result) is int else result

    operation.__name__ = name
    setattr(BoundInt, name, operation)


for _op in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift"):
    _keep_bound(f"__{_op}__")
    _keep_bound(f"__r{_op}__")
_keep_bound("__neg__")


class BoundConst(ir.Const):
    """The static extent of a slice whose one bound is a `BoundInt`."""

    __slots__ = ()


def is_bound(value: object) -> bool:
    """Whether the real compiler sees a run-time variable where a number stands here."""
    return isinstance(value, (BoundInt, BoundConst))


class ScalarType:
    """`T.int32` and its kind: an annotation, a literal `T.int32(3)`, or a cast of an expression."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.__name__ = dtype

    def __repr__(self) -> str:
        return f"T.{self.dtype}"

    def __call__(self, expr: object = None, is_size_var: bool = False) -> ir.Expr:
        if expr is None:
            return ir.Var("", self.dtype)
        return cast_to(expr, self.dtype)


def cast_to(value: object, dtype: str) -> ir.Expr:
    """`value` converted to `dtype`; literals become constants of that dtype."""
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        value = float(value)
    if isinstance(value, ir.Const):
        value = value.value
    if isinstance(value, (bool, int, float)):
        return ir.Const(_literal(value, dtype), dtype)
    if isinstance(value, ir.Expr):
        return value if value.dtype == dtype else ir.Cast(value, dtype)
    fail("AI-SRC-012", f"{describe(value)} cannot be converted to {dtype}", fix="pass a scalar")


def _literal(value: bool | int | float, dtype: str) -> bool | int | float:
    if dtype == "bool":
        return bool(value)
    if dtype.startswith(("float", "bfloat")):
        return float(value)
    return int(value)
