"""The rule behind each finding: the switch that controls it, the rule in one sentence, a fix.

A finding that knows a better fix for its place says that one; no finding is without. `sanitizer`
is what msSanitizer calls the same mistake on a device, where it has a check for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu.error_codes import CODES
from kernels_npu.sim.machine.rule import Rule
from kernels_npu.sim.machine.split_rules import SPLIT_RULES
from kernels_npu.sim.machine.sync_rules import SYNC_RULES

_PAD = "pad the rows to a multiple of 32 bytes"

RULES: Mapping[str, Rule] = {
    **SYNC_RULES,
    "AI-INIT-001": Rule(
        check="uninitialised",
        rule="on-chip memory holds what the last kernel left: only bytes that this block wrote may "
        "reach global memory",
        fix="fill or load all of the buffer that is stored, or store less of it",
        sanitizer="initcheck: uninitialized read",
    ),
    "AI-INIT-003": Rule(
        check="uninitialised",
        severity="warning",
        rule="data moves in blocks of 32 bytes; what stands in a block behind the results is "
        "whatever the last kernel left, and nobody may rely on it",
        fix="fill the buffer first, or store less of it",
        sanitizer="initcheck: uninitialized read",
    ),
    "AI-BOUND-001": Rule(
        check="bounds",
        rule="an access to global memory must lie inside the tensor",
        fix="guard the access, or correct the index (block ids and slots come from the caller)",
        sanitizer="memcheck: illegal read/write of GM",
    ),
    "AI-BOUND-002": Rule(
        check="bounds",
        rule="an access must lie inside its on-chip buffer",
        fix="correct the index, or enlarge the buffer",
        sanitizer="memcheck: illegal read/write",
    ),
    "AI-BOUND-003": Rule(
        check="alignment",
        rule="on target ascendc the rows of a copy lie at a pitch rounded up to 32 bytes, vector "
        "operations expect them without gaps",
        fix=_PAD,
    ),
    "AI-BOUND-004": Rule(
        check="bounds",
        rule="on target ascendc a reduction takes the logical width, rounded up to 32 bytes, as "
        "its row pitch",
        fix="make the width rounded up to 32 bytes equal to the buffer's row, or use target pto",
    ),
    "AI-BOUND-005": Rule(
        check="bounds",
        rule="a compare works on whole repeats of 256 bytes",
        fix="compare a multiple of 256 bytes",
    ),
    "AI-BOUND-006": Rule(
        check="alignment",
        rule="vector and copy operands in UB start on 32-byte boundaries",
        fix=_PAD,
        sanitizer="memcheck: misaligned access",
    ),
    "AI-BOUND-007": Rule(
        check="bounds",
        rule="a kernel addresses a tensor by its declared shape, whatever the tensor's own is",
        fix="pass a tensor of at least the declared shape",
        sanitizer="memcheck: illegal read/write of GM",
    ),
    "AI-BOUND-008": Rule(
        check="bounds",
        severity="warning or hint",
        rule="a copy is clipped at the tensor's border; past it nothing is left to move",
        fix="guard the access if the row was meant to exist",
    ),
    "AI-BOUND-009": Rule(
        check="alignment",
        severity="warning",
        rule="a move within UB works on units of 32 bytes",
        fix="move a multiple of 32 bytes",
    ),
    "AI-BOUND-010": Rule(
        check="bounds",
        rule="of a scalar operand's indices the compiler passes on the first one only",
        fix="read the element from a 1-D buffer, or bind it to a name first",
    ),
    "AI-BOUND-011": Rule(
        check="bounds",
        rule="a copy moves the rectangle that the global side names; the on-chip side must hold it",
        fix="slice both sides alike",
        sanitizer="memcheck: illegal write",
    ),
    "AI-BOUND-012": Rule(
        check="bounds",
        rule="a copy moves the last two dimensions that extend; it ignores further ones",
        fix="loop over the outer dimension",
    ),
    "AI-BOUND-013": Rule(
        check="bounds",
        severity="warning",
        rule="an operation runs on over whatever lies behind its buffer",
        fix="lower the count, or enlarge the buffer",
        sanitizer="memcheck: illegal read/write",
    ),
    "AI-BOUND-014": Rule(
        check="bounds",
        severity="warning",
        rule="the library sums half elements by one repeat per row: at most 128 columns, along the "
        "last axis",
        fix="cast to float32 and sum that",
    ),
    "AI-BOUND-015": Rule(
        check="bounds",
        rule="a transpose works on tiles of 16 by 16",
        fix="pad both extents to multiples of 16",
    ),
    "AI-TYPE-001": Rule(
        check="dtypes",
        rule="the vector unit has this operation for some dtypes only",
        fix="cast to float32 (or another supported dtype), compute, and cast back",
    ),
    "AI-TYPE-002": Rule(
        check="dtypes",
        rule="the operands of a vector operation have one dtype; nothing is promoted",
        fix="cast one operand with T.tile.cast",
    ),
    "AI-TYPE-003": Rule(
        check="dtypes",
        rule="the vector unit converts between some pairs of dtypes only",
        fix="convert in two steps, through float16 or float32",
    ),
    "AI-TYPE-004": Rule(
        check="dtypes",
        rule="a conversion takes one of the documented rounding modes",
        fix="use CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC or CAST_ODD",
    ),
    "AI-TYPE-005": Rule(
        check="dtypes",
        rule="gather offsets are uint32 and count bytes",
        fix="make the offsets uint32 and multiply them by the element size",
    ),
    "AI-TYPE-006": Rule(
        check="dtypes",
        rule="the vector unit compares int32 for equality only",
        fix="compare float32 values, or use mode EQ",
    ),
    "AI-TYPE-007": Rule(
        check="dtypes",
        severity="error or warning",
        rule="on target ascendc a copy between global memory and UB keeps the dtype",
        fix="copy into a buffer of the tensor's dtype and T.tile.cast from there",
    ),
    "AI-TYPE-008": Rule(
        check="dtypes",
        rule="the cube multiplies float16, bfloat16 or float32 into float32, and int8 into int32",
        fix="allocate inputs of one dtype and an accumulator of the matching one",
    ),
    "AI-MEM-001": Rule(
        check="capacity",
        severity="error or warning",
        rule="buffers and hidden temporaries must fit the memory; without memory planning the "
        "compiler does not look",
        fix="make tiles smaller, share bytes, or turn on tl.ascend_memory_planning",
    ),
    "AI-MEM-010": Rule(
        check="capacity",
        severity="warning",
        rule="element accesses to L1 are dropped by the device",
        fix="allocate the buffer with T.alloc_ub",
    ),
    "AI-MEM-013": Rule(
        check="capacity",
        severity="warning",
        rule="the pass that vectorises T.Parallel drops annotated addresses and layouts",
        fix="write the T.Parallel as tile operations, or do not rely on the annotation",
    ),
    "AI-SRC-040": Rule(
        check="always",
        rule="what only one core type can read cannot decide what the other one does",
        fix="pass the value through global memory, behind a cross-core flag",
    ),
    "AI-SRC-041": Rule(
        check="always",
        severity="warning",
        rule="automatic combine keeps register assignments in the cube's program only",
        fix="keep the value in an element of a UB buffer, or separate the cores with T.Scope",
    ),
    "AI-SRC-042": Rule(
        check="always",
        severity="warning",
        rule="an operation runs on the core type that owns it: tile operations and UB on vector "
        "cores, matrix products, L1 and L0 on the cube",
        fix="move it into the T.Scope of its core type",
    ),
    "AI-SRC-071": Rule(
        check="always",
        severity="warning",
        rule="a name bound in a loop's body is a new binding there; it does not outlive the "
        "iteration",
        fix="declare it with T.alloc_var(dtype, init=...), or keep it in an element of a buffer",
    ),
    "AI-SRC-072": Rule(
        check="always",
        rule="a kernel must end: a while loop may take SimConfig.loop_limit iterations",
        fix="let the loop's condition change in its body",
    ),
    "AI-DBG-003": Rule(
        check="always",
        severity="hint",
        rule="the compiler evaluates Python's print and breakpoint while it builds the kernel",
        fix="take it out before the kernel goes to a device",
    ),
    "AI-PIPE-011": Rule(
        check="always",
        rule="what a pipelined loop loads ahead must not be overwritten before it is used",
        fix="give the buffer a version per stage, or set num_stages=0",
    ),
    "AI-SRC-062": Rule(
        check="always",
        rule="an integer division by zero gives no defined value",
        fix="guard the division, for example with T.max(divisor, 1)",
    ),
    "AI-SRC-063": Rule(
        check="always",
        rule="a statement must be computable on the values that reach it",
        fix="check the values that the statement computes with",
    ),
    "AI-BOUND-030": Rule(
        check="bounds",
        severity="warning",
        rule="the pto generator drops the element count and processes the whole destination",
        fix="pass a slice of that size",
    ),
    "AI-BOUND-031": Rule(
        check="bounds",
        rule="the elements to sort lie in the source, whose dimensions topk adds up",
        fix="give it a one-dimensional source that is large enough",
    ),
    "AI-BOUND-032": Rule(
        check="bounds",
        rule="the pto generator takes the length of the first list for all",
        fix="pad the lists to one length",
    ),
    "AI-BOUND-033": Rule(
        check="bounds",
        rule="the compiler passes the reserved argument as the number of elements",
        fix="give both arguments the same value",
    ),
    "AI-BOUND-034": Rule(
        check="bounds",
        severity="warning",
        rule="a lane mask is a multiple of the elements of a 32-byte block, of at most 64 bits",
        fix="use a multiple",
    ),
    "AI-BOUND-036": Rule(
        check="bounds",
        rule="the pto generator counts up or down by one",
        fix="multiply the progression by the difference afterwards",
    ),
    "AI-BOUND-037": Rule(
        check="bounds",
        rule="the pto generator ignores the base address",
        fix="slice the source, or add the base to the offsets",
    ),
    "AI-MEM-025": Rule(
        check="always",
        severity="warning",
        rule="scratch space of a library call is reserved by a buffer",
        fix="use T.reduce_sum",
    ),
    "AI-BOUND-016": Rule(
        check="bounds",
        severity="hint",
        rule="what lies outside of a tensor is padded on a load and left out on a store",
        fix="allocate the tile no larger than the tensor, or check the block sizes",
    ),
    "AI-BOUND-017": Rule(
        check="bounds",
        severity="warning",
        rule="M and N of a matrix product are multiples of 16, K of 32 bytes",
        fix="allocate the padded size; copies from global memory clear the rest",
    ),
    "AI-BOUND-018": Rule(
        check="bounds",
        severity="hint",
        rule="a copy from global memory pads what it does not move of its tile",
        fix="give both sides the same extents, or set pad_value to what the tail needs",
    ),
    "AI-BOUND-019": Rule(
        check="bounds",
        severity="error or warning",
        rule="on target pto a load into L1 makes a matrix of the fractal layout of its own",
        fix="load whole matrices: one buffer, or one index of a leading dimension, per load",
    ),
    "AI-INIT-002": Rule(
        check="uninitialised",
        severity="error or warning",
        rule="a kernel writes every output that the launch allocates",
        fix="copy the result into it, or correct out_idx",
    ),
    "AI-INIT-004": Rule(
        check="uninitialised",
        severity="warning",
        rule="on-chip memory holds what the kernel before left there",
        fix="load or fill the buffer before it is read",
    ),
    "AI-SRC-061": Rule(
        check="always",
        rule="operands of gemm_v0 are in L1, L1 and L0C, those of mma in L0A, L0B and L0C",
        fix="allocate them with T.alloc_L1 (T.alloc_L0A, T.alloc_L0B) and T.alloc_L0C",
    ),
    "AI-TYPE-010": Rule(
        check="dtypes",
        severity="warning",
        rule="CAST_NONE is for conversions that lose nothing",
        fix='use "CAST_RINT"',
    ),
    "AI-TYPE-011": Rule(
        check="dtypes",
        rule="a mask is a buffer of packed bits, as T.tile.compare writes it",
        fix="compare into a uint8 buffer of one bit per element",
    ),
    **SPLIT_RULES,
}


def rule_of(code: str) -> Rule:
    """The rule of a code; for one that says all there is to say itself, made of its meaning."""
    known = RULES.get(code)
    if known is not None:
        return known
    meaning = CODES.get(code, code)
    return Rule(check="always", rule=meaning, fix="change the statement at the place named")
