"""Code generation of `print(...)` and `breakpoint()` in a kernel."""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.expressions import parts_of
from kernels_npu.sim.machine.on_chip_array import MEMORIES_OF_CORE, describe, labelled
from kernels_npu.sim.machine.operands import shape_of
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.soc import MEMORY_OF_SCOPE


def emit_debug(code: AccessCodegen, stmt: ir.Debug) -> None:
    """Emit the call; reads made for printing are neither checked nor synchronised."""
    code.context.note(
        "AI-DBG-003",
        "hint",
        f"{stmt.action}() works on the simulator only: the compiler runs it once, while it builds "
        "the kernel",
        stmt,
    )
    if stmt.action == "breakpoint":
        # In a program for the debugger the name means the kernel's own debugger.
        code.emit("breakpoint()")
        return
    code.values["debug_print"] = debug_print
    code.values["labelled"] = labelled
    site = code.site(stmt, "print", "S", ())
    parts = "".join(f"{_part(code, a)}, " for a in stmt.args)
    code.emit(f"debug_print(R, {site.index}, ({parts}))")


def debug_print(runtime: CoreRuntime, site: int, parts: tuple[object, ...]) -> None:
    """Print `parts`, the last of which ends the line, with where and by whom."""
    place = f"{runtime.sites[site].stmt.loc} block {runtime.state.block} {CORES[runtime.core]}"
    print(f"[{place}] {''.join(map(str, parts))}", end="", flush=True)


def _part(code: AccessCodegen, arg: ir.Operand | str) -> str:
    """The text of the expression that gives one printed part."""
    if isinstance(arg, str):
        return repr(arg)
    if isinstance(arg, ir.Buffer):
        buffer = _here(code, arg)
        return _missing(arg.name) if buffer is None else _array(code, buffer, label=True)
    if isinstance(arg, ir.Region):
        buffer = _here(code, arg.buffer)
        if buffer is None or not all(_evaluable(code, e) for e in (*arg.mins, *arg.extents)):
            return _missing(arg.buffer.name)
        text = code.writer.text
        ranges = [
            # A single index, as far as the region still tells.
            text(m) if text(e) == "1" else f"{text(m)}:{text(m)} + {text(e)}"
            for m, e in zip(arg.mins, arg.extents)
        ]
        return f"{_array(code, buffer, label=False)}[{', '.join(ranges)}]"
    return code.writer.text(arg) if _evaluable(code, arg) else _missing("a value")


def _missing(name: str) -> str:
    return repr(f"<{name} is not on this core>")


def _here(code: AccessCodegen, buffer: ir.Buffer) -> ir.Buffer | None:
    """`buffer`, or what a pass made of it, if this core can read it."""
    if buffer.scope in ("global", "var"):
        return buffer
    found = buffer
    if buffer not in code.placements:
        found = next((b for b in code.placements if b.name == buffer.name), buffer)
    on_core = MEMORIES_OF_CORE[code.core_kind]
    return found if found in code.placements and MEMORY_OF_SCOPE[found.scope] in on_core else None


def _array(code: AccessCodegen, buffer: ir.Buffer, *, label: bool) -> str:
    if buffer.scope == "global":
        return code.tensor_name(buffer)
    if buffer.scope == "var":
        return f"s{buffer.uid}"
    shape = shape_of(buffer, code.func.loc)
    place = f"{buffer.name}: {describe(buffer, code.placements[buffer])}" if label else ""
    return f"labelled({code.flat_name(buffer)}, {shape!r}, {place!r})"


def _evaluable(code: AccessCodegen, expr: ir.Expr) -> bool:
    """Whether an expression reads only what this core knows."""
    if isinstance(expr, ir.Var):
        return code.writer.knows(expr)
    if isinstance(expr, ir.Load) and _here(code, expr.buffer) is not expr.buffer:
        return False
    return all(_evaluable(code, part) for part in parts_of(expr))
