"""`for` statements: counted, parallel and persistent loops."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import binding, loops
from kernels_npu.sim.frontend.diagnostics import fail, move_to
from kernels_npu.sim.frontend.values import describe

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.parser import Parser


def visit(parser: Parser, node: ast.For, loc: SourceLocation) -> None:
    """One `for` statement."""
    loop = parser.eval(node.iter)
    move_to(loc)
    if isinstance(loop, loops.ParallelLoop):
        variables = tuple(ir.Var("") for _ in loop.extents)
        body = _loop_body(parser, node, variables)
        parser.builder.emit(ir.Parallel(loc=loc, vars=variables, extents=loop.extents, body=body))
    elif isinstance(loop, loops.CountedLoop):
        _counted(parser, node, loc, loop)
    elif isinstance(loop, loops.PersistentLoop):
        _persistent(parser, node, loc, loop)
    else:
        extra = " (a macro sees Python's `range`)" if isinstance(loop, range) else ""
        fail(
            "AI-SRC-005",
            f"`for` iterates over {describe(loop)}{extra}",
            rule="loops are range, T.serial, T.unroll, T.Parallel, T.Pipelined or T.Persistent",
            fix="use T.serial(n); index a tuple of buffers with static integers",
        )


def _counted(parser: Parser, node: ast.For, loc: SourceLocation, loop: loops.CountedLoop) -> None:
    variables = tuple(
        ir.Var("", "int64" if "int64" in (a.dtype, b.dtype) else "int32") for a, b in loop.ranges
    )
    body = _loop_body(parser, node, variables)
    for var, (start, stop) in reversed(list(zip(variables, loop.ranges))):
        nest = ir.For(
            loc=loc,
            var=var,
            start=start,
            stop=stop,
            body=body,
            kind=loop.kind,
            attrs=loop.attrs,
        )
        body = (nest,)
    parser.builder.emit(body[0])


def _persistent(
    parser: Parser, node: ast.For, loc: SourceLocation, loop: loops.PersistentLoop
) -> None:
    plan = loops.expand_persistent(loop)
    variables = tuple(ir.Var("") for _ in plan.coordinates)
    inner = _loop_body(parser, node, variables)
    lets = tuple(ir.Let(loc=loc, var=v, value=c) for v, c in zip(variables, plan.coordinates))
    stop: tuple[ir.Stmt, ...] = ()
    # The compiler leaves the test out unless it can prove that there are at least two waves.
    if isinstance(plan.waves, ir.Const) and plan.waves.value >= 2:
        stop = (ir.If(loc=loc, cond=plan.exhausted, then=(ir.Break(loc=loc),)),)
    parser.builder.emit(
        ir.For(
            loc=loc,
            var=plan.wave,
            start=ir.as_expr(0),
            stop=plan.waves,
            body=(*stop, *lets, *inner),
            kind="persistent",
        )
    )


def _loop_body(parser: Parser, node: ast.For, variables: tuple[ir.Var, ...]) -> tuple[ir.Stmt, ...]:
    if node.orelse:
        fail("AI-SRC-003", "`for ... else` is not a statement of the dialect")
    with parser.names.frame(loop=True):
        value: Any = variables[0] if len(variables) == 1 else variables
        binding.bind_target(parser, node.target, value, "loop variable")
        return parser.block(node.body)
