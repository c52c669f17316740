"""A core's program for the debugger: the user's lines and names, and what to bind it to."""

from __future__ import annotations

import builtins
import dataclasses
import keyword
from collections.abc import Iterator, Mapping

from kernels_npu.sim import ir
from kernels_npu.sim.debugger.breakpoints import Breakpoint
from kernels_npu.sim.debugger.kernel_pdb import break_in_kernel, debugger, stopper
from kernels_npu.sim.debugger.source_mapping import FILES, PREFIX, STOP, DebugNames, map_program
from kernels_npu.sim.machine.arguments import symbolic_dims
from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.on_chip_array import MEMORIES_OF_CORE, on_chip_array, unique_name
from kernels_npu.sim.machine.program import CoreProgram, DebugInfo
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.soc import MEMORY_OF_SCOPE


def for_debugger(
    program: CoreProgram,
    lowered: LoweredKernel,
    body: tuple[ir.Stmt, ...],
    breakpoints: tuple[Breakpoint, ...],
) -> CoreProgram:
    """`program`, generated from `body`, with the lines and names of the user's source."""
    func = lowered.func
    memories = MEMORIES_OF_CORE[program.core_kind]
    buffers = {
        f"B{buffer.uid}": (buffer, address)
        for buffer, address in lowered.placements.items()
        if MEMORY_OF_SCOPE[buffer.scope] in memories
    }
    registers = {f"s{b.uid}": b.name for b in func.allocs if b.scope == "var"}
    loops = {f"v{var.uid}": var.name for var in _bound(body)}
    at_start: dict[str, str] = {}
    for generated, user in (
        *_parameters(func),
        *registers.items(),
        *((name, buffer.name) for name, (buffer, _) in buffers.items()),
    ):
        if _usable(user):
            at_start[unique_name(user, at_start)] = generated
    debugger().knows(stmt.loc for stmt in program.line_stmts.values())
    mapped = map_program(
        program.source,
        program.line_stmts,
        func,
        DebugNames(
            variables={g: u for g, u in {**registers, **loops}.items() if _usable(u)},
            at_start=at_start,
        ),
        breakpoints,
    )
    return dataclasses.replace(
        program,
        code=mapped.code,
        filename=mapped.filename,
        line_stmts=mapped.line_stmts,
        entry=mapped.entry,
        debug=DebugInfo(breakpoints, buffers, mapped.files),
    )


def debug_names(
    program: CoreProgram,
    names: Mapping[str, object],
    runtime: CoreRuntime,
    arenas: Mapping[str, Arena],
) -> dict[str, object]:
    """The globals of a program for the debugger, from those that it would have otherwise."""
    debug = program.debug
    assert debug is not None
    bound = {**vars(builtins), **names, "breakpoint": break_in_kernel}
    for name, (buffer, address) in debug.buffers.items():
        arena = arenas[MEMORY_OF_SCOPE[buffer.scope]]
        bound[name] = on_chip_array(buffer, arena, address)
    return {
        **{PREFIX + name: value for name, value in bound.items()},
        FILES: debug.files,
        STOP: stopper(runtime, debug.breakpoints),
        "__name__": f"kernel {program.entry}",
    }


def _parameters(func: ir.PrimFunc) -> Iterator[tuple[str, str]]:
    """The generated and the user's names of what the program is called with."""
    yield "cid", func.cid.name
    yield "vid", func.vid.name
    yield from ((f"a{p.uid}", p.name) for p in func.params if isinstance(p, ir.Var))
    yield from ((f"d{v.uid}", v.name) for v in symbolic_dims(func))
    yield from ((f"G{number}", tensor.name) for number, tensor in enumerate(func.tensors))


def _bound(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Var]:
    """The variables that statements of `body` bind."""
    for stmt in ir.walk(body):
        if isinstance(stmt, (ir.Let, ir.For)):
            yield stmt.var


def _usable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)
