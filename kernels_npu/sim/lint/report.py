"""What lint says: one report per kernel, collected per file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernels_npu.errors import SourceLocation
from kernels_npu.evidence import Evidence
from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.findings import ERROR, HINT, WARNING, Finding

#: Severities from mild to grave.
SEVERITIES = (HINT, WARNING, ERROR)


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """Bytes of one on-chip memory: as the kernel's options place its buffers, with memory planning
    and without, and what the chip has. None: the compiler gives up."""

    configured: int | None
    planned: int | None
    unplanned: int | None
    capacity: int

    def to_dict(self) -> dict[str, int | None]:
        """JSON-ready fields."""
        return {
            "configured": self.configured,
            "with_planning": self.planned,
            "without_planning": self.unplanned,
            "capacity": self.capacity,
        }


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """One kernel: what it is made of, its bytes per memory and the findings."""

    kernel: str
    loc: SourceLocation | None
    made_by: str
    target: str
    soc: str
    pass_configs: Mapping[str, bool] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    memory: Mapping[str, MemoryUse] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "file": None if self.loc is None else self.loc.file,
            "line": None if self.loc is None else self.loc.line,
            "kernel": self.kernel,
            "made_by": self.made_by,
            "target": self.target,
            "soc": self.soc,
            "pass_configs": sorted(name for name, on in self.pass_configs.items() if on),
            "parameters": list(self.parameters),
            "memory": {name: use.to_dict() for name, use in self.memory.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            "evidence": Evidence.STATIC_CHECK.value,
        }


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """All kernels of one file, and what kept others from being looked at."""

    file: str
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings of the file and of its kernels."""
        return (*self.findings, *(f for kernel in self.kernels for f in kernel.findings))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "file": self.file,
            "kernels": [kernel.to_dict() for kernel in self.kernels],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def worst(findings: Iterable[Finding]) -> str | None:
    """The gravest severity among `findings`; None when there are none."""
    ranks = [SEVERITIES.index(finding.severity) for finding in findings]
    return SEVERITIES[max(ranks)] if ranks else None


def parameter_text(param: ir.Buffer | ir.Var) -> str:
    """A parameter as people write it: `A: float32[64, 128]`, `n: int32`."""
    if isinstance(param, ir.Var):
        return f"{param.name}: {param.dtype}"
    shape = ", ".join(format_expr(ir.as_expr(d)) for d in param.shape)
    return f"{param.name}: {param.dtype}[{shape}]"
