"""What a profile holds, as tables and sentences for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ascend_infer.cli import output
from kernels_npu.errors import SourceLocation
from profiling import analysis
from profiling.analysis import Sentence
from profiling.analysis.figures import amount, number
from profiling.analysis.kernel_totals import LENGTHS
from profiling.analysis.listing import HIDDEN, SHOWN, files_of, ordered
from profiling.devices import Chip
from profiling.manifest import Manifest
from profiling.records import FileKind, OpProfile, Profile, Table, Tasks, Trace


class ProfilePrinter:
    """Prints a profile, one table for each thing that was found.

    Args:
        profile: what was read.
        top: rows per table.
        blocks: whether to print one row per core of each kernel, too.
        chip: of rooflines and core usage; without it they are left out.
        sentences: about the profile as a whole.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        top: int,
        blocks: bool,
        chip: Chip | None = None,
        sentences: Sequence[Sentence] = (),
    ) -> None:
        self._profile = profile
        self._chip = chip
        self._sentences = sentences
        self._top = top
        self._blocks = blocks

    def print(self) -> None:
        """Everything on standard output."""
        self.print_summary()
        self._print_sentences(self._sentences)
        profile = self._profile
        for kernel in analysis.longest_launches(profile)[: self._top]:
            self._print_pipes(kernel)
            self._print_sentences(analysis.kernel_sentences(kernel, self._chip))
        for tasks in profile.tasks:
            self._print_operators(tasks)
            self._print_sentences(analysis.task_sentences(tasks))
        for table in profile.tables:
            if table.kind in SHOWN:
                self._print_rows(table)
        for table in profile.of_kind(FileKind.STEP_TRACE):
            self._print_sentences(analysis.step_sentences(table)[: self._top])
        for trace in profile.traces:
            self._print_trace(trace)
        for note in profile.notes:
            print(note)

    def print_summary(self) -> None:
        """The files with their origin, and the kernels."""
        files = [(*row[:-1], self._short(row[-1])) for row in files_of(self._profile)]
        self._print_top(
            f"files of {self._profile.path}", ("kind", "rows", "evidence", "file"), files
        )
        for manifest in self._profile.manifests:
            print(_origin(manifest))
        if self._profile.kernels:
            self._print_kernels()

    def _print_kernels(self) -> None:
        totals = analysis.kernel_totals(self._profile)
        if len(totals) < len(self._profile.kernels):
            columns = ("kernel", "launches", "GM bytes", "length", "evidence")
            self._print_top("launches by kernel", columns, map(_total, totals))
        of_launch = ("kernel", "type", "length", "blocks", "MHz", "GM bytes", "evidence", "folder")
        self._print_top("kernels", of_launch, map(_kernel, self._profile.kernels))

    def _print_pipes(self, kernel: OpProfile) -> None:
        cores = analysis.core_times(kernel)
        if not cores:
            return
        output.print_table(
            f"pipes of {kernel.name} ({kernel.folder})",
            ("core", "pipe", "active", "of core time", "busiest", "where"),
            [
                (
                    use.side,
                    use.pipe,
                    amount(use.total, use.unit),
                    f"{use.share:.1%}",
                    _number(use.busiest.value),
                    self._place(use.busiest.where),
                )
                for use in analysis.pipe_use(cores)
            ],
        )
        if self._blocks:
            pipes = sorted({pipe for core in cores for pipe in core.pipes})
            output.print_table(
                f"cores of {kernel.name} ({kernel.folder})",
                ("block", "core", f"length in {cores[0].unit}", *pipes),
                [
                    (
                        core.block,
                        core.core,
                        _number(core.time.value),
                        *(_number(core.pipes[p].value) if p in core.pipes else "" for p in pipes),
                    )
                    for core in cores
                ],
            )

    def _print_operators(self, tasks: Tasks) -> None:
        self._print_top(
            f"operators of {self._short(tasks.file)} ({tasks.evidence})",
            ("operator", "core", "tasks", "total us", "share", "mean us", "longest us", "where"),
            (
                (
                    total.operator,
                    total.core,
                    f"{total.count:,}",
                    f"{total.total_us:,.3f}",
                    f"{total.share:.1%}",
                    f"{total.mean_us:,.3f}",
                    _number(total.longest.value),
                    self._place(total.longest.where),
                )
                for total in analysis.operator_totals(tasks)
            ),
        )

    def _print_rows(self, table: Table) -> None:
        keys = [key for key in table.by_key if key not in HIDDEN]
        self._print_top(
            f"{table.kind} of {self._short(table.file)} ({table.columns[0].evidence})",
            [table.by_key[key].name for key in keys],
            ([row.text(key) for key in keys] for row in ordered(table)),
        )

    def _print_trace(self, trace: Trace) -> None:
        self._print_top(
            f"tracks of {self._short(trace.file)} ({trace.evidence})",
            ("process", "track", "spans", f"total in {trace.unit}", "share"),
            (
                (t.process, t.track, f"{t.spans:,}", _number(t.total), f"{t.share:.1%}")
                for t in analysis.track_totals(trace)
            ),
        )
        self._print_sentences(analysis.trace_sentences(trace))

    def _print_top(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]
    ) -> None:
        every = [tuple(row) for row in rows]
        more = len(every) - self._top
        note = f"{more:,} more; --top shows them" if more > 0 else ""
        output.print_table(title, tuple(columns), every[: self._top], note=note)

    def _print_sentences(self, sentences: Iterable[Sentence]) -> None:
        for sentence in sentences:
            print(f"{'!' if sentence.flagged else '-'} {sentence.topic}: {sentence.text}")
            print(f"    rule: {sentence.rule}")
            for figure in sentence.refs:
                told = f"{figure.key} {_number(figure.value)} {figure.unit}".rstrip()
                print(f"    {told}, {self._place(figure.where)}")

    def _place(self, where: SourceLocation) -> str:
        return f"{self._short(where.file)}:{where.line}"

    def _short(self, file: str) -> str:
        """A file's name below the path that was asked for."""
        below = Path(file)
        root = Path(self._profile.path)
        return str(below.relative_to(root)) if below != root and root in below.parents else file


