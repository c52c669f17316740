"""Which layouts and annotated addresses take effect.

L1 buffers of two or more dimensions get the zN layout when the kernel names none. Lowering
`T.Parallel` rebuilds the kernel's block *without its annotations*: one `T.Parallel` anywhere in a
kernel and all layouts, default ones included, and all addresses of `T.annotate_address` are gone,
without a word.
"""

from __future__ import annotations

import dataclasses

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note

DEFAULT_L1_LAYOUT = "zn"


def effective_layouts(
    func: ir.PrimFunc, written: ir.PrimFunc
) -> tuple[ir.PrimFunc, tuple[Note, ...]]:
    """`func` with the layouts and addresses that the compiler uses; scopes must be inferred.

    `written` is the user's kernel, which may have loops that are copies by now.

    Raises:
        KernelSourceError: AI-MEM-026 for a 1-D buffer in L1.
    """
    for buffer in func.allocs:
        flat = buffer.scope == "l1" and buffer.alias_of is None and len(buffer.shape) < 2
        if flat and buffer not in func.layouts:
            raise KernelSourceError(
                "AI-MEM-026",
                f"{buffer.name!r} lives in L1 and has one dimension",
                where=buffer.loc or func.loc,
                rule="the compiler gives every L1 buffer the zN layout, which takes rows and "
                "columns; an alloc_shared buffer that no tile operation uses is inferred to L1",
                fix="allocate it with T.alloc_ub, or with two dimensions",
            )
    loop = next((stmt for stmt in ir.walk(written.body) if isinstance(stmt, ir.Parallel)), None)
    if loop is None:
        defaults = {
            buffer: DEFAULT_L1_LAYOUT
            for buffer in func.allocs
            if buffer.scope == "l1" and buffer.alias_of is None and len(buffer.shape) > 1
        }
        return dataclasses.replace(func, layouts={**defaults, **func.layouts}), ()
    lost = [
        *(f"the address of {buffer.name!r}" for buffer in func.addresses),
        *(f"the layout of {buffer.name!r}" for buffer in func.layouts),
    ]
    bare = dataclasses.replace(func, addresses={}, layouts={})
    if not lost:
        return bare, ()
    note = Note(
        code="AI-MEM-013",
        severity="warning",
        message=f"because of this T.Parallel the compiler forgets {', '.join(lost)}",
        loc=loop.loc,
    )
    return bare, (note,)
