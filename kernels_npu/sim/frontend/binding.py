"""What `=` means in a kernel: bindings, stores to elements, stores to `T.alloc_var` registers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.builder import name_once
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.frames import Frame
from kernels_npu.sim.frontend.loops import CountedLoop, ParallelLoop, PersistentLoop
from kernels_npu.sim.frontend.values import (
    BoundInt,
    BoundRegion,
    PendingOp,
    ScalarType,
    cast_to,
    describe,
    index_expr,
)

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.parser import Parser


def assign(parser: Parser, target: ast.expr, value: Any) -> None:
    """`target = value` as a statement."""
    if isinstance(target, ast.Subscript):
        _store(parser, target, value)
    elif isinstance(target, ast.Name):
        register = parser.names.bound(target.id)
        if is_register(register) and not _is_alloc_var(value):
            _emit_store(parser, register.buffer, (ir.Const(0, "int32"),), value)
        else:
            parser.names.bind(target.id, _bind(parser, target.id, value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        _refuse_repeated_names(target)
        for part, item in _unpack(target, value):
            assign(parser, part, item)
    else:
        fail(
            "AI-SRC-027",
            f"`{ast.unparse(target)}` cannot be assigned in a kernel",
            rule="targets are names, elements of buffers, and tuples of them",
            fix="assign to a name or to buffer[index]",
        )


def note_lost_update(parser: Parser, target: ast.expr, value: ast.expr) -> None:
    """Warn about `x = x + 1` in a loop: each iteration starts from the value of outside."""
    if not isinstance(target, ast.Name) or not isinstance(value, ast.BinOp):
        return
    operands = (value.left, value.right)
    reads_itself = any(isinstance(o, ast.Name) and o.id == target.id for o in operands)
    if not reads_itself or is_register(parser.names.bound(target.id)):
        return
    if parser.names.is_from_outside_loop(target.id):
        parser.builder.remark(
            "AI-SRC-071",
            f"`{target.id} = {ast.unparse(value)}` in a loop does not accumulate: every iteration "
            f"starts from the value that {target.id} has before the loop",
        )


def bind_target(parser: Parser, target: ast.expr, value: Any, what: str) -> None:
    """Bind loop variables or kernel indices, which are fresh variables without a statement."""
    if isinstance(target, ast.Name):
        for part in value if isinstance(value, tuple) else (value,):
            name_once(part, target.id)
        parser.names.bind(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _refuse_repeated_names(target)
        for part, item in _unpack(target, value):
            bind_target(parser, part, item, what)
    else:
        fail("AI-SRC-027", f"`{ast.unparse(target)}` is not a {what}", fix="use a plain name")


def _refuse_repeated_names(target: ast.expr) -> None:
    """The compiler takes each name once per assignment, `_` included."""
    names = [
        node.id
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        fail(
            "AI-SRC-027",
            f"`{ast.unparse(target)}` assigns {', '.join(repeated)} more than once",
            rule="the names on the left of one assignment differ, also `_`",
            fix="give each value a name of its own",
        )


def is_register(value: object) -> bool:
    """Whether `value` is the read of a `T.alloc_var` scalar."""
    return isinstance(value, ir.Load) and value.buffer.scope == "var"


def typed(declared: Any, value: Any) -> Any:
    """The value of `x: T.int32 = value`."""
    if not isinstance(declared, ScalarType):
        fail(
            "AI-SRC-027",
            f"the annotation is {describe(declared)}",
            rule="an annotated binding names a scalar dtype",
            fix="write `x: T.int32 = ...` or leave the annotation out",
        )
    return cast_to(value, declared.dtype)


def _is_alloc_var(value: object) -> bool:
    return isinstance(value, ir.Buffer) and value.scope == "var"


def _unpack(target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
    items = list(value) if isinstance(value, (tuple, list)) else None
    if items is None or len(items) != len(target.elts):
        got = describe(value) if items is None else f"{len(items)} values"
        fail(
            "AI-SRC-027",
            f"`{ast.unparse(target)}` takes {len(target.elts)} values but gets {got}",
            rule="both sides of an unpacking have the same number of values; "
            "T.Kernel gives (cid, vid) without threads= and one index with it",
            fix="match the number of names",
        )
    return list(zip(target.elts, items))


def _bind(parser: Parser, name: str, value: Any) -> Any:
    if isinstance(value, (PendingOp, Frame, CountedLoop, ParallelLoop, PersistentLoop)):
        fail(
            "AI-SRC-027",
            f"{name} is bound to {describe(value)}, which is not a value",
            rule="operations have no result: they write their destination buffer",
            fix="write the call as a statement of its own",
        )
    if isinstance(value, (tuple, list)):
        for position, item in enumerate(value):
            name_once(item, f"{name}_{position}")
        return value
    name_once(value, name)
    if _is_alloc_var(value):
        return ir.Load(value, (ir.Const(0, "int32"),), value.dtype)
    if type(value) is ir.Region:
        return BoundRegion(value.buffer, value.mins, value.extents)
    if isinstance(value, int) and not isinstance(value, bool):
        return BoundInt(value)
    if isinstance(value, (ir.Const, ir.Var)) or not isinstance(value, ir.Expr):
        return value
    if not parser.builder.in_kernel:
        return value  # host arithmetic on symbolic dimensions, used in the grid
    var = ir.Var(name, value.dtype)
    parser.builder.emit(ir.Let(loc=parser.builder.where, var=var, value=value))
    return var


def _store(parser: Parser, target: ast.Subscript, value: Any) -> None:
    buffer = parser.eval(target.value)
    if is_register(buffer):
        buffer = buffer.buffer
    if not isinstance(buffer, ir.Buffer):
        fail(
            "AI-SRC-027",
            f"`{ast.unparse(target)}` assigns into {describe(buffer)}",
            rule="only elements of buffers are assigned",
            fix="build lists before the kernel; store with buffer[index] = value",
        )
    index = parser.eval.index(target.slice)
    items = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    if any(isinstance(i, slice) for i in items):
        fail(
            "AI-SRC-011",
            f"`{ast.unparse(target)}` assigns to a slice",
            rule="a store writes one element",
            fix="use T.copy, T.tile.fill, or a loop over the elements",
        )
    if len(items) != len(buffer.shape):
        fail(
            "AI-SRC-011",
            f"{buffer.name} has {len(buffer.shape)} dimensions but {len(items)} indices are given",
            rule="a buffer is indexed with exactly one index per dimension",
            fix="give every dimension an index",
        )
    _emit_store(parser, buffer, tuple(index_expr(i) for i in items), value)


def _emit_store(
    parser: Parser, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], value: Any
) -> None:
    if not isinstance(value, (bool, int, float, ir.Expr)):
        fail(
            "AI-SRC-012",
            f"{describe(value)} is stored into an element of {buffer.name}",
            rule="an element holds one scalar",
            fix="store a number or an element; use T.copy for tiles",
        )
    parser.builder.emit(
        ir.Store(
            loc=parser.builder.where,
            buffer=buffer,
            indices=indices,
            value=cast_to(value, buffer.dtype),
        )
    )