def _origin(manifest: Manifest) -> str:
    made = f"made by {manifest.made_by} ({manifest.evidence})"
    return f"{made}, which ended with {manifest.outcome}" if manifest.outcome else made


def _kernel(kernel: OpProfile) -> tuple[str, ...]:
    info = kernel.info
    if info is None:
        return (kernel.name, "", "NA", "NA", "", _bytes(kernel), "", kernel.folder)
    blocks = _number(info.block_dim)
    if info.mix_block_dim is not None:
        blocks += f" + {_number(info.mix_block_dim)}"
    frequency = f"{_number(info.current_freq_mhz)}/{_number(info.rated_freq_mhz)}"
    evidence = str(kernel.tables[FileKind.OP_BASIC_INFO].columns[0].evidence)
    length = next((f for key in LENGTHS if (f := kernel.info_figure(key)) is not None), None)
    return (
        info.name,
        info.op_type,
        "NA" if length is None else amount(number(length), length.unit),
        blocks,
        frequency,
        _bytes(kernel),
        evidence,
        kernel.folder,
    )


def _bytes(kernel: OpProfile) -> str:
    traffic = analysis.traffic_of(kernel)
    return "NA" if traffic is None else f"{traffic.total:,.0f}"


def _total(total: analysis.KernelTotal) -> tuple[str, ...]:
    return (
        total.name,
        f"{total.launches:,}",
        "NA" if total.gm_bytes is None else f"{total.gm_bytes:,.0f}",
        "NA" if total.length is None else amount(total.length, total.unit),
        str(total.evidence),
    )


def _number(value: object) -> str:
    return f"{value:,.9g}" if isinstance(value, (int, float)) else "NA"
