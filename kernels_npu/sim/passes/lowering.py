"""All passes in the compiler's order: from a parsed kernel to its cores' programs and addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.passes import allocation_order, cross_core_sync, cv_split, program_text
from kernels_npu.sim.passes.channels.lowering import lower_virtual_channels
from kernels_npu.sim.passes.decided_branches import without_decided
from kernels_npu.sim.passes.device_code import check_device_code
from kernels_npu.sim.passes.layouts import effective_layouts
from kernels_npu.sim.passes.memory_planning import plan_memory
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.parallel_moves import moves_as_copies
from kernels_npu.sim.passes.pipelining import (
    Accesses,
    Homes,
    Injector,
    Versions,
    pipeline_across_cores,
)
from kernels_npu.sim.passes.scope_inference import infer_scopes
from kernels_npu.sim.passes.temporaries import Temporaries, hidden_temporaries
from kernels_npu.sim.passes.vector_split.divergence import divergences
from kernels_npu.sim.passes.vector_split.reduction import reduce_vid
from kernels_npu.sim.soc import Soc

AUTO_SYNC = "tl.ascend_auto_sync"
MEMORY_PLANNING = "tl.ascend_memory_planning"
AUTO_CV_COMBINE = "tl.ascend_auto_cv_combine"
AUTO_CV_SYNC = "tl.ascend_auto_cross_core_sync"

#: The pass configs that the compiler reads; all are off by default.
PASS_CONFIGS = (AUTO_SYNC, MEMORY_PLANNING, AUTO_CV_COMBINE, AUTO_CV_SYNC)


@dataclass(frozen=True, kw_only=True)
class LoweredKernel:
    """What the machine executes.

    Attributes:
        func: the kernel with scopes inferred, work split over the vector cores (`threads=2`), and
            the addresses and layouts that take effect; automatic workspaces follow the user's
            parameters. Its body is that of both core types.
        cube: the program of the AIC; empty when it has nothing to do.
        vector: the program of each AIV; empty when it has nothing to do.
            Neither program holds a `CoreScope`.
        placements: byte address in its memory of every on-chip buffer that is touched: allocations,
            hidden temporaries, and views. The destination of a `reinterpretcast` is at its source.
        sizes: bytes that the compiler reserves per allocation.
        used_bytes: highest byte in use per memory (`UB`, `L1`, `L0A`, `L0B`, `L0C`), as the
            compiler places the buffers.
        auto_sync: whether the compiler inserts the flags within a core itself.
        notes: findings of the passes, in the order of the passes.
    """

    func: ir.PrimFunc
    cube: tuple[ir.Stmt, ...]
    vector: tuple[ir.Stmt, ...]
    placements: Mapping[ir.Buffer, int]
    sizes: Mapping[ir.Buffer, int]
    used_bytes: Mapping[str, int]
    auto_sync: bool
    notes: tuple[Note, ...]

    @property
    def errors(self) -> tuple[Note, ...]:
        """The notes that make the kernel wrong."""
        return tuple(note for note in self.notes if note.severity == "error")


def lower(
    func: ir.PrimFunc, target: str, pass_configs: Mapping[str, bool], soc: Soc
) -> LoweredKernel:
    """Lower `func` for `target` (`ascendc` or `pto`) under the compiler's pass configs.

    Unknown keys of `pass_configs` are ignored, as the compiler does with foreign options.

    Raises:
        KernelSourceError: what the compiler rejects (see `device_code`, and codes AI-SRC-04x,
            AI-SYNC-02x, AI-MEM-0xx, AI-VID-0xx).
    """
    on = {name: bool(pass_configs.get(name, False)) for name in PASS_CONFIGS}
    remarks = tuple(
        Note(code=r.code, severity=r.severity, message=r.message, loc=r.loc) for r in func.remarks
    )
    written, notes = infer_scopes(func)
    moved = moves_as_copies(written)
    func, notes = moved.func, notes + moved.notes + remarks
    if on[AUTO_SYNC]:
        notes += tuple(_manual_flags(func))
    temporaries = hidden_temporaries(func, target)  # sized before the split, halved by it
    reduced = reduce_vid(func)
    notes += divergences(func, reduced, target)
    connected = lower_virtual_channels(reduced, paired=on[AUTO_CV_COMBINE] and on[AUTO_CV_SYNC])
    if reduced.split is not None:
        temporaries = temporaries.halved(reduced.origins)
    func, layout_notes = effective_layouts(connected.func, written)
    notes += connected.notes + layout_notes

    notes += check_device_code(func, target)
    func = dataclasses.replace(func, body=without_decided(func.body, {}))
    versions = Versions()
    homes = _homes(func, temporaries)
    accesses = Accesses(temporaries, versions.origin)
    func, pipeline_notes = pipeline_across_cores(func, homes, accesses, versions)
    injector = Injector(homes, accesses, versions)
    bodies: tuple[tuple[ir.Stmt, ...], ...]
    if on[AUTO_CV_COMBINE]:
        programs = cv_split.split(func, combine=True)
        if on[AUTO_CV_SYNC]:
            programs = _with_cross_core_flags(programs)
        programs = dataclasses.replace(
            programs, cube=injector.visit(programs.cube), vector=injector.visit(programs.vector)
        )
        bodies = (programs.cube, programs.vector)
    else:
        if on[AUTO_CV_SYNC]:
            notes += (_ignored_cv_sync(func),)
        func = dataclasses.replace(func, body=injector.visit(func.body))
        programs = cv_split.split(func, combine=False)
        bodies = (func.body,)
    programs = cv_split.finish(programs)
    programs = dataclasses.replace(
        programs,
        cube=versions.specialise(programs.cube),
        vector=versions.specialise(programs.vector),
    )
    func = versions.declare(func)

    text = program_text.build(bodies, temporaries, versions)
    plan = plan_memory(
        func,
        text,
        soc,
        planning=on[MEMORY_PLANNING],
        as_compiled=versions.of_each(reduced.as_compiled),
    )
    return LoweredKernel(
        func=func,
        cube=programs.cube,
        vector=programs.vector,
        placements=plan.placements,
        sizes=plan.sizes,
        used_bytes=plan.used_bytes,
        auto_sync=on[AUTO_SYNC],
        notes=(*notes, *pipeline_notes, *injector.notes, *programs.notes, *plan.notes),
    )


def _manual_flags(func: ir.PrimFunc) -> Iterator[Note]:
    """Flags set by hand where the compiler sets its own: said once, at the first."""
    flags = [s for s in ir.walk(func.body) if isinstance(s, ir.SetFlag)]
    if flags:
        yield Note(
            code="AI-SYNC-012",
            severity="warning",
            message=f"{len(flags)} T.set_flag under {AUTO_SYNC}: the compiler inserts flags of its "
            "own without looking at these, with event ids that may be the same",
            loc=flags[0].loc,
        )


def _ignored_cv_sync(func: ir.PrimFunc) -> Note:
    return Note(
        code="AI-SYNC-025",
        severity="warning",
        message=f"{AUTO_CV_SYNC} has no effect without {AUTO_CV_COMBINE}: the compiler inserts no "
        "cross-core flag and says nothing",
        loc=func.loc,
    )


def _homes(func: ir.PrimFunc, temporaries: Temporaries) -> Homes:
    """Where the buffers of the program live; hidden ones stay outside all loops."""
    known = set(func.allocs)
    found = allocation_order.homes(program_text.build((func.body,), temporaries).nodes)
    return {buffer: path for buffer, path in found.items() if buffer in known}


def _with_cross_core_flags(programs: cv_split.CorePrograms) -> cv_split.CorePrograms:
    cube, vector, notes = cross_core_sync.insert(programs.cube, programs.vector)
    return dataclasses.replace(programs, cube=cube, vector=vector, notes=programs.notes + notes)
