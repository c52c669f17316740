"""Damaged files: every damage has its note and costs only what it hit; clean files have none."""

from __future__ import annotations

import os
import random
import zipfile
from pathlib import Path

import pytest

from kernels_npu.errors import AscendInferError
from profiling import analysis, read_profile
from profiling.devices import get_chip
from profiling.records import FileKind, Note, Profile, Severity
from tests.profiling import fixtures

#: Mutated files per run; more with the variable.
MUTATIONS = int(os.environ.get("ASCEND_INFER_PROFILE_MUTATIONS", "400"))


def read(folder: Path, name: str, content: str | bytes) -> Profile:
    data = content.encode() if isinstance(content, str) else content
    return read_profile(fixtures.write(folder, {name: data}) / name)


def rows(profile: Profile) -> list[dict[str, object]]:
    return [dict(row) for table in profile.tables for row in table.rows]


def only_note(profile: Profile) -> Note:
    (note,) = profile.notes
    return note


def test_undamaged_files_have_no_notes(tmp_path: Path) -> None:
    for number, (name, text) in enumerate(fixtures.ALL.items()):
        folder = tmp_path / str(number)
        assert not read_profile(fixtures.write(folder, {name: text})).notes, name


@pytest.mark.parametrize(
    "line",
    [
        "0,vector0,NA,NA",
        "0,cube0" + ",1" * 30,
        '0,"cube0' + ",1" * 18,
    ],
    ids=["short", "long", "open quote"],
)
def test_a_malformed_row_costs_only_itself(tmp_path: Path, line: str) -> None:
    lines = fixtures.PIPE.splitlines()
    profile = read(tmp_path, "PipeUtilization.csv", "\n".join([*lines[:2], line, *lines[2:]]))
    note = only_note(profile)
    assert (note.code, note.severity) == ("AI-PROF-024", Severity.DAMAGE)
    assert str(note.where).endswith("PipeUtilization.csv:3")
    clean = read(tmp_path / "clean", "PipeUtilization.csv", fixtures.PIPE)
    assert rows(profile) == rows(clean)


def test_an_open_quote_where_rows_have_many_lines(tmp_path: Path) -> None:
    lines = fixtures.OPERATOR_DETAILS.splitlines()
    text = "\n".join([lines[0], 'aten::mul,"3,4,,1,1,1,1,1,1', *lines[1:]])
    profile = read(tmp_path, "operator_details.csv", text)
    note = only_note(profile)
    assert (note.code, note.count) == ("AI-PROF-024", 1)
    assert [row["name"] for row in rows(profile)] == ["aten::add", "aten::relu"]


def test_a_cell_that_is_no_number_is_missing_and_noted(tmp_path: Path) -> None:
    for bad in ("4.0.0", "inf", "nan", "1_0", "x" * 90, "9" * 500):
        profile = read(tmp_path, "OpBasicInfo.csv", fixtures.BASIC_INFO.replace("12.250000", bad))
        note = only_note(profile)
        assert (note.code, str(note.where)[-2:]) == ("AI-PROF-025", ":2"), bad
        info = profile.kernels[0].info
        assert info is not None and (info.task_duration_us, info.block_dim) == (None, 2)


def test_repeated_trouble_is_one_note_with_a_count(tmp_path: Path) -> None:
    text = fixtures.OP_STATISTIC + "0,a,b\n" * 5 + "0,T,C,x,1,1,1,1,1\n" * 3
    profile = read(tmp_path, "op_statistic.csv", text)
    assert {(n.code, n.count) for n in profile.notes} == {("AI-PROF-024", 5), ("AI-PROF-025", 3)}


def test_missing_columns_are_named(tmp_path: Path) -> None:
    text = fixtures.API_STATISTIC.replace("Count", "Number")
    profile = read(tmp_path, "api_statistic.csv", text)
    note = only_note(profile)
    assert (note.code, note.severity) == ("AI-PROF-023", Severity.WARNING)
    assert note.what.endswith("count")
    assert rows(profile)[0]["number"] == 24


def test_a_column_twice(tmp_path: Path) -> None:
    text = "aicore_time(us),aic_time(us),Op Name,OP Type,Task Type,Start Time(us),Task Duration(us)"
    profile = read(tmp_path, "op_summary.csv", text + "\n1.5,2.5,a,b,AI_CORE,100.5,3\n")
    assert only_note(profile).code == "AI-PROF-028"
    assert (rows(profile)[0]["aic_time_us"], rows(profile)[0]["aic_time_us#2"]) == (1.5, 2.5)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "gbk", "utf-16"], ids=lambda name: str(name)
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, ending: str) -> None:
    text = fixtures.OP_STATISTIC.replace("TransData", "转换").replace("\n", ending)
    profile = read(tmp_path, "op_statistic.csv", text.encode(encoding))
    assert not profile.notes
    assert (rows(profile)[0]["op_type"], rows(profile)[0]["count"]) == ("转换", 57)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    data = fixtures.OP_STATISTIC.encode().replace(b"TransData", b"Tr\xff\xffan\0s")
    profile = read(tmp_path, "op_statistic.csv", data)
    assert {note.code for note in profile.notes} == {"AI-PROF-026"}
    assert rows(profile)[0]["total_time_us"] == 1423.208


