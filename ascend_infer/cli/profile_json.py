"""What a profile holds, as one JSON object; figures with unit, evidence and place."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from profiling import analysis
from profiling.analysis.listing import HIDDEN, SHOWN, files_of, ordered
from profiling.devices import Chip
from profiling.records import FileKind, OpProfile, Profile, Table, Tasks, Trace


def as_json(profile: Profile, *, top: int, chip: Chip | None = None) -> dict[str, Any]:
    """All of it; of operators and tracks the largest `top`. chip: of the rooflines."""
    columns = ("kind", "rows", "evidence", "file")
    return {
        "path": profile.path,
        "damaged": profile.damaged,
        "files": [dict(zip(columns, row, strict=True)) for row in files_of(profile)],
        "kernels": [_kernel(kernel, chip) for kernel in profile.kernels],
        "kernel_totals": [_kernel_total(total) for total in analysis.kernel_totals(profile)],
        "tasks": [_tasks(tasks, top) for tasks in profile.tasks],
        "tables": [_table(table) for table in profile.tables if table.kind in SHOWN],
        "traces": [_trace(trace, top) for trace in profile.traces],
        "manifests": [manifest.to_dict() for manifest in profile.manifests],
        "notes": [note.to_dict() for note in profile.notes],
    }


def _kernel(kernel: OpProfile, chip: Chip | None) -> dict[str, Any]:
    cores = analysis.core_times(kernel)
    basic = kernel.tables.get(FileKind.OP_BASIC_INFO)
    info = [] if basic is None else [basic.figure(r, k) for r in basic.rows[:1] for k in r]
    return {
        "name": kernel.name,
        "folder": kernel.folder,
        "files": [str(kind) for kind in kernel.tables],
        "info": [figure.to_dict() for figure in info],
        "pipes": [
            {
                "core": use.side,
                "pipe": use.pipe,
                "active": use.total,
                "unit": use.unit,
                "of_core_time": use.share,
                "busiest": use.busiest.to_dict(),
            }
            for use in analysis.pipe_use(cores)
        ],
        "cores": [
            {
                "block": core.block,
                "core": core.core,
                "time": core.time.to_dict(),
                "pipes": {pipe: figure.value for pipe, figure in core.pipes.items()},
            }
            for core in cores
        ],
        "traffic": _traffic(kernel),
        "roofline": _roofline(kernel, chip),
        "sentences": [s.to_dict() for s in analysis.kernel_sentences(kernel, chip)],
    }


def _kernel_total(total: analysis.KernelTotal) -> dict[str, Any]:
    return {
        "name": total.name,
        "evidence": str(total.evidence),
        "launches": total.launches,
        "gm_bytes": total.gm_bytes,
        "length": total.length,
        "unit": total.unit,
    }


def _traffic(kernel: OpProfile) -> dict[str, Any] | None:
    traffic = analysis.traffic_of(kernel)
    if traffic is None:
        return None
    return {
        "read_bytes": traffic.read,
        "written_bytes": traffic.written,
        "paths": dict(traffic.paths),
        "evidence": str(traffic.whole.evidence),
    }


def _roofline(kernel: OpProfile, chip: Chip | None) -> dict[str, Any] | None:
    roofline = None if chip is None else analysis.roofline_of(kernel, chip)
    if roofline is None:
        return None
    return {
        "chip": roofline.chip.name,
        "unit": roofline.unit,
        "operations": dict(roofline.operations),
        "intensity": roofline.intensity,
        "achieved": roofline.achieved,
        "usage": roofline.usage,
        "ceilings": [
            {
                "unit": ceiling.unit,
                "dtype": ceiling.dtype,
                "rate": ceiling.rate,
                "bound": ceiling.bound,
                "of": ceiling.of.to_dict(),
            }
            for ceiling in roofline.ceilings
        ],
    }


def _tasks(tasks: Tasks, top: int) -> dict[str, Any]:
    return {
        "kind": str(tasks.kind),
        "file": tasks.file,
        "tasks": len(tasks),
        "evidence": str(tasks.evidence),
        "operators": [
            {
                "operator": total.operator,
                "core": total.core,
                "count": total.count,
                "total_us": total.total_us,
                "share": total.share,
                "mean_us": total.mean_us,
                "min_us": total.min_us,
                "longest": total.longest.to_dict(),
            }
            for total in analysis.operator_totals(tasks)[:top]
        ],
        "sentences": [sentence.to_dict() for sentence in analysis.task_sentences(tasks)],
    }


def _table(table: Table) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": str(table.kind),
        "file": table.file,
        "evidence": str(table.columns[0].evidence),
        "rows": [
            {
                "line": row.line,
                **{
                    key: str(value) if isinstance(value, Decimal) else value
                    for key, value in row.items()
                    if key not in HIDDEN
                },
            }
            for row in ordered(table)
        ],
    }
    if table.kind is FileKind.STEP_TRACE:
        told["sentences"] = [sentence.to_dict() for sentence in analysis.step_sentences(table)]
    return told


def _trace(trace: Trace, top: int) -> dict[str, Any]:
    return {
        "file": trace.file,
        "evidence": str(trace.evidence),
        "spans": len(trace.spans),
        "others": trace.others,
        "unit": trace.unit,
        "tracks": [asdict(track) for track in analysis.track_totals(trace)[:top]],
        "sentences": [s.to_dict() for s in analysis.trace_sentences(trace)],
    }
