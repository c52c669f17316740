"""Signatures of tile operations, and how arguments become operands and attributes.

A row says which parameters an operation has, what kind of value each takes, and which check the
compiler makes. Adding an operation is adding a row.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kernels_npu.dialect.translations import KEYWORD_CALLS, KEYWORDS
from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import builder as building
from kernels_npu.sim.frontend import mainline
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.values import (
    BoundRegion,
    LooseBuffer,
    PendingOp,
    RampLoad,
    describe,
    refuse_ramp,
)

REQUIRED = object()


@dataclass(frozen=True, kw_only=True)
class Param:
    """One parameter: its name in the dialect, kind, name in `TileOp.attrs`, default and choices.

    kind: `tile` is a buffer or a slice, not with both bounds (`[lo:hi]`); `strided` a tile, also
    with both bounds; `optional` a strided tile or None; `source` a tile, an element or a scalar;
    `strict_source` the same, no Python int; `whole` a whole buffer; `scalar` a number or an
    expression; `attr` anything, kept as an attribute.
    """

    name: str
    kind: str
    attr: str
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()


def tile(name: str) -> Param:
    """A buffer or a slice of one."""
    return Param(name=name, kind="tile", attr=name)


def whole(name: str) -> Param:
    """A whole buffer; the compiler takes no slice here."""
    return Param(name=name, kind="whole", attr=name)


def strided(name: str) -> Param:
    """A buffer or any slice, also one with both bounds."""
    return Param(name=name, kind="strided", attr=name)


def optional(name: str) -> Param:
    """A buffer, any slice, or nothing."""
    return Param(name=name, kind="optional", attr=name, default=None)


def source(name: str) -> Param:
    """A buffer, a slice, an element, or a scalar."""
    return Param(name=name, kind="source", attr=name)


def strict_source(name: str) -> Param:
    """Like `source` but refuses a Python int: the compiler tests for float and expressions only."""
    return Param(name=name, kind="strict_source", attr=name)


def scalar(name: str, default: Any = REQUIRED) -> Param:
    """A number, an element or an expression."""
    return Param(name=name, kind="scalar", attr=name, default=default)


def attr(name: str, key: str = "", default: Any = REQUIRED, choices: Sequence[str] = ()) -> Param:
    """Anything else; stored in `TileOp.attrs` under `key`."""
    return Param(name=name, kind="attr", attr=key or name, default=default, choices=tuple(choices))


@dataclass(frozen=True)
class Call:
    """The bound arguments of one call, for its check."""

    name: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def refuse(
        self, code: str, what: str, *, rule: str | None = None, fix: str | None = None
    ) -> NoReturn:
        """Refuse this call."""
        fail(code, f"T.{self.name}: {what}", rule=rule, fix=fix)


Check = Callable[[Call], None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation of `T` or `T.tile`: `op` is the name in the IR."""

    name: str
    op: str
    params: tuple[Param, ...]
    checks: tuple[Check, ...] = field(default=())


def signature_of(params: Sequence[Param]) -> inspect.Signature:
    """The Python signature, for binding and for `help`."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(
                p.name,
                kind,
                default=inspect.Parameter.empty if p.default is REQUIRED else p.default,
            )
            for p in params
        ]
    )


def bind(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by parameter name.

    Raises:
        KernelSourceError: AI-SRC-009 when they do not fit, AI-SRC-022 for another dialect's.
    """
    for keyword in kwargs if name in KEYWORD_CALLS else ():
        if keyword not in signature.parameters and keyword in KEYWORDS:
            mainline.refuse_keyword(name, keyword)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as exc:
        fail(
            "AI-SRC-009",
            f"T.{name}: {exc}",
            rule=f"the signature is T.{name}("
            f"{', '.join(str(p) for p in signature.parameters.values())})",
            fix="pass the arguments of the signature",
        )
    bound.apply_defaults()
    return dict(bound.arguments)


def make(row: Row, prefix: str = "") -> Callable[..., PendingOp]:
    """The function of `row`, which `T` or `T.tile` exposes under `row.name`."""
    signature = signature_of(row.params)
    full_name = prefix + row.name

    def call(*args: Any, **kwargs: Any) -> PendingOp:
        building.require(full_name)
        values = bind(full_name, signature, args, kwargs)
        operands: list[ir.Operand] = []
        attrs: dict[str, ir.Attr] = {}
        for param in row.params:
            value = convert(full_name, param, values[param.name])
            values[param.name] = value
            if param.kind == "attr":
                attrs[param.attr] = value
            elif value is not None:
                operands.append(value)
        bound = Call(full_name, values)
        for check in row.checks:
            check(bound)
        return emit(full_name, row.op, operands, attrs)

    call.__name__ = call.__qualname__ = row.name
    call.__doc__ = f"`T.{full_name}{signature}`"
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def checked(function: Callable[..., Any], prefix: str = "") -> Callable[..., Any]:
    """`function` with its arguments checked like those of a row."""
    signature = inspect.signature(function)
    full_name = prefix + function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bind(full_name, signature, args, kwargs)
        return function(*args, **kwargs)

    return call


