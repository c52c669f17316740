"""What a launch did: bytes, instructions and modelled cycles.

Counts are `simulated`, cycles `modelled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernels_npu.evidence import Evidence
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.binding import BoundCore
from kernels_npu.sim.machine.operands import Rect
from kernels_npu.sim.passes.rewriting import root_of


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Sums over all blocks and cores of a launch.

    gm_read, gm_written: bytes moved from and to each tensor parameter by the DMA units (scalar
    loads of the scalar unit are not among them). gm_paths: the same by path, e.g. `GM->UB`.
    instructions: by pipe. cycles: modelled, by pipe, summed over cores.
    """

    gm_read: Mapping[str, int] = field(default_factory=dict)
    gm_written: Mapping[str, int] = field(default_factory=dict)
    gm_paths: Mapping[str, int] = field(default_factory=dict)
    instructions: Mapping[str, int] = field(default_factory=dict)
    cycles: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields with their evidence levels."""
        return {
            "gm_read_bytes": dict(self.gm_read),
            "gm_written_bytes": dict(self.gm_written),
            "gm_path_bytes": dict(self.gm_paths),
            "instructions": dict(self.instructions),
            "cycles": dict(self.cycles),
            "cycle_model": cost.MODEL,
            "evidence": {"bytes": str(Evidence.SIMULATED), "cycles": str(Evidence.MODELLED)},
        }


def collect(cores: Iterable[BoundCore]) -> Counters:
    """Read and reset the counts of `cores`."""
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    paths: dict[str, int] = {}
    instructions: dict[str, int] = {}
    cycles: dict[str, int] = {}
    for core in cores:
        for site, count, moved in zip(core.source.sites, core.counts, core.gm_bytes):
            if count:
                instructions[site.pipe] = instructions.get(site.pipe, 0) + count
                cycles[site.pipe] = cycles.get(site.pipe, 0) + count * site.cycles
            instruction = site.instruction
            if not moved or instruction is None:
                continue
            paths[site.gm_path] = paths.get(site.gm_path, 0) + moved
            for view in instruction.reads:
                if isinstance(view, Rect):
                    _add(read, view, moved)
            for view in instruction.writes:
                if isinstance(view, Rect):
                    _add(written, view, moved)
        core.counts[:] = [0] * len(core.counts)
        core.gm_bytes[:] = [0] * len(core.gm_bytes)
    return Counters(
        gm_read=read, gm_written=written, gm_paths=paths, instructions=instructions, cycles=cycles
    )


def _add(totals: dict[str, int], rect: Rect, moved: int) -> None:
    """Count `moved` bytes for the parameter in which `rect` lies."""
    name = root_of(rect.buffer).name
    totals[name] = totals.get(name, 0) + moved
