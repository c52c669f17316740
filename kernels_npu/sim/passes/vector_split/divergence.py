"""`threads=2`: where the hardware will not compute what the program means.

The simulator executes the meaning (`reduction`); every note names a statement for which the
compiler generates something else (`compiler`), or which has no meaning on halves of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.rewriting import (
    element_count,
    operand_buffer,
    static_int,
)
from kernels_npu.sim.passes.vector_split import compiler
from kernels_npu.sim.passes.vector_split.analysis import (
    CORES,
    VidSplit,
    accesses,
    loop_of_index,
    row_index,
)
from kernels_npu.sim.passes.vector_split.loop_notes import buffers, left_behind, loops, note
from kernels_npu.sim.passes.vector_split.moves import row_axis
from kernels_npu.sim.passes.vector_split.reduction import ReducedKernel

#: Operations that order, move or combine elements across the rows of their operands.
_ACROSS_ROWS = frozenset(
    {
        "sort",
        "topk",
        "sort32",
        "merge_sort",
        "init_sort_buf",
        "gather",
        "gatherb",
        "gather_mask",
        "gathermask_experiment",
        "transpose",
    }
)


def divergences(func: ir.PrimFunc, reduced: ReducedKernel, target: str) -> tuple[Note, ...]:
    """The notes for `func`, the user's kernel, for which `reduced` is executed.

    On `pto` an operation covers its operands' tiles, which are halved; counts are not looked at.
    """
    split = reduced.split
    if split is None:
        return ()
    notes = [*buffers(func, split), *loops(func, split), *left_behind(func, split)]
    for old, new in zip(ir.walk(func.body), ir.walk(reduced.func.body)):
        for rule in _RULES:
            notes += rule(old, new, split)
    notes += _row_numbers(reduced, split)
    return tuple(n for n in notes if target != "pto" or n.code != "AI-VID-002")


def _counts(old: ir.Stmt, new: ir.Stmt, split: VidSplit) -> Iterator[Note]:
    """Operations that cover more or fewer elements than a vector core's part of the tile."""
    if not isinstance(old, ir.TileOp) or not isinstance(new, ir.TileOp) or old.op in _UNCOUNTED:
        return
    if not any(compiler.is_halved(o, split) for o in old.operands):
        return
    if old.op.startswith("reduce_"):
        rows = [row_index(op.operands[0]) for op in (old, new)]
        if rows[0] is None or rows[1] is None or rows[0][1] == 1:
            return
        meant, compiled = rows[1][1], rows[0][1] // CORES
    else:
        written, covered = compiler.written_count(old), compiler.written_count(new)
        if written is None or covered is None:
            return
        meant, compiled = covered, written
        if compiler.halves_count(old, split):
            compiled = max(written // CORES, 1)
    if compiled > meant:
        yield note(
            "AI-VID-002",
            old.loc,
            f"threads=2 halves the tile but not the count of T.{old.op}: the hardware covers "
            f"{compiled} elements where a vector core has {meant}, and reads and overwrites what "
            "lies behind the tile in UB",
        )
    elif compiled < meant:
        yield note(
            "AI-VID-003",
            old.loc,
            f"the hardware covers {compiled} of the {meant} elements of this T.{old.op}: threads=2 "
            "halves its count although a loop over rows or a single row already shares out the "
            "work",
        )


#: Operations whose size the compiler takes from elsewhere.
_UNCOUNTED = frozenset({"copy", "atomic_add", "printf", "dump_tensor", "reinterpretcast"})


def _across_rows(old: ir.Stmt, new: ir.Stmt, split: VidSplit) -> Iterator[Note]:
    """Operations that need the rows of both vector cores."""
    if not isinstance(old, ir.TileOp) or not isinstance(new, ir.TileOp):
        return
    sources = (old.operands[0],) if old.op.startswith("reduce_") else old.operands
    shared = [b for o in sources if (b := operand_buffer(o)) is not None and split.rows(b)]
    reduces = old.op.startswith("reduce_") and old.attrs.get("dim") == 0
    if not shared or not (old.op in _ACROSS_ROWS or (reduces and len(shared[0].shape) > 1)):
        return
    if all(element_count(a) == element_count(b) for a, b in zip(old.operands, new.operands)):
        return  # within one row
    yield note(
        "AI-VID-005",
        old.loc,
        f"T.{old.op} needs all rows of {shared[0].name!r}, of which threads=2 gives each vector "
        "core half: each core works on its own half, and nothing combines them",
        "error",
    )


def _sequences(old: ir.Stmt, new: ir.Stmt, split: VidSplit) -> Iterator[Note]:
    """Generated sequences, which start anew on each vector core."""
    if isinstance(old, ir.TileOp) and old.op in ("createvecindex", "arith_progression"):
        buffer = operand_buffer(old.operands[0])
        if buffer is not None and split.rows(buffer):
            yield note(
                "AI-VID-007",
                old.loc,
                f"T.{old.op} numbers the elements of {buffer.name!r}, of which threads=2 gives "
                "each vector core half: the hardware starts with the same number on both",
            )


def _fixed_rows(old: ir.Stmt, new: ir.Stmt, split: VidSplit) -> Iterator[Note]:
    """Rows of a tile that are named by number rather than by a loop."""
    for access in dict.fromkeys(accesses(old)):
        buffer, row = operand_buffer(access), row_index(access)
        if buffer is None or row is None or not split.rows(buffer):
            continue
        index, extent = row
        if loop_of_index(index, extent) in split.loops:
            continue
        everything = static_int(index) == 0 and extent == static_int(buffer.shape[0])
        if everything:
            continue
        yield note(
            "AI-VID-006",
            old.loc,
            f"this names rows of {buffer.name!r} by number; threads=2 gives each vector core half "
            "of the rows and leaves the number as it is, so that each core takes that row of its "
            "own half",
        )


def _moves(old: ir.Stmt, new: ir.Stmt, split: VidSplit) -> Iterator[Note]:
    """Copies of which the compiler moves another row of the tensor, or none."""
    if not isinstance(old, ir.TileOp) or old.op not in ("copy", "atomic_add"):
        return
    for near, far in compiler.sides(old):
        tile, tensor = operand_buffer(old.operands[near]), operand_buffer(old.operands[far])
        if tile is None or tensor is None or tensor.scope != "global":
            continue
        rows, row = split.rows(tile), row_index(old.operands[near])
        stepped = row is not None and loop_of_index(*row) in split.loops
        if old.op == "atomic_add" and rows is not None:
            happens = "adds both times to the rows of the first core, beyond the end of the tile"
        elif rows is None and static_int(tile.shape[0]) == 1 and tile in split.halved:
            happens = f"takes the next row of {tensor.name!r} on the second core"
        elif rows is None or stepped:
            continue
        elif compiler.moved_axis(tensor, tile) != row_axis(old.operands[far], len(tile.shape)):
            happens = (
                f"moves dimension {compiler.moved_axis(tensor, tile)} of {tensor.name!r}, "
                "counted from the last one, which is not where the rows of the tile lie"
            )
        else:
            continue
        yield note(
            "AI-VID-009",
            old.loc,
            f"the compiler does not share out this T.{old.op} by rows: the hardware {happens}",
        )


def _row_numbers(reduced: ReducedKernel, split: VidSplit) -> Iterator[Note]:
    """Row numbers used for anything but a row of a halved tile."""
    for stmt, var in dict.fromkeys(reduced.renumbered):
        if isinstance(stmt, ir.TileOp) and stmt.op == "copy":
            if any(
                compiler.moves_row(stmt, near, far, var, split)
                for near, far in compiler.sides(stmt)
            ):
                continue
        yield note(
            "AI-VID-007",
            stmt.loc,
            f"{var.name!r} is used for more than the row of a tile here; threads=2 halves its loop "
            "and leaves it counting from 0 on both vector cores, so that the second core uses the "
            "row numbers of the first",
        )


_Rule = Callable[[ir.Stmt, ir.Stmt, VidSplit], Iterator[Note]]
_RULES: tuple[_Rule, ...] = (_counts, _across_rows, _sequences, _fixed_rows, _moves)
