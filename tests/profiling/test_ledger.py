"""The ledger: appended by several processes, read past damage; conditions that are missing."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling.conditions import MEANING, Conditions
from profiling.ledger import Entry, Malformed, append, read

COMPLETE = Conditions(**{name: f"some {name}" for name in MEANING})


def entry(name="attention", conditions=COMPLETE, **figures):
    return Entry(
        name=name,
        when="2026-01-01T00:00:00Z",
        figures=figures or {"median_us": 12.5, "p99_us": None},
        evidence=Evidence.NPU_MEASURED,
        conditions=conditions,
    )


def test_twelve_conditions_and_the_first_line_says_which_are_missing():
    assert [f.name for f in dataclasses.fields(Conditions)] == list(MEANING)
    assert len(MEANING) == 12 and COMPLETE.headline == ""
    partly = dataclasses.replace(COMPLETE, graph_mode=" ", reproduction="")
    assert partly.missing == ("graph_mode", "reproduction")
    assert partly.headline.startswith("Not comparable: 2 of 12 conditions missing: graph or eager")


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "ledger.jsonl"
    entries = [entry(name=f"op{i}", median_us=float(i)) for i in range(3)]
    for one in entries:
        append(path, one)
    assert list(read(path)) == entries


def test_a_damaged_line_hides_no_other(tmp_path):
    path = tmp_path / "ledger.jsonl"
    append(path, entry("first"))
    damaged = json.loads(path.read_text())
    damaged["figures"]["median_us"] = "fast"
    with path.open("a") as stream:
        stream.write(json.dumps(damaged) + "\n\n[1, 2]\n{}\n" + '{"name": "torn')
    append(path, entry("last"))
    found = list(read(path))
    assert [type(item) for item in found] == [Entry, *[Malformed] * 4, Entry]
    assert [item.line for item in found if isinstance(item, Malformed)] == [2, 4, 5, 6]


def add_many(path, who):
    for number in range(50):
        append(path, entry(f"{who}", number=number, padding=0.1234567890123456))


def test_lines_of_several_writers_are_whole(tmp_path):
    path = tmp_path / "ledger.jsonl"
    writers = [multiprocessing.Process(target=add_many, args=(path, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = list(read(path))
    assert len(found) == 150 and all(isinstance(item, Entry) for item in found)


def test_what_cannot_be_written_or_read(tmp_path):
    for action in (
        lambda: append(tmp_path / "missing" / "ledger.jsonl", entry()),
        lambda: append(tmp_path / "ledger.jsonl", entry(median_us=float("nan"))),
        lambda: list(read(tmp_path / "missing.jsonl")),
    ):
        with pytest.raises(UsageError, match="AI-BENCH-006"):
            action()
    assert not (tmp_path / "ledger.jsonl").exists()
