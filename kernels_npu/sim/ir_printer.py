"""IR as readable text, for people who want to see what the front end or a pass made of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernels_npu.sim import ir

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "and", "or": "or", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "shl": "<<", "shr": ">>", "bitand": "&", "bitor": "|", "bitxor": "^",
}  # fmt: skip
_PREFIX = {"neg": "-", "not": "not ", "bitnot": "~"}


def format_func(func: ir.PrimFunc, locations: bool = False) -> str:
    """A kernel as text; `locations` adds the user's line to each statement."""
    params = ", ".join(_param(p) for p in func.params)
    threads = "" if func.threads is None else f", threads={func.threads}"
    indices = f"({func.cid.name}, {func.vid.name})" if func.threads is None else func.cid.name
    lines = [
        f"prim_func {func.name}({params}):",
        f"    kernel({format_expr(func.grid)}{threads}) as {indices}:",
    ]
    lines += ["        " + _alloc(buffer, func) for buffer in func.allocs]
    lines += ["        " + line for line in _body(func.body, locations)]
    return "\n".join(lines) + "\n"


def format_body(body: Sequence[ir.Stmt], locations: bool = False) -> str:
    """Statements as text."""
    return "\n".join(_body(body, locations)) + "\n"


def format_expr(expr: ir.Expr) -> str:
    """A scalar expression, fully parenthesised below the top."""
    text = _expr(expr)
    return text[1:-1] if isinstance(expr, ir.Binary) and text.startswith("(") else text


def format_operand(value: object) -> str:
    """A buffer, slice, element, expression or attribute."""
    if isinstance(value, ir.Buffer):
        return value.name
    if isinstance(value, ir.Region):
        return f"{value.buffer.name}[{', '.join(map(_span, value.mins, value.extents))}]"
    if isinstance(value, ir.Expr):
        return format_expr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(format_operand(v) for v in value) + ")"
    return repr(value)


def _span(start: ir.Expr, extent: ir.Expr) -> str:
    if isinstance(extent, ir.Const) and extent.value == 1:
        return format_expr(start)
    return f"{format_expr(start)} :+ {format_expr(extent)}"


def _expr(expr: ir.Expr) -> str:
    if isinstance(expr, ir.Const):
        return f"{expr.value!r}"
    if isinstance(expr, ir.Var):
        return expr.name or f"v{expr.uid}"
    if isinstance(expr, ir.Binary):
        a, b = _expr(expr.a), _expr(expr.b)
        return f"({a} {_INFIX[expr.op]} {b})" if expr.op in _INFIX else f"{expr.op}({a}, {b})"
    if isinstance(expr, ir.Unary):
        if expr.op in _PREFIX:
            return _PREFIX[expr.op] + _expr(expr.a)
        return f"{expr.op}({format_expr(expr.a)})"
    if isinstance(expr, ir.Cast):
        return f"{expr.dtype}({format_expr(expr.a)})"
    if isinstance(expr, ir.Reinterpret):
        return f"reinterpret[{expr.dtype}]({format_expr(expr.a)})"
    if isinstance(expr, ir.Select):
        parts = (format_expr(e) for e in (expr.cond, expr.a, expr.b))
        return f"select({', '.join(parts)})"
    if isinstance(expr, ir.Load):
        if expr.buffer.scope == "var":
            return expr.buffer.name
        return f"{expr.buffer.name}[{', '.join(format_expr(i) for i in expr.indices)}]"
    return repr(expr)


def _shape(shape: Sequence[ir.Expr | int]) -> str:
    return (
        "[" + ", ".join(format_expr(n) if isinstance(n, ir.Expr) else str(n) for n in shape) + "]"
    )


def _param(param: ir.Buffer | ir.Var) -> str:
    if isinstance(param, ir.Buffer):
        return f"{param.name}: {param.dtype}{_shape(param.shape)}"
    return f"{param.name}: {param.dtype}"


def _alloc(buffer: ir.Buffer, func: ir.PrimFunc) -> str:
    text = f"{buffer.name} = alloc {buffer.scope} {buffer.dtype}{_shape(buffer.shape)}"
    if buffer.alias_of is not None:
        text += f" view of {buffer.alias_of.name}"
    if buffer in func.addresses:
        text += f" @ {func.addresses[buffer]}"
    if buffer in func.layouts:
        text += f" layout {func.layouts[buffer]}"
    return text


def _attrs(attrs: Mapping[str, ir.Attr]) -> list[str]:
    return [f"{key}={format_operand(value)}" for key, value in attrs.items() if value is not None]


def _indices(indices: Sequence[ir.Expr]) -> str:
    return ", ".join(format_expr(i) for i in indices)


def _store(s: ir.Store) -> str:
    target = s.buffer.name if s.buffer.scope == "var" else f"{s.buffer.name}[{_indices(s.indices)}]"
    return f"{target} = {format_expr(s.value)}"


def _for(s: ir.For) -> str:
    options = _attrs(s.attrs)
    bounds = [format_expr(s.start), format_expr(s.stop), *options]
    return f"for {_expr(s.var)} in {s.kind}({', '.join(bounds)}):"


def _parallel(s: ir.Parallel) -> str:
    names = ", ".join(_expr(v) for v in s.vars)
    return f"for {names} in parallel({', '.join(map(str, s.extents))}):"


def _tile(s: ir.TileOp) -> str:
    return f"{s.op}({', '.join([*map(format_operand, s.operands), *_attrs(s.attrs)])})"


_HEADS: dict[type[ir.Stmt], Callable[[Any], str]] = {
    ir.Let: lambda s: f"{_expr(s.var)} = {format_expr(s.value)}",
    ir.Store: _store,
    ir.For: _for,
    ir.While: lambda s: f"while {format_expr(s.cond)}:",
    ir.If: lambda s: f"if {format_expr(s.cond)}:",
    ir.Parallel: _parallel,
    ir.CoreScope: lambda s: f"on {s.core}:",
    ir.Break: lambda s: "break",
    ir.TileOp: _tile,
    ir.SetFlag: lambda s: f"set_flag({s.src}, {s.dst}, {format_expr(s.event_id)})",
    ir.WaitFlag: lambda s: f"wait_flag({s.src}, {s.dst}, {format_expr(s.event_id)})",
    ir.PipeBarrier: lambda s: f"pipe_barrier({s.pipe})",
    ir.SetCrossFlag: lambda s: f"set_cross_flag({s.pipe}, {format_expr(s.flag_id)}, mode={s.mode})",
    ir.WaitCrossFlag: lambda s: f"wait_cross_flag({format_expr(s.flag_id)})",
    ir.SyncAll: lambda s: "sync_all()",
    ir.Debug: lambda s: (
        f"{s.action}("
        + ", ".join(repr(a) if isinstance(a, str) else format_operand(a) for a in s.args)
        + ")"
    ),
}


def _body(body: Sequence[ir.Stmt], locations: bool) -> Iterator[str]:
    for stmt in body:
        head = _HEADS[type(stmt)](stmt) if type(stmt) in _HEADS else repr(stmt)
        yield f"{head:<60}  # {stmt.loc.line}" if locations else head
        nested = ir.children(stmt)
        for position, block in enumerate(nested):
            if position and block:
                yield "else:"
            if block or not position:
                yield from ("    " + line for line in _body(block, locations))
            if not block and not position:
                yield "    pass"