def emit(
    name: str, op: str, operands: Sequence[ir.Operand], attrs: Mapping[str, ir.Attr]
) -> PendingOp:
    """The pending `TileOp` of a call."""

    def make(loc: SourceLocation) -> ir.TileOp:
        return ir.TileOp(loc=loc, op=op, operands=tuple(operands), attrs=dict(attrs))

    if all(isinstance(operand, LooseBuffer) for operand in operands):
        return PendingOp(name, make(SourceLocation(file="<no kernel>", line=0)))
    return building.op(name, make)


def convert(name: str, param: Param, value: Any) -> Any:
    """`value` as what `param` takes, or a coded error."""
    if param.kind == "attr":
        return _attribute(name, param, value)
    if param.kind == "scalar":
        return scalar_operand(name, param.name, value)
    if param.kind == "optional" and value is None:
        return None
    if param.kind in ("source", "strict_source") and not isinstance(value, (ir.Buffer, ir.Region)):
        if param.kind == "strict_source" and isinstance(value, int):
            fail(
                "AI-SRC-021",
                f"T.{name}: {param.name} is the Python int {value!r}",
                rule="this operation takes a float or a typed scalar; "
                "the compiler has no case for an int",
                fix=f"write {float(value)} or T.int32({int(value)})",
            )
        return scalar_operand(name, param.name, value)
    allow_ramp = param.kind in ("strided", "optional")
    return tile_operand(
        name, param.name, value, allow_ramp=allow_ramp, only_whole=param.kind == "whole"
    )


def tile_operand(
    name: str,
    param: str,
    value: Any,
    *,
    allow_ramp: bool = False,
    allow_bound: bool = False,
    only_whole: bool = False,
) -> ir.Buffer | ir.Region:
    """`value` as a buffer or a slice."""
    if isinstance(value, RampLoad):
        if not allow_ramp:
            refuse_ramp(f"T.{name}: {param}", value)
        return ir.Region(value.buffer, value.mins, value.extents)
    if isinstance(value, BoundRegion) and not allow_bound:
        fail(
            "AI-SRC-012",
            f"T.{name}: {param} is a name bound to {describe(value)}",
            rule="a slice bound to a name is an alias "
            "that only T.copy, T.gemm_v0 and T.mma resolve",
            fix="write the slice in the call",
        )
    if only_whole and isinstance(value, ir.Region):
        fail(
            "AI-SRC-012",
            f"T.{name}: {param} is {describe(value)}",
            rule="this operand must be a whole buffer",
            fix="allocate a buffer of that size, or T.copy the slice first",
        )
    if isinstance(value, (ir.Buffer, ir.Region)):
        return value
    if isinstance(value, ir.Load) and allow_ramp:
        ones = tuple(ir.Const(1, "int32") for _ in value.indices)
        return ir.Region(value.buffer, value.indices, ones)
    fail(
        "AI-SRC-012",
        f"T.{name}: {param} is {describe(value)}",
        rule="this operand is a tile: a buffer or a slice of one",
        fix="pass a buffer, or a slice such as buf[i, :]; one element is buf[i, :1]",
    )


def scalar_operand(name: str, param: str, value: Any) -> ir.Expr:
    """`value` as a scalar expression."""
    if isinstance(value, (bool, int, float)):
        return ir.as_expr(value)
    if isinstance(value, ir.Expr):
        return value
    fail(
        "AI-SRC-012",
        f"T.{name}: {param} is {describe(value)}",
        rule="this operand is a scalar",
        fix="pass a number, an expression, or one element of a buffer",
    )


def _attribute(name: str, param: Param, value: Any) -> Any:
    if param.choices and (not isinstance(value, str) or value not in param.choices):
        fail(
            "AI-SRC-016",
            f"T.{name}: {param.name} is {value!r}",
            rule=f"{param.name} is one of " + ", ".join(param.choices),
            fix="use one of these",
        )
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, ir.Const):
        value = value.value
    ok = value is None or isinstance(value, (bool, int, float, str, tuple, ir.Expr))
    if not ok:
        fail(
            "AI-SRC-012",
            f"T.{name}: {param.name} is {describe(value)}",
            rule="this parameter is a setting",
            fix="pass a number, a string or a tuple",
        )
    return value
