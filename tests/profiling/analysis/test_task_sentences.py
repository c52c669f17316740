"""Steps against a brute-force timeline; sentences about tasks with and without their trouble."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling import read_profile
from profiling.analysis import Sentence, step_sentences, step_use, task_sentences
from profiling.files.catalogue import format_of
from profiling.files.rows import RowReader
from profiling.files.tasks import tasks_of
from profiling.records import FileKind, Notes, Table, Tasks
from tests.profiling import fixtures

_HEADER = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)"


def tasks(*rows: tuple[str, str, str, int, int]) -> Tasks:
    """Tasks of (step, type, core, start, duration), in nanoseconds."""
    names = _HEADER.split(",")
    format = format_of(names, "kernel_details")
    columns = tuple(format.column(name) for name in names)
    lines = [
        f"{step},0,n,{kind},{core},{Decimal(start) / 1000},{Decimal(duration) / 1000},0"
        for step, kind, core, start, duration in rows
    ]
    reader = RowReader(file="kernel_details.csv", columns=columns, notes=Notes())
    table = Table(
        kind=FileKind.KERNEL_DETAILS,
        file="kernel_details.csv",
        columns=columns,
        rows=tuple(reader.rows(lines, first=2)),
    )
    return tasks_of(table)


def said(*rows: tuple[str, str, str, int, int]) -> dict[str, Sentence]:
    sentences = task_sentences(tasks(*rows))
    assert all(sentence.refs for sentence in sentences)
    return {sentence.topic: sentence for sentence in sentences}


row = st.tuples(
    st.sampled_from(["1", "2"]),
    st.sampled_from(["MatMul", "hcom_allReduce_"]),
    st.sampled_from(["AI_CORE", "HCCL"]),
    st.integers(0, 60),
    st.integers(0, 20),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(row, min_size=1, max_size=12))
def test_times_are_those_of_a_timeline(rows: list[tuple[str, str, str, int, int]]) -> None:
    """Nanosecond by nanosecond: which of them a task covers."""
    for use in step_use(tasks(*rows)):
        ours = [r for r in rows if r[0] == use.step]
        sends = [r for r in ours if r[2] == "HCCL" or r[1].startswith("hcom")]
        computes = [r for r in ours if r not in sends]

        def covered(some: list[tuple[str, str, str, int, int]]) -> set[int]:
            return {t for *_, start, duration in some for t in range(start, start + duration)}

        begin, end = min(r[3] for r in ours), max(r[3] + r[4] for r in ours)
        assert use.tasks == len(ours)
        assert use.span_us == pytest.approx((end - begin) / 1000)
        assert use.busy_us == pytest.approx(len(covered(ours)) / 1000)
        assert use.computing_us == pytest.approx(len(covered(computes)) / 1000)
        assert use.communication_us == pytest.approx(len(covered(sends)) / 1000)
        free = [t in covered(ours) for t in range(begin, end)]
        longest = max(map(len, "".join("x" if c else "." for c in free).split("x")))
        assert (use.gap.us if use.gap else 0) == pytest.approx(longest / 1000)


def test_a_gap_names_the_lines_around_it() -> None:
    (use,) = step_use(
        tasks(("1", "A", "AI_CORE", 0, 10), ("1", "B", "AI_CORE", 50, 5), ("1", "C", "AIV", 2, 30))
    )
    assert use.gap is not None
    assert (use.gap.us, use.gap.before.line, use.gap.after.line) == (0.018, 4, 3)


@pytest.mark.parametrize(("duration", "idle"), [(81, False), (79, True)])
def test_busy(duration: int, idle: bool) -> None:
    busy = said(("1", "A", "AI_CORE", 0, duration - 1), ("1", "B", "AI_CORE", 99, 1))["busy"]
    assert busy.flagged == idle
    assert ("host-bound" in busy.text) == idle
    assert [ref.key for ref in busy.refs] == ["busy_us", "span_us"]


def test_communication_behind_computation_does_not_count() -> None:
    told = said(("1", "A", "AI_CORE", 0, 6000), ("1", "hcom_x", "HCCL", 4000, 5000))
    assert (
        "5.0 us of communication in 1 step, 3.0 us of it not behind" in told["communication"].text
    )
    assert "communication" not in said(("1", "A", "AI_CORE", 0, 6000))


def test_tasks_on_the_cpu() -> None:
    told = said(("1", "A", "AI_CORE", 0, 6000), ("1", "Cast", "AI_CPU", 6000, 2000))["AI CPU"]
    assert "1 task ran on the AI CPU, 25.0% of the tasks' time: Cast" in told.text
    assert told.refs[0].where.line == 3
    assert "AI CPU" not in said(("1", "A", "AI_CORE", 0, 6000))


@pytest.mark.parametrize(("duration", "much"), [(400, False), (2000, True)])
def test_conversions(duration: int, much: bool) -> None:
    told = said(("1", "A", "AI_CORE", 0, 9600), ("1", "TransData", "AIV", 9600, duration))
    assert told["conversions"].flagged == much
    assert "conversions" not in said(("1", "MatMul", "AI_CORE", 0, 9600))


def test_events_of_the_scheduler_are_no_tasks_of_cores(tmp_path: Path) -> None:
    profile = read_profile(fixtures.write(tmp_path, {"task_time.csv": fixtures.TASK_TIME}))
    assert task_sentences(profile.tasks[0]) == []


def test_shares_of_a_traced_step(tmp_path: Path) -> None:
    profile = read_profile(fixtures.write(tmp_path, {"step_trace_time.csv": fixtures.STEP_TRACE}))
    rank, stage = step_sentences(profile.tables[0])
    whole = 8827.472999999998 + 815.5 + 259.125
    assert f"step rank 0: {8827.472999999998 / whole:.1%} computing" in rank.text
    assert "step stage (0, 1)" in stage.text
    assert [ref.value for ref in rank.refs] == [8827.472999999998, 815.5, 259.125]


def test_steps_of_several_devices_name_theirs(tmp_path: Path) -> None:
    rows = [
        "1,0,a,MatMul,AI_CORE,1000.000,90.0,0",
        "1,0,b,MatMul,AI_CORE,1100.000,100.0,0",
        "1,3,a,MatMul,AI_CORE,1000.000,20.0,0",
        "1,3,b,MatMul,AI_CORE,1100.000,100.0,0",
    ]
    trace = "Device_id,Step,Computing,Communication(Not Overlapped),Free\n0,1,9,0,1\n3,1,5,0,5\n"
    files = {"kernel_details.csv": "\n".join([_HEADER, *rows, ""]), "step_trace_time.csv": trace}
    profile = read_profile(fixtures.write(tmp_path, files))
    (busy,) = (s for s in task_sentences(profile.tasks[0]) if s.topic == "busy")
    assert "least in step 1 on device 3: 120.0 of 200.0 us" in busy.text
    (table,) = profile.of_kind(FileKind.STEP_TRACE)
    first, second = step_sentences(table)
    assert first.text.startswith("step 1 on device 0: 90.0%")
    assert second.text.startswith("step 1 on device 3: 50.0%")