@pytest.mark.parametrize("damage", ["cut", "flipped", "none"])
def test_a_damaged_archive(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("OpBasicInfo.csv", fixtures.BASIC_INFO)
        archive.writestr("kernel_details.csv", fixtures.KERNEL_DETAILS_1)
    data = bytearray(path.read_bytes())
    if damage == "flipped":  # inside of the second member's compressed bytes
        at = data.index(b"kernel_details.csv") + 60
        data[at : at + 20] = bytes(reversed(data[at : at + 20]))
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    if damage == "cut":
        assert refusal(path) == "AI-PROF-020"
        return
    profile = read_profile(path)
    assert len(profile.kernels) == 1
    assert [n.code for n in profile.notes] == (["AI-PROF-021"] if damage == "flipped" else [])
    assert all("unzip -t" in note.fix for note in profile.notes)


def test_bytes_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "visualize_data.bin"
    path.write_bytes(bytes(range(256)) * 20)
    assert refusal(path) == "AI-PROF-020"


@pytest.mark.parametrize("text", ["", "\n\n", fixtures.BASIC_INFO.splitlines()[0]])
def test_empty_files_beside_others(tmp_path: Path, text: str) -> None:
    fixtures.write(tmp_path, {"OpBasicInfo.csv": text, "PipeUtilization.csv": fixtures.PIPE})
    profile = read_profile(tmp_path)
    assert only_note(profile).code == "AI-PROF-022"
    assert profile.kernels[0].info is None and profile.kernels[0].rows(FileKind.PIPE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_for_others(tmp_path: Path) -> None:
    fixtures.write(tmp_path, {"OpBasicInfo.csv": fixtures.BASIC_INFO, "a/Memory.csv": ""})
    (tmp_path / "a").chmod(0)
    try:
        assert only_note(read_profile(tmp_path)).code == "AI-PROF-021"
    finally:
        (tmp_path / "a").chmod(0o700)


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from profiling.files.sources import Source

    fixtures.write(tmp_path, fixtures.FLAT)
    opened = Source.open

    def refuse(source: Source) -> object:
        if source.stem == "Memory":
            raise PermissionError(13, "Permission denied")
        return opened(source)

    monkeypatch.setattr(Source, "open", refuse)
    profile = read_profile(tmp_path)
    assert only_note(profile).code == "AI-PROF-021"
    assert len(profile.kernels[0].tables) == len(fixtures.FLAT) - 1


@pytest.mark.parametrize("cut", [130, 200, 310, len(fixtures.TRACE) - 3])
def test_of_a_half_written_trace_the_whole_events_are_read(tmp_path: Path, cut: int) -> None:
    profile = read(tmp_path, "trace.json", fixtures.TRACE[:cut])
    assert "AI-PROF-027" in {note.code for note in profile.notes}
    whole = fixtures.TRACE[:cut].count("}\n") + fixtures.TRACE[:cut].count("},\n")
    (trace,) = profile.traces
    assert len(trace.spans) == max(0, min(whole, 4) - 2)


@pytest.mark.parametrize(
    "text",
    ['[{"ph":"X","name":"a"}]', '[{"ph":"X","ts":"x","dur":1}]', '[{"ph":"X","ts":1e999,"dur":1}]'],
)
def test_events_without_times_are_noted(tmp_path: Path, text: str) -> None:
    codes = {note.code for note in read(tmp_path, "trace.json", text).notes}
    assert codes >= {"AI-PROF-031"}


# ------------------------------------------------------------------------------------------ fuzz


_NASTY = [b'"', b",", b"\n", b"\r", b"\0", b"nan", b"-", b"1e400", b"9" * 5000, b"[" * 3000]
_NASTY += [b"\xb0\xa1", b"_", b"\t", b"{", b"]", b"1E+999999999", b"\x1f", b"'"]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with a few of the things that happen to files."""
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        before, piece, after = data[:at], data[at : min(to, at + 200)], data[at:]
        data = chance.choice(
            [
                before,
                before + data[to:],
                before + piece + after,
                before + chance.randbytes(3) + after[3:],
                before + chance.choice(_NASTY) + after,
                before + chance.choice(_NASTY) + after[len(piece) :],
                data.replace(b",", b",,", 1 + at % 5),
                chance.choice([b"\xff\xfe", b"\xef\xbb\xbf", b"PK\x03\x04"]) + data,
            ]
        )
    return data


_CHIP = get_chip("Ascend910B2")


def test_no_mutation_raises(tmp_path: Path) -> None:
    chance = random.Random(20261130)
    originals = [(name.rpartition("/")[2], text.encode()) for name, text in fixtures.ALL.items()]
    for number in range(MUTATIONS):
        name, data = originals[number % len(originals)]
        path = tmp_path / name
        path.write_bytes(mutated(data, chance))
        codes = refusal(path)
        assert codes in ("", "AI-PROF-020")


def refusal(path: Path) -> str:
    """The code of the error that reading raised; what was read can be analysed in any case."""
    try:
        profile = read_profile(path)
    except AscendInferError as error:
        return error.code
    for kernel in profile.kernels:
        analysis.kernel_sentences(kernel, _CHIP)
    analysis.profile_sentences(profile)
    analysis.longest_launches(profile)
    for tasks in profile.tasks:
        analysis.task_sentences(tasks)
    for table in profile.of_kind(FileKind.STEP_TRACE):
        analysis.step_sentences(table)
    for trace in profile.traces:
        analysis.track_totals(trace)
        analysis.trace_sentences(trace)
    assert all(n.what and n.rule and n.fix and str(n.where) for n in profile.notes)
    return ""
