"""Which tensors a kernel writes, and outputs that are none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels_npu.sim import ir
from kernels_npu.sim.machine.findings import ERROR, Finding
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.passes.rewriting import operand_buffer, root_of


def written_tensors(lowered: LoweredKernel) -> frozenset[str]:
    """Names of the tensor parameters that some statement writes."""
    names: set[str] = set()
    for stmt in (*ir.walk(lowered.cube), *ir.walk(lowered.vector)):
        if isinstance(stmt, ir.Store) and stmt.buffer.scope == "global":
            names.add(root_of(stmt.buffer).name)
        if isinstance(stmt, ir.TileOp) and stmt.op in ("copy", "atomic_add"):
            buffer = operand_buffer(stmt.operands[1] if stmt.op == "copy" else stmt.operands[0])
            if buffer is not None and buffer.scope == "global":
                names.add(root_of(buffer).name)
    return frozenset(names)


def unwritten_outputs(
    lowered: LoweredKernel, out_idx: Sequence[int], workspace_idx: Sequence[int]
) -> Iterator[Finding]:
    """Outputs that no statement writes: a call returns what the allocator left in them.

    Positions are those of the parameters. What the kernel writes instead is named: `out_idx` may
    simply select the wrong parameter.
    """
    func, written = lowered.func, written_tensors(lowered)
    allocated = {*out_idx, *workspace_idx}
    instead = [i for i, p in enumerate(func.params) if p.name in written and i not in allocated]
    for index in out_idx:
        name = func.params[index].name
        if name in written:
            continue
        message, fix = f"the output {name} (out_idx {index}) is never written", ""
        if instead:
            others = ", ".join(func.params[i].name for i in instead)
            message += f"; {others}, which the kernel writes, is not an output"
            fix = f"put {instead[-1]} in place of {index} into out_idx, or copy the result "
            fix += f"into {name}"
        yield Finding(
            code="AI-INIT-002",
            severity=ERROR,
            message=message,
            kernel=func.name,
            loc=func.loc,
            fix=fix,
        )
