"""`threads=2`: notes on tiles, and on loops over their rows, that cannot be shared out."""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.passes.buffer_uses import reads, writes
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.rewriting import static_int
from kernels_npu.sim.passes.vector_split import compiler
from kernels_npu.sim.passes.vector_split.analysis import CORES, RowLoop, VidSplit


def note(code: str, loc: SourceLocation, message: str, severity: str = "warning") -> Note:
    """A note, by default a warning."""
    return Note(code=code, severity=severity, message=message, loc=loc)


def buffers(func: ir.PrimFunc, split: VidSplit) -> Iterator[Note]:
    """Buffers of which half is not what the program means."""
    for buffer in split.halved:
        rows, loc = static_int(buffer.shape[0]) or 1, buffer.loc or func.loc
        if buffer in split.columns and rows > 1:
            yield note(
                "AI-VID-004",
                loc,
                f"{buffer.name!r} lies along the columns of 2-D tiles, but threads=2 halves it as "
                f"if it had {rows} rows: the hardware has {rows // CORES} of its elements on each "
                "vector core, and reads what lies behind it for the rest",
            )
        elif rows > 1 and rows % CORES:
            yield note(
                "AI-VID-010",
                loc,
                f"{buffer.name!r} has {rows} rows, and each vector core gets {rows // CORES}: "
                f"row {rows - 1} is computed by none",
                "error",
            )


def loops(func: ir.PrimFunc, split: VidSplit) -> Iterator[Note]:
    """Loops over rows that the compiler does not halve, or that cover some of the rows."""
    for loop in split.loops.values():
        if not compiler.recognises(loop.var, loop.stmt.body, split):
            yield note(
                "AI-VID-008",
                loop.stmt.loc,
                f"the loop over {loop.var.name!r} steps through rows of a tile that threads=2 "
                f"halves, in a form that the compiler does not recognise: the hardware runs all "
                f"{loop.all} iterations on the {loop.half} that each vector core has",
            )
        elif not _covers(loop):
            yield note(
                "AI-VID-008",
                loop.stmt.loc,
                f"the loop over {loop.var.name!r} runs over some of the {loop.all} rows of a tile "
                "that threads=2 halves: the hardware runs half of its iterations from the same "
                "start on each vector core",
                "error" if isinstance(loop.stmt, ir.Parallel) else "warning",
            )


def left_behind(func: ir.PrimFunc, split: VidSplit) -> Iterator[Note]:
    """What a loop over rows leaves in registers and whole buffers comes from half of the rows."""
    whole = {b for b in func.allocs if b.alias_of is None and not split.rows(b)}
    everything = list(ir.walk(func.body))
    for loop in split.loops.values():
        inside = list(ir.walk(loop.stmt.body))
        after = everything[everything.index(loop.stmt) + 1 + len(inside) :]
        for buffer in whole:
            if not any(writes(stmt, buffer) for stmt in inside):
                continue
            user = next((s for s in after if reads(s, buffer) or writes(s, buffer)), None)
            if user is not None and reads(user, buffer):
                yield note(
                    "AI-VID-005",
                    user.loc,
                    f"{buffer.name!r} is what the loop over the rows at {loop.stmt.loc} left in "
                    "it; threads=2 gives each vector core half of the rows, so that it comes from "
                    "these, and nothing combines the two",
                    "error",
                )


def _covers(loop: RowLoop) -> bool:
    if isinstance(loop.stmt, ir.Parallel):
        return dict(zip(loop.stmt.vars, loop.stmt.extents))[loop.var] == loop.all
    return static_int(loop.stmt.start) == 0 and static_int(loop.stmt.stop) == loop.all
