"""What `for` may iterate over: T.serial, T.unroll, T.Parallel, T.Pipelined, T.Persistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.values import describe
from kernels_npu.sim.scalar_ops import is_float


@dataclass(frozen=True, kw_only=True)
class CountedLoop:
    """`for v in ...` over `start <= v < stop`; several dimensions nest."""

    ranges: tuple[tuple[ir.Expr, ir.Expr], ...]
    kind: str
    attrs: Mapping[str, ir.Attr] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ParallelLoop:
    """`for i, j in T.Parallel(m, n)`."""

    extents: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PersistentLoop:
    """`for ... in T.Persistent(domain, wave_size, index, group_size)`."""

    domain: tuple[ir.Expr, ...]
    wave_size: ir.Expr
    index: ir.Expr
    group_size: ir.Expr


Loop = Union[CountedLoop, ParallelLoop, PersistentLoop]


def bound(value: object) -> ir.Expr:
    """A loop bound as an integer expression."""
    if isinstance(value, ir.Expr) and not is_float(value.dtype):
        return value
    if isinstance(value, int):
        return ir.as_expr(int(value))
    fail(
        "AI-SRC-005",
        f"{describe(value)} is not a loop bound",
        rule="loop bounds are integers known at build time or at run time",
        fix="use an integer; `//` keeps integers, `/` does not",
    )


def _counted(kind: str, start: object, stop: object, **attrs: ir.Attr) -> CountedLoop:
    first, last = (0, start) if stop is None else (start, stop)
    return CountedLoop(ranges=((bound(first), bound(last)),), kind=kind, attrs=attrs)


def serial(start: Any, stop: Any = None, *, annotations: Any = None) -> CountedLoop:
    """`T.serial(n)` or `T.serial(start, stop)`; also what `range` means in a kernel."""
    del annotations
    return _counted("serial", start, stop)


def unroll(start: Any, stop: Any = None, *, annotations: Any = None) -> CountedLoop:
    """`T.unroll`: executes as `T.serial`; the compiler plans memory on the repeated body."""
    del annotations
    return _counted("unroll", start, stop)


def grid(*extents: Any) -> CountedLoop:
    """`T.grid(m, n, ...)`: nested serial loops."""
    return CountedLoop(ranges=tuple((bound(0), bound(e)) for e in extents), kind="serial")


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    sync: Sequence[Sequence[int]] | None = None,
    group: Sequence[Sequence[int]] | None = None,
    cross_interval: int = 1,
) -> CountedLoop:
    """`T.Pipelined`: a loop that lowering reorders, with the options that say how."""
    options = {"order": order, "stage": stage, "sync": sync, "group": group}
    given: dict[str, ir.Attr] = {k: tuple(v) for k, v in options.items() if v}
    return _counted(
        "pipelined", start, stop, num_stages=num_stages, cross_interval=cross_interval, **given
    )


def Parallel(*extents: Any, coalesced_width: int | None = None) -> ParallelLoop:
    """`T.Parallel(m)` or `T.Parallel(m, n)` of static extents; lowering refuses more dimensions."""
    del coalesced_width
    sizes = [constant(e) for e in extents]
    if not sizes or any(n is None for n in sizes):
        fail(
            "AI-SRC-026",
            f"T.Parallel({', '.join(show(e) for e in extents)}): the extents must be constants",
            rule="a parallel loop becomes vector instructions of a fixed length",
            fix="use static extents and mask the tail, or T.serial",
        )
    return ParallelLoop(extents=tuple(n for n in sizes if n is not None))


def Persistent(
    domain: Sequence[Any], wave_size: Any, index: Any, group_size: Any = 8
) -> PersistentLoop:
    """`T.Persistent`: the tiles of `domain` dealt to `wave_size` cores, `index` being this core."""
    if not isinstance(domain, (list, tuple)) or not domain:
        fail(
            "AI-SRC-005",
            f"T.Persistent: the domain is {describe(domain)}",
            rule="the domain is a non-empty list of extents",
            fix="write T.Persistent([m_num, n_num], core_num, cid)",
        )
    return PersistentLoop(
        domain=tuple(bound(d) for d in domain),
        wave_size=bound(wave_size),
        index=bound(index),
        group_size=bound(8 if group_size is None else group_size),
    )


def _ceildiv(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return (a + (b - 1)) // b


@dataclass(frozen=True, kw_only=True)
class PersistentPlan:
    """A persistent loop spelled out: `waves` iterations of `wave`, exit test, coordinates."""

    wave: ir.Var
    waves: ir.Expr
    exhausted: ir.Expr
    coordinates: tuple[ir.Expr, ...]


def expand_persistent(loop: PersistentLoop) -> PersistentPlan:
    """Tiles row-major over `[last / g, d0, ..., g]`: `g` columns of the last dimension together."""
    *outer, last = loop.domain
    total = last
    for extent in outer:
        total = total * extent
    group = ir.binary("min", loop.group_size, last)
    wave = ir.Var("w")
    linear = wave * loop.wave_size + loop.index
    within, rest = linear % group, linear // group
    coordinates: list[ir.Expr] = []
    for extent in reversed(outer):
        coordinates.insert(0, rest % extent)
        rest = rest // extent
    coordinates.append(rest * group + within)
    return PersistentPlan(
        wave=wave,
        waves=_ceildiv(total, loop.wave_size),
        exhausted=linear >= total,
        coordinates=tuple(coordinates),
    )
