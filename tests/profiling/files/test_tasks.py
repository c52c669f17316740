"""Large files in pieces give what small ones give row by row, damage included."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels_npu.errors import EnvironmentProblem
from profiling import read_profile
from profiling.files import reading, tasks
from profiling.records import Profile, Tasks
from tests.profiling import fixtures

pytest.importorskip("polars")

_HEADER, *_ROWS = fixtures.KERNEL_DETAILS_1.splitlines()


def kernel_details(chance: random.Random, count: int) -> list[str]:
    """Rows with random figures under a real header, missing cells among them."""
    lines = []
    start = 1736408883704643212
    for number in range(count):
        start += chance.randrange(1, 400_000)
        cells = [
            chance.choice("789"),
            "4294967295",
            str(number),
            "2",
            f"name_{chance.randrange(count)}",
            chance.choice(["N/A", "MatMulV2", "Cast", '"Add, fused"', "转换"]),
            "dynamic",
            chance.choice(["AI_CORE", "AI_VECTOR_CORE", "HCCL", "N/A"]),
            f"{start // 1000}.{start % 1000:03}\t" if number % 17 else "N/A",
            f"{chance.expovariate(0.01):.3f}" if number % 13 else "NA",
            chance.choice(["0", "1.5", "2.880000", ""]),
            *(["32", "0", "NO"]),
            '"""32,3;3,7"""',
            "FLOAT",
            *(f"{chance.random():.3f}" for _ in range(3)),
        ]
        lines.append(",".join(cells))
    return lines


def read(path: Path, lines: list[str], ending: str = "\n") -> Profile:
    path.write_bytes((ending.join([_HEADER, *lines]) + ending).encode())
    return read_profile(path, named=True)


def both(path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Profile, Profile]:
    """Row by row, and in pieces of a few kilobytes."""
    small = read(path, lines)
    for module in (tasks, reading):
        monkeypatch.setattr(module, "LARGE", 4096)
    return small, read(path, lines)


def assert_equal(ours: Tasks, theirs: Tasks) -> None:
    for name in ("lines", "start_ns", "duration_us", "wait_us"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    for name in ("operator", "core", "step", "device", "model", "name", "shapes", "dtypes"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert [a.names[code] for code in a.codes] == [b.names[code] for code in b.codes]
        assert set(a.names) == set(b.names)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_undamaged_pieces_are_read_by_polars(ending: str) -> None:
    from profiling.files.polars_pieces import read_piece
    from profiling.files.sources import Source
    from profiling.files.tables import header_of
    from profiling.records import Notes

    source = Source(name="", place=("kernel_details.csv",), size=0, path=Path())
    head = header_of([_HEADER], source, Notes())
    assert head is not None
    body = ending.join(kernel_details(random.Random(4), 50)).encode()
    piece = read_piece(body, head[2], tasks.NAMED)
    assert piece is not None and len(piece.lines) == 50


def test_pieces_and_rows_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = kernel_details(random.Random(5), 301)
    small, large = both(tmp_path / "kernel_details.csv", lines, monkeypatch)
    assert small.tables and not large.tables
    assert_equal(large.tasks[0], small.tasks[0])
    assert large.notes == small.notes == ()


@pytest.mark.parametrize(
    "damage",
    [
        "7,4294967295,1",
        "",
        "7" + ",1" * 40,
        '7,"open' + ",1" * 16,
        _ROWS[1].replace("100.5", "1_0"),
    ],
    ids=["short", "empty", "long", "open quote", "no number"],
)
@pytest.mark.parametrize("place", [0, 150, 301])
def test_damage_in_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, place: int
) -> None:
    lines = kernel_details(random.Random(6), 301)
    lines.insert(place, damage)
    small, large = both(tmp_path / "kernel_details.csv", lines, monkeypatch)
    assert_equal(large.tasks[0], small.tasks[0])
    assert large.notes == small.notes
    assert len(large.notes) == (damage != "")


def test_a_last_cell_that_is_empty_is_no_damage(tmp_path: Path) -> None:
    from profiling.files.polars_pieces import read_piece

    lines = kernel_details(random.Random(8), 30)
    for place in (0, 7, 29):
        lines[place] = lines[place].rpartition(",")[0] + ","
    assert not read(tmp_path / "a.csv", lines).notes
    columns = read(tmp_path / "a.csv", lines).tables[0].columns
    assert read_piece("\n".join(lines).encode(), columns, tasks.LABELS) is not None
    lines[9] = lines[9].rpartition(",")[0]
    assert read_piece("\n".join(lines).encode(), columns, tasks.LABELS) is None


def test_pieces_with_other_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = kernel_details(random.Random(7), 99)
    small, _ = both(tmp_path / "kernel_details.csv", lines, monkeypatch)
    assert_equal(read(tmp_path / "crlf.csv", lines, "\r\n").tasks[0], small.tasks[0])


def test_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "profiling.files.polars_pieces", None)
    lines = kernel_details(random.Random(8), 99)
    assert read(tmp_path / "kernel_details.csv", lines).tasks
    monkeypatch.setattr(reading, "LARGE", 4096)
    with pytest.raises(EnvironmentProblem, match="AI-PROF-032") as caught:
        read(tmp_path / "kernel_details.csv", lines)
    assert caught.value.fix == "pip install polars"
