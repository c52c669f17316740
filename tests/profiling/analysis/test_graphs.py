"""Tasks in graphs and one by one, in one file and in two."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels_npu.errors import UsageError
from profiling import Profile, read_profile
from profiling.analysis import Sentence, eager_against_graph, task_sentences
from tests.profiling import fixtures

_HEADER = "Step Id,Model ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)\n"
NONE = 4294967295


def profile(folder: Path, *rows: tuple[int, int, float, float]) -> Profile:
    """Tasks of (step, model, start, duration), one after another."""
    lines, end = [], 0.0
    for step, model, start, duration in rows:
        lines.append(f"{step},{model},n,MatMul,AI_CORE,{start},{duration},{max(0, start - end)}")
        end = start + duration
    return read_profile(
        fixtures.write(folder, {"kernel_details.csv": _HEADER + "\n".join(lines) + "\n"})
    )


def graph_sentence(found: Profile) -> Sentence | None:
    told = {s.topic: s for s in task_sentences(found.tasks[0])}
    return told.get("graph")


def test_tasks_outside_the_graph_are_told(tmp_path: Path) -> None:
    rows = [(1, 7, 0.0, 10.0), (1, 7, 11.0, 10.0), (1, NONE, 40.0, 6.0), (1, 7, 46.0, 5.0)]
    sentence = graph_sentence(profile(tmp_path, *rows))
    assert sentence is not None and sentence.flagged
    # 6 us and its wait of 19 us, of 25 + 1 and 6 + 19 us
    assert "3 tasks are of 1 graph, 1 were sent one by one and take 49.0% of" in sentence.text
    assert "0.000 us in graphs, 19.000 us one by one" in sentence.text
    assert [ref.where.line for ref in sentence.refs] == [2, 4]


def test_all_in_graphs_or_none(tmp_path: Path) -> None:
    inside = graph_sentence(profile(tmp_path / "a", (1, 3, 0.0, 4.0), (1, 4, 5.0, 4.0)))
    assert inside is not None and not inside.flagged
    assert "2 tasks are of 2 graphs, 0 were" in inside.text and "unknown one by one" in inside.text
    assert graph_sentence(profile(tmp_path / "b", (1, NONE, 0.0, 4.0))) is None
    files = {"kernel_details.csv": fixtures.KERNEL_DETAILS_0}
    assert graph_sentence(read_profile(fixtures.write(tmp_path / "c", files))) is None


def test_steps_of_two_profiles(tmp_path: Path) -> None:
    eager = profile(
        tmp_path / "e", (1, NONE, 0, 10), (1, NONE, 40, 10), (2, NONE, 100, 10), (2, NONE, 150, 10)
    )
    graph = profile(tmp_path / "g", (1, 7, 0, 10), (1, 7, 11, 10), (2, 7, 100, 10), (2, 7, 113, 10))
    sentence = eager_against_graph(eager, graph)
    # medians of 50 and 60, and of 21 and 23
    assert "a step takes 22.0 us instead of 55.0 (2.50x)" in sentence.text
    assert (
        "2.0 us without a task instead of 35.0, 20.0 us of tasks instead of 20.0" in sentence.text
    )
    assert not sentence.flagged and "spread" not in sentence.text
    assert "Model ID" not in sentence.text
    swapped = eager_against_graph(graph, eager)
    assert swapped.flagged and "no task of it has the Model ID of a graph" in swapped.text
    one = profile(tmp_path / "o", (1, 7, 0, 10))
    assert "one step says nothing about the spread" in eager_against_graph(eager, one).text


def test_a_profile_without_steps(tmp_path: Path) -> None:
    kernels = read_profile(fixtures.write(tmp_path / "k", fixtures.FLAT))
    tasks = profile(tmp_path / "t", (1, 7, 0, 10))
    events = fixtures.write(tmp_path / "e", {"task_time.csv": fixtures.TASK_TIME})
    for without in (kernels, read_profile(events)):
        with pytest.raises(UsageError, match="AI-PROF-061"):
            eager_against_graph(without, tasks)
