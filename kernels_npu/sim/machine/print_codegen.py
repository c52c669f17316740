"""Code generation of `T.printf` and `T.dump_tensor`.

Printing shows what a core has in its memories once everything that it issued has taken effect, but
it orders nothing for the checks: a kernel that is right only with its prints is reported.
"""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.operands import shape_of
from kernels_npu.sim.machine.printing import parse_format


def emit_print(code: AccessCodegen, stmt: ir.Stmt) -> bool:
    """Emit a print; False when `stmt` is none."""
    if not isinstance(stmt, ir.TileOp) or stmt.op not in ("printf", "dump_tensor"):
        return False
    if stmt.op == "printf":
        _emit_printf(code, stmt)
    else:
        _emit_dump(code, stmt)
    return True


def _emit_printf(code: AccessCodegen, stmt: ir.TileOp) -> None:
    values, dtypes = [], []
    for operand in stmt.operands:
        if isinstance(operand, ir.Expr):
            values.append(code.value(operand))
            dtypes.append(operand.dtype)
        else:
            buffer = operand if isinstance(operand, ir.Buffer) else operand.buffer
            values.append(str(code.placements.get(buffer, 0)))
            dtypes.append("handle")
    name = f"p{len(code.values)}"
    code.values[name] = parse_format(str(stmt.attrs["fmt"]), dtypes, stmt.loc)
    code.emit(f"R.console.printf(R.state.block, {', '.join([name, *values])})")


def _emit_dump(code: AccessCodegen, stmt: ir.TileOp) -> None:
    buffer = stmt.operands[0]
    assert isinstance(buffer, ir.Buffer)
    if buffer.scope == "global":
        data, count = code.tensor_name(buffer, flat=True), ""
    elif not _on_this_core(code, buffer):
        return
    else:
        if code.deferred:
            code.emit("yield ('drain', ALL_PIPES)")
        size = 1
        for extent in shape_of(buffer, stmt.loc):
            size *= extent
        data, count = code.flat_name(buffer), f"[:{size}]"
    wanted = code.value(ir.as_expr(stmt.attrs["size"]))  # type: ignore[arg-type]
    shape = tuple(code.value(ir.as_expr(s)) for s in stmt.attrs["shape"])  # type: ignore[union-attr, arg-type]
    memory = {"global": "GM"}.get(buffer.scope, buffer.scope.upper())
    code.emit(
        f"R.console.dump(R.state.block, {f'{buffer.name} ({buffer.dtype}, {memory})'!r}, "
        f"{stmt.attrs['desc']}, {data}{count}[:{wanted}], ({''.join(s + ', ' for s in shape)}))"
    )


def _on_this_core(code: AccessCodegen, buffer: ir.Buffer) -> bool:
    """Whether the memory of `buffer` belongs to the core that is being compiled."""
    return (buffer.scope == "ub") == (code.core_kind == "vector")
