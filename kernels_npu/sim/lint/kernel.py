"""All static checks of one kernel."""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.jit import JITKernel
from kernels_npu.sim.lint.bounds import out_of_bounds
from kernels_npu.sim.lint.collecting import Candidate
from kernels_npu.sim.lint.report import KernelReport, MemoryUse, parameter_text
from kernels_npu.sim.lint.structure import structural_findings, unwritten_reads
from kernels_npu.sim.machine.compiled import CompiledKernel
from kernels_npu.sim.machine.findings import Finding
from kernels_npu.sim.machine.launch_reports import refusal
from kernels_npu.sim.passes import lower
from kernels_npu.sim.passes.lowering import MEMORY_PLANNING
from kernels_npu.sim.soc import MEMORIES, Soc


def lint_candidate(candidate: Candidate, target: str | None, soc: Soc) -> KernelReport:
    """The report of a kernel, or of the error that kept it from being made."""
    if candidate.kernel is not None:
        return lint_kernel(candidate.kernel, soc, made_by=candidate.made_by, target=target)
    assert candidate.error is not None
    name = candidate.made_by.split("(")[0]
    return KernelReport(
        kernel=name,
        loc=candidate.loc,
        made_by=candidate.made_by,
        target=target or "ascendc",
        soc=soc.name,
        findings=(refusal(name, candidate.error, candidate.loc),),
    )


def lint_kernel(
    kernel: JITKernel, soc: Soc, *, made_by: str = "", target: str | None = None
) -> KernelReport:
    """Check `kernel` for `target` (default: its own) on `soc`, without executing anything."""
    func, chosen = kernel.prim_func, target or kernel.target
    configs = kernel.pass_configs
    findings: list[Finding] = []
    configured: Mapping[str, int] | None = None
    try:
        compiled = CompiledKernel(func, chosen, configs, soc)
        configured = compiled.used_bytes
        static = compiled.static_check()
        findings += static.findings
        findings += structural_findings(compiled.lowered, kernel.out_idx, kernel.workspace_idx)
        if not static.refused:  # else what writes a buffer may be missing from the programs
            findings += unwritten_reads(compiled.lowered, static.programs)
        findings += out_of_bounds(compiled.lowered)
    except AscendInferError as error:
        findings.append(refusal(func.name, error, func.loc))
    return KernelReport(
        kernel=func.name,
        loc=func.loc,
        made_by=made_by,
        target=chosen,
        soc=soc.name,
        pass_configs=configs,
        parameters=tuple(parameter_text(p) for p in func.params),
        memory=_memory(func, chosen, configs, soc, configured),
        findings=_distinct(findings),
    )


def _distinct(findings: list[Finding]) -> tuple[Finding, ...]:
    """What both core programs or two rules say alike is said once."""
    return tuple({(f.code, f.loc, f.message): f for f in findings}.values())


def _memory(
    func: ir.PrimFunc,
    target: str,
    configs: Mapping[str, bool],
    soc: Soc,
    configured: Mapping[str, int] | None,
) -> dict[str, MemoryUse]:
    """Bytes of each memory in use."""
    ways: dict[bool, Mapping[str, int] | None] = {bool(configs.get(MEMORY_PLANNING)): configured}
    for planning in (True, False):
        if planning not in ways:
            try:
                other = {**configs, MEMORY_PLANNING: planning}
                ways[planning] = lower(func, target, other, soc).used_bytes
            except AscendInferError:
                ways[planning] = None  # the compiler gives up: live buffers exceed the memory
    used = {m for bytes_ in ways.values() if bytes_ for m in bytes_}

    def of(bytes_: Mapping[str, int] | None, memory: str) -> int | None:
        return None if bytes_ is None else bytes_.get(memory, 0)

    return {
        memory: MemoryUse(
            configured=of(configured, memory),
            planned=of(ways[True], memory),
            unplanned=of(ways[False], memory),
            capacity=soc.capacity(memory),
        )
        for memory in MEMORIES
        if memory in used
    }
