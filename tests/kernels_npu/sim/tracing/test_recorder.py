"""What a trace takes and leaves out, and what happens to its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.sim.tracing import TraceRecorder, trace


def launch(recorder: TraceRecorder, blocks: int, cores: int, length: int) -> None:
    """A launch in which every block is one slice of `length` cycles on V of AIV0."""
    with recorder.launch("kernel", cores) as running:
        for block in range(blocks):
            for start, process in running.start_block(block, [1]):
                if process is not None:
                    recorder.file.slice(process, "V", start, length, '"add"', "instruction", "")
                running.end_block(block, start + length)
        assert running.critical_path == -(-blocks // cores) * length


def test_blocks_share_the_cores_and_launches_follow_each_other(tmp_path: Path) -> None:
    with trace(tmp_path / "t.json") as recorder:
        launch(recorder, blocks=5, cores=2, length=10)
        launch(recorder, blocks=1, cores=2, length=3)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [(e["ts"], e["dur"]) for e in events if e["ph"] == "X"] == [
        (0, 10),
        (0, 10),
        (10, 10),
        (10, 10),
        (20, 10),
        (30, 3),
    ]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names[4:] == ["kernel #0 block 4 AIV0", "kernel #1 block 0 AIV0"]


def test_limits_are_kept_and_told(tmp_path: Path) -> None:
    with trace(tmp_path / "t.json", blocks=2, launches=1) as recorder:
        assert recorder.takes_launch()
        launch(recorder, blocks=5, cores=8, length=4)
        assert not recorder.takes_launch()
    assert "left out: 3 blocks (--trace-blocks), 1 launches (--trace-launches)" in str(
        recorder.summary()
    )
    content = json.loads((tmp_path / "t.json").read_text())
    assert sum(e["ph"] == "X" for e in content["traceEvents"]) == 2
    assert content["otherData"]["blocks_left_out"] == 3
    assert content["otherData"]["launches_left_out"] == 1
    assert content["otherData"]["evidence"]["cycles"] == "modelled"
    assert "not time" in content["otherData"]["time axis"]


def test_the_file_appears_whole_and_nothing_else(tmp_path: Path) -> None:
    def interrupted() -> None:
        with trace(tmp_path / "t.json") as recorder:
            launch(recorder, blocks=1, cores=1, length=2)
            assert not (tmp_path / "t.json").exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    json.loads((tmp_path / "t.json").read_text())


@pytest.mark.parametrize("place", ["missing/t.json", "."])
def test_a_file_that_cannot_be_written_is_said_before_anything_runs(
    tmp_path: Path, place: str
) -> None:
    with pytest.raises(UsageError, match="AI-CLI-004"), trace(tmp_path / place):
        raise AssertionError("not reached")


def test_limits_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AI-CLI-001"), trace(tmp_path / "t.json", blocks=0):
        raise AssertionError("not reached")
    assert list(tmp_path.iterdir()) == []
