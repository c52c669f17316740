"""What a profile holds, as tables and as one JSON object."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

from ascend_infer.cli import output
from profiling.analysis import core_times, operator_totals, pipe_use
from profiling.records import FileKind, OpProfile, Profile, Table, Tasks, Trace

_KERNEL_COLUMNS = ("kernel", "type", "task us", "blocks", "MHz", "evidence", "folder")


def print_profile(profile: Profile, *, top: int, blocks: bool) -> None:
    """Everything on standard output, one table for each thing that was found."""
    output.print_table("files", ("kind", "rows", "evidence", "file"), _files(profile))
    if profile.kernels:
        rows = [_kernel(kernel) for kernel in profile.kernels]
        output.print_table("kernels", _KERNEL_COLUMNS, rows[:top], note=_left_out(len(rows), top))
    for kernel in profile.kernels[:top]:
        _print_kernel(kernel, blocks=blocks)
    for tasks in profile.tasks:
        _print_operators(tasks, top)
    for table in profile.tables:
        if table.kind in _SHOWN:
            _print_rows(table, top)
    for trace in profile.traces:
        _print_trace(trace, top)
    for note in profile.notes:
        print(note)


def as_json(profile: Profile, *, top: int) -> dict[str, Any]:
    """The same, for programs; figures with unit, evidence and place."""
    return {
        "path": profile.path,
        "damaged": profile.damaged,
        "files": [
            dict(zip(("kind", "rows", "evidence", "file"), row, strict=True))
            for row in _files(profile)
        ],
        "kernels": [_kernel_json(kernel) for kernel in profile.kernels],
        "operators": [
            {
                "file": tasks.file,
                "tasks": len(tasks),
                "evidence": str(tasks.evidence),
                "totals": [
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
                    for total in operator_totals(tasks)[:top]
                ],
            }
            for tasks in profile.tasks
        ],
        "tables": [_table_json(table) for table in profile.tables if table.kind in _SHOWN],
        "traces": [
            {
                "file": trace.file,
                "evidence": str(trace.evidence),
                "spans": len(trace.spans),
                "others": trace.others,
                "tracks": [
                    dict(zip(("process", "track", "spans", "total"), row, strict=True))
                    for row in _tracks(trace)[:top]
                ],
            }
            for trace in profile.traces
        ],
        "notes": [note.to_dict() for note in profile.notes],
    }


#: Tables that are shown as they are, and the column that their rows are ordered by.
_SHOWN = {
    FileKind.OP_STATISTIC: "total_time_us",
    FileKind.API_STATISTIC: "time_us",
    FileKind.STEP_TRACE: "",
    FileKind.INSTRUCTIONS: "cycles",
    FileKind.CODE: "cycles",
}
#: The simulator's time is a model's: cycles are what it counts.
_HIDDEN = frozenset({"running_time_us"})


def _files(profile: Profile) -> list[tuple[str, int, str, str]]:
    rows = [(str(t.kind), len(t.rows), str(t.columns[0].evidence), t.file) for t in profile.tables]
    read = {table.file for table in profile.tables}
    rows += [
        (str(tasks.kind), len(tasks), str(tasks.evidence), tasks.file)
        for tasks in profile.tasks
        if tasks.file not in read
    ]
    rows += [("trace", len(t.spans), str(t.evidence), t.file) for t in profile.traces]
    return sorted(rows, key=lambda row: row[-1])


def _kernel(kernel: OpProfile) -> tuple[str, ...]:
    info = kernel.info
    if info is None:
        return (kernel.name, "", "", "", "", "", kernel.folder)
    blocks = _number(info.block_dim)
    if info.mix_block_dim is not None:
        blocks += f" + {_number(info.mix_block_dim)}"
    frequency = f"{_number(info.current_freq_mhz)}/{_number(info.rated_freq_mhz)}"
    evidence = str(kernel.tables[FileKind.OP_BASIC_INFO].columns[0].evidence)
    duration = _number(info.task_duration_us)
    return (info.name, info.op_type, duration, blocks, frequency, evidence, kernel.folder)


def _print_kernel(kernel: OpProfile, *, blocks: bool) -> None:
    cores = core_times(kernel)
    if not cores:
        return
    output.print_table(
        f"pipes of {kernel.name} ({kernel.folder})",
        ("core", "pipe", "active us", "of core time", "busiest us", "where"),
        [
            (
                use.side,
                use.pipe,
                f"{use.total_us:.3f}",
                f"{use.share:.1%}",
                _number(use.busiest.value),
                use.busiest.where,
            )
            for use in pipe_use(cores)
        ],
    )
    if blocks:
        names = sorted({pipe for core in cores for pipe in core.pipes})
        output.print_table(
            f"cores of {kernel.name} ({kernel.folder})",
            ("block", "core", "time us", *(f"{name} us" for name in names)),
            [
                (
                    core.block,
                    core.core,
                    _number(core.time.value),
                    *(_number(core.pipes[n].value) if n in core.pipes else "" for n in names),
                )
                for core in cores
            ],
        )


def _kernel_json(kernel: OpProfile) -> dict[str, Any]:
    cores = core_times(kernel)
    basic = kernel.tables.get(FileKind.OP_BASIC_INFO)
    return {
        "name": kernel.name,
        "folder": kernel.folder,
        "info": [basic.figure(basic.rows[0], key).to_dict() for key in basic.by_key]
        if basic is not None and basic.rows
        else [],
        "pipes": [
            {
                "core": use.side,
                "pipe": use.pipe,
                "active_us": use.total_us,
                "of_core_time": use.share,
                "busiest": use.busiest.to_dict(),
            }
            for use in pipe_use(cores)
        ],
        "cores": [
            {
                "block": core.block,
                "core": core.core,
                "time": core.time.to_dict(),
                "pipes_us": {pipe: figure.value for pipe, figure in core.pipes.items()},
            }
            for core in cores
        ],
        "files": [str(kind) for kind in kernel.tables],
    }


def _print_operators(tasks: Tasks, top: int) -> None:
    totals = operator_totals(tasks)
    output.print_table(
        f"operators of {tasks.file} ({tasks.evidence})",
        ("operator", "core", "tasks", "total us", "share", "mean us", "longest us", "where"),
        [
            (
                t.operator,
                t.core,
                f"{t.count:,}",
                f"{t.total_us:,.3f}",
                f"{t.share:.1%}",
                f"{t.mean_us:,.3f}",
                _number(t.longest.value),
                t.longest.where,
            )
            for t in totals[:top]
        ],
        note=_left_out(len(totals), top),
    )


def _print_rows(table: Table, top: int) -> None:
    keys = [key for key in table.by_key if key not in _HIDDEN]
    rows = _ordered(table)
    output.print_table(
        f"{table.kind} of {table.file} ({table.columns[0].evidence})",
        [table.by_key[key].name for key in keys],
        [[row.text(key) for key in keys] for row in rows[:top]],
        note=_left_out(len(rows), top),
    )


def _ordered(table: Table) -> list[Any]:
    by = _SHOWN[table.kind]
    return sorted(table.rows, key=lambda row: -(row.number(by) or 0.0)) if by else list(table.rows)


def _table_json(table: Table) -> dict[str, Any]:
    return {
        "kind": str(table.kind),
        "file": table.file,
        "evidence": str(table.columns[0].evidence),
        "rows": [
            {
                "line": row.line,
                **{
                    k: str(v) if isinstance(v, Decimal) else v
                    for k, v in row.items()
                    if k not in _HIDDEN
                },
            }
            for row in _ordered(table)
        ],
    }


def _tracks(trace: Trace) -> list[tuple[str, str, int, float]]:
    counts: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for span in trace.spans:
        counts[span.process, span.track].append(span.duration)
    rows = [(*track, len(spans), float(sum(spans))) for track, spans in counts.items()]
    return sorted(rows, key=lambda row: -row[-1])


def _print_trace(trace: Trace, top: int) -> None:
    rows = _tracks(trace)
    output.print_table(
        f"tracks of {trace.file} ({trace.evidence})",
        ("process", "track", "spans", "total"),
        [(process, track, f"{n:,}", f"{total:,.3f}") for process, track, n, total in rows[:top]],
        note=_left_out(len(rows), top),
    )


def _left_out(rows: int, top: int) -> str:
    return f"{rows - top:,} more; --top shows them" if rows > top else ""


def _number(value: object) -> str:
    return f"{value:,.9g}" if isinstance(value, (int, float)) else "NA"
