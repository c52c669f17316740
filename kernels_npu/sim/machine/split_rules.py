"""The rules behind findings on work that the compiler shares out itself: `T.Kernel(threads=2)`
copies between the core types of a block, loops that become copies.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu.sim.machine.rule import Rule

_BY_HAND = "leave threads out, take (cid, vid), allocate half tiles and add vid to the rows"


def _split(rule: str, fix: str, severity: str = "warning") -> Rule:
    return Rule(check="always", severity=severity, rule=rule, fix=fix)


SPLIT_RULES: Mapping[str, Rule] = {
    "AI-VID-002": _split(
        "the compiler halves the counts of arithmetic, compare and fill only, not those of other "
        "operations on a halved tile",
        f"write it with arithmetic operations or T.Parallel, or {_BY_HAND}",
    ),
    "AI-VID-003": _split(
        "the compiler halves a count whenever the first UB operand starts at element 0, also "
        "where the work on rows is shared out already",
        f"write into a row of a tile instead of a buffer of one row, or {_BY_HAND}",
    ),
    "AI-VID-004": _split(
        "the compiler halves the first dimension of every UB buffer, whatever it stands for",
        _BY_HAND,
    ),
    "AI-VID-005": _split(
        "each vector core has half of the rows of a tile", _BY_HAND, severity="error"
    ),
    "AI-VID-006": _split(
        "the compiler halves tiles and loops, but no row number",
        f"loop over all rows, or {_BY_HAND}",
    ),
    "AI-VID-007": _split(
        "the compiler halves tiles and loops and moves the tensor's rows in copies; it shifts no "
        "other number by the rows of the first core",
        f"copy into a tile and compute there, or {_BY_HAND}",
    ),
    "AI-VID-008": _split(
        "the compiler halves a loop whose variable is the first index of a tile and takes the "
        "start as it is",
        "loop with T.serial over all rows, with the variable itself as the row",
        severity="error or warning",
    ),
    "AI-VID-009": _split(
        "the compiler adds vid to the dimension of the tensor that lies at the tile's first, "
        "counted from the last, and in T.copy only",
        f"give the tensor's rows that place, or {_BY_HAND}",
    ),
    "AI-VID-010": _split(
        "each vector core gets half of the rows, rounded down",
        "allocate tiles with an even number of rows",
        severity="error",
    ),
    "AI-MEM-022": _split(
        "the compiler stores a copy between core types to the last workspace of its source, and "
        "loads a destination once, before the first tile operation of the text that reads it",
        "use one source and one destination buffer per copy, and read the destination first with "
        "a tile operation beside the copy",
    ),
    "AI-MEM-024": _split(
        "a copy between core types stores all of its source, and loads as much",
        "copy whole tiles of the same shape",
    ),
    "AI-MEM-027": _split(
        "L1 has no element accesses: a T.Parallel that assigns elements of a tensor to it becomes "
        "a copy of the whole tile",
        "write T.copy",
        severity="hint",
    ),
    "AI-MEM-028": _split(
        "in a T.Parallel the compiler stores an accumulator straight from the cube core only when "
        "the assignment casts",
        "write T.copy",
        severity="hint",
    ),
}
