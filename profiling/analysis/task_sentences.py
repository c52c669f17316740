"""What the tasks of an application and its steps say, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiling.analysis.graphs import graph_sentences
from profiling.analysis.operators import OperatorTotal, operator_totals
from profiling.analysis.sentence import Sentence
from profiling.analysis.steps import StepUse, is_communication, step_use
from profiling.records.table import Figure, FileKind, Row, Table
from profiling.records.tasks import Tasks

#: Ours: with more of a step idle, making kernels faster changes little.
MUCH_IDLE = 0.20
#: Ours: what moves or converts data without computing anything new, and where that is too much.
CONVERSIONS = frozenset(
    {"transdata", "cast", "transpose", "identity", "tensormove", "formattransfer", "npuformatcast"}
)
MUCH_CONVERSION = 0.05
_AICPU = ("AI_CPU", "AICPU")


def task_sentences(tasks: Tasks) -> list[Sentence]:
    """Everything that can be said about a file of tasks, in a fixed order."""
    if tasks.kind is FileKind.TASK_TIME:
        # Its rows are events of the scheduler, too, which keep no core busy.
        return []
    steps = step_use(tasks)
    totals = operator_totals(tasks.select(~is_communication(tasks)))
    return [
        *_busy(steps),
        *_gap(steps),
        *_communication(steps),
        *_top(totals),
        *_on_the_cpu(totals),
        *_conversions(totals),
        *graph_sentences(tasks),
    ]


def step_sentences(table: Table) -> list[Sentence]:
    """What step_trace_time says about its rows."""
    return [sentence for row in table.rows for sentence in _traced(table, row)]


def _busy(steps: Sequence[StepUse]) -> Iterator[Sentence]:
    span = sum(step.span_us for step in steps)
    if not span:
        return
    share = sum(step.busy_us for step in steps) / span
    worst = min(steps, key=lambda step: step.busy_share)
    several = len({step.device for step in steps}) > 1
    where = f"step {worst.step}" if worst.step else "a file without steps"
    where += f" on device {worst.device}" if several else ""
    idle = 1 - share > MUCH_IDLE
    yield Sentence(
        topic="busy",
        text=f"the device was busy {share:.1%} of {span:,.1f} us in {_count(steps, 'step')}; "
        f"least in {where}: {worst.busy_us:,.1f} of {worst.span_us:,.1f} us"
        + ("; host-bound, if the file has every task: they came too late" if idle else ""),
        rule="the union of the tasks' times, from a step's first start to its last end; over "
        f"{MUCH_IDLE:.0%} idle is called host-bound: capture the step as a graph, or find what "
        "the host waits for; start-up and loading count as well where a file has no steps",
        refs=(
            _derived(worst.first, "busy_us", worst.busy_us),
            _derived(worst.last, "span_us", worst.span_us),
        ),
        flagged=idle,
    )


def _gap(steps: Sequence[StepUse]) -> Iterator[Sentence]:
    gapped = [step for step in steps if step.gap is not None]
    if not gapped:
        return
    step = max(gapped, key=lambda step: step.gap.us if step.gap else 0.0)
    gap = step.gap
    if gap is None:
        return
    yield Sentence(
        topic="gap",
        text=f"the longest time without a task within a step is {gap.us:,.3f} us, between lines "
        f"{gap.before.line} and {gap.after.line}",
        rule="from the latest end so far to the next start",
        refs=(
            Figure(
                key="gap_us",
                value=gap.us,
                unit="us",
                evidence=step.first.evidence,
                where=gap.after,
            ),
        ),
    )


def _communication(steps: Sequence[StepUse]) -> Iterator[Sentence]:
    sending = [step for step in steps if step.communication_us]
    if not sending:
        return
    total = sum(step.communication_us for step in sending)
    # What is busy and not computing can only be communication.
    alone = sum(step.busy_us - step.computing_us for step in sending)
    most = max(sending, key=lambda step: step.communication_us)
    yield Sentence(
        topic="communication",
        text=f"{total:,.1f} us of communication in {_count(sending, 'step')}, "
        f"{alone:,.1f} us of it not behind computation",
        rule="unions of times; not behind computation is the busy time without the computing time",
        refs=(
            _derived(most.first, "communication_us", most.communication_us),
            _derived(most.first, "computing_us", most.computing_us),
            _derived(most.first, "busy_us", most.busy_us),
        ),
    )


def _top(totals: Sequence[OperatorTotal]) -> Iterator[Sentence]:
    if totals:
        top = totals[0]
        yield Sentence(
            topic="operators",
            text=f"{top.operator} takes {top.share:.1%} of the tasks' time without communication: "
            f"{_count(range(top.count), 'task')}, {top.total_us:,.3f} us",
            rule="durations added up, whether they overlap or not",
            refs=(_derived(top.longest, "total_us", top.total_us), top.longest),
        )


def _on_the_cpu(totals: Sequence[OperatorTotal]) -> Iterator[Sentence]:
    slow = [total for total in totals if total.core.upper().startswith(_AICPU)]
    if slow:
        names = ", ".join(total.operator for total in slow[:3])
        yield Sentence(
            topic="AI CPU",
            text=f"{_count(range(sum(t.count for t in slow)), 'task')} ran on the AI CPU, "
            f"{sum(t.share for t in slow):.1%} of the tasks' time: {names}",
            rule="an operator without a kernel for its dtype or shape falls back to the AI CPU, "
            "which is slow; another dtype (int32 for int64) often has a kernel",
            refs=tuple(total.longest for total in slow[:3]),
            flagged=True,
        )


def _conversions(totals: Sequence[OperatorTotal]) -> Iterator[Sentence]:
    found = [t for t in totals if t.operator.lower().replace("_", "") in CONVERSIONS]
    if not found:
        return
    share = sum(total.share for total in found)
    listed = ", ".join(f"{total.operator} {total.share:.1%}" for total in found[:4])
    yield Sentence(
        topic="conversions",
        text=f"{share:.1%} of the tasks' time converts formats or dtypes: {listed}",
        rule=f"over {MUCH_CONVERSION:.0%} is reported; torch.npu.config.allow_internal_format and "
        "dtypes that meet decide how many there are",
        refs=tuple(total.longest for total in found[:4]),
        flagged=share > MUCH_CONVERSION,
    )


def _traced(table: Table, row: Row) -> Iterator[Sentence]:
    keys = ("computing", "communication_not_overlapped", "free")
    parts = [row.number(key) for key in keys]
    computing, alone, free = parts
    if computing is None or alone is None or free is None or not computing + alone + free > 0:
        return
    whole = computing + alone + free
    name = row.text("step") or " ".join(filter(None, (row.text("type"), row.text("index"))))
    if len({row.text("device_id") for row in table.rows}) > 1:
        name = f"{name} on device {row.text('device_id') or '-'}"
    yield Sentence(
        topic="step",
        text=f"step {name or '-'}: {computing / whole:.1%} computing, {alone / whole:.1%} "
        f"communication not behind it, {free / whole:.1%} free",
        rule="shares of the three columns' sum",
        refs=tuple(table.figure(row, key) for key in keys),
        flagged=free / whole > MUCH_IDLE,
    )


def _derived(at: Figure, key: str, value: float) -> Figure:
    """A sum over tasks, of which `at` is one."""
    return Figure(key=key, value=value, unit="us", evidence=at.evidence, where=at.where)


def _count(things: Sequence[object] | range, name: str) -> str:
    return f"{len(things):,} {name}" + ("s" if len(things) != 1 else "")
