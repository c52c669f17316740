"""Binds launch arguments to a signature: symbolic dimensions, tensor views, storage groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels_npu.errors import SimulationError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import canonical, numpy_dtype
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.memory import GmArg
from kernels_npu.sim.machine.operands import strides_of
from kernels_npu.sim.machine.scalar_math import round_to, wrap_int
from kernels_npu.sim.scalar_ops import fold_binary, fold_unary, is_float


@dataclass(frozen=True)
class BoundArguments:
    """What a generated program receives.

    values: scalar parameters, symbolic dimensions, then per tensor its declared and flat view.
    groups: per tensor (storage group, byte offset); overlapping tensors share a group.
    flat: per tensor its flat view. short: tensors with fewer bytes than their declared shape; what
    the kernel declares may be an upper bound, so accesses decide.
    """

    grid: int
    values: tuple[object, ...]
    tensor_names: tuple[str, ...]
    groups: tuple[tuple[int, int], ...]
    flat: tuple[AnyArray, ...]
    short: frozenset[int] = frozenset()


def evaluate(expr: ir.Expr | int, dims: dict[int, int | float]) -> int | float:
    """The value of an expression of symbolic dimensions and scalar parameters."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, ir.Const):
        return expr.value
    if isinstance(expr, ir.Var):
        return dims[expr.uid]
    if isinstance(expr, ir.Binary):
        return fold_binary(expr.op, evaluate(expr.a, dims), evaluate(expr.b, dims), expr.dtype)
    if isinstance(expr, ir.Unary):
        return fold_unary(expr.op, evaluate(expr.a, dims))
    if isinstance(expr, ir.Cast):
        value = evaluate(expr.a, dims)
        return float(value) if is_float(expr.dtype) else int(value)
    if isinstance(expr, ir.Select):
        return evaluate(expr.a if evaluate(expr.cond, dims) else expr.b, dims)
    raise TypeError(f"{expr!r} cannot be evaluated on the host")


def bind_arguments(func: ir.PrimFunc, args: Sequence[GmArg | int | float]) -> BoundArguments:
    """Match `args` with the signature of `func`.

    Raises:
        SimulationError: AI-TYPE-020 (count), AI-TYPE-021 (kind or dtype),
            AI-TYPE-022 (unbound dimension).
    """
    if len(args) != len(func.params):
        raise SimulationError(
            "AI-TYPE-020",
            f"{func.name} takes {len(func.params)} arguments, {len(args)} were given",
            where=func.loc,
            fix="pass one argument per parameter of the prim_func",
        )
    dims: dict[int, int | float] = {}
    scalars: list[int | float] = []
    tensors: list[tuple[ir.Buffer, GmArg]] = []
    for param, arg in zip(func.params, args):
        if isinstance(param, ir.Var):
            if isinstance(arg, GmArg):
                raise _wrong_kind(func, param.name, "a number", "a tensor")
            number = _scalar(arg, param.dtype)
            dims[param.uid] = number
            scalars.append(number)
            continue
        if not isinstance(arg, GmArg):
            raise _wrong_kind(func, param.name, "a tensor", "a number")
        if canonical(arg.dtype) != param.dtype:
            raise _wrong_kind(func, param.name, param.dtype, arg.dtype)
        tensors.append((param, arg))
        for declared, actual in zip(param.shape, arg.shape):
            if isinstance(declared, ir.Var):
                dims.setdefault(declared.uid, actual)
    for var in symbolic_dims(func):
        if var.uid not in dims:
            raise _unbound(func, var)
    values: list[object] = [*scalars, *(dims[var.uid] for var in symbolic_dims(func))]
    flat_views = []
    short: set[int] = set()
    for index, (param, arg) in enumerate(tensors):
        shaped, flat = _views(param, arg, dims)
        if shaped.size > flat.size:
            short.add(index)
        values += (shaped, flat)
        flat_views.append(flat)
    return BoundArguments(
        grid=int(evaluate(func.grid, dims)),
        values=tuple(values),
        tensor_names=tuple(p.name for p, _ in tensors),
        groups=_storage_groups(flat_views),
        flat=tuple(flat_views),
        short=frozenset(short),
    )


def _scalar(value: int | float, dtype: str) -> int | float:
    """A scalar argument as the device receives it."""
    if is_float(dtype):
        return round_to(float(value), dtype)
    return wrap_int(int(value), dtype)


def _unbound(func: ir.PrimFunc, var: ir.Var) -> SimulationError:
    return SimulationError(
        "AI-TYPE-022",
        f"{func.name}: nothing gives the symbolic dimension {var.name} a value",
        where=func.loc,
        rule="a symbolic dimension is bound by a tensor that has it, and nothing "
        "else, as an extent",
        fix=f"declare a tensor with the extent {var.name}, or pass {var.name} as a "
        "T.int32 parameter",
    )


def symbolic_dims(func: ir.PrimFunc) -> tuple[ir.Var, ...]:
    """Symbolic dimensions in order of first use in the tensor parameters' shapes."""
    scalars = {p.uid for p in func.params if isinstance(p, ir.Var)}
    found: dict[int, ir.Var] = {}
    for tensor in func.tensors:
        for dim in tensor.shape:
            for var in _vars_in(dim):
                if var.uid not in scalars:
                    found.setdefault(var.uid, var)
    return tuple(found.values())


def _vars_in(expr: ir.Expr | int) -> list[ir.Var]:
    if isinstance(expr, ir.Var):
        return [expr]
    if isinstance(expr, ir.Binary):
        return _vars_in(expr.a) + _vars_in(expr.b)
    return []


def _views(param: ir.Buffer, arg: GmArg, dims: dict[int, int | float]) -> tuple[AnyArray, AnyArray]:
    """The tensor as declared, and its elements in a row.

    Where there are fewer bytes than declared, the declared view reaches beyond them: programs must
    test each access (`short`).
    """
    shape = tuple(int(evaluate(d, dims)) for d in param.shape)
    element = numpy_dtype(param.dtype)
    count = 1
    for size in shape:
        count *= size
    present = arg.data.size // element.itemsize
    flat = arg.data[: min(count, present) * element.itemsize].view(element)
    if count <= present:
        return flat.reshape(shape), flat
    strides = tuple(stride * element.itemsize for stride in strides_of(shape))
    return np.lib.stride_tricks.as_strided(flat, shape, strides), flat


def _wrong_kind(func: ir.PrimFunc, name: str, expected: str, actual: str) -> SimulationError:
    return SimulationError(
        "AI-TYPE-021",
        f"{func.name}: {name} is {actual}, the kernel declares {expected}",
        where=func.loc,
        fix=f"pass {expected} for {name}",
    )


def _storage_groups(views: Sequence[AnyArray]) -> tuple[tuple[int, int], ...]:
    """Group tensors whose bytes overlap; offsets are relative to the group's lowest address."""
    starts = [view.__array_interface__["data"][0] for view in views]
    spans = [(start, start + view.nbytes) for start, view in zip(starts, views)]
    order = sorted(range(len(views)), key=lambda i: spans[i])
    groups = [(0, 0)] * len(views)
    group, base, end = -1, 0, -1
    for i in order:
        start, stop = spans[i]
        if start >= end or stop == start:
            group, base, end = group + 1, start, stop
        end = max(end, stop)
        groups[i] = (group, start - base)
    return tuple(groups)
