"""The manifest of collected files, and the evidence that a profile takes from it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling import manifest, read_profile
from profiling.analysis import track_totals
from profiling.manifest import FILE_NAME, Manifest
from profiling.records import FileKind
from tests.profiling import fixtures

SIMULATED = Manifest(evidence=Evidence.SIMULATED, made_by="simulated NPU")
MEASURED = Manifest(evidence=Evidence.NPU_MEASURED, made_by="msprof op")

texts = st.text(max_size=8)
tables = st.dictionaries(texts, texts, max_size=3)
manifests = st.builds(
    Manifest,
    evidence=st.sampled_from(Evidence),
    made_by=texts,
    command=st.lists(texts, max_size=3).map(tuple),
    exit_status=st.none() | st.integers(-64, 255),
    outcome=texts,
    versions=tables,
    environment=tables,
    git=tables,
    settings=tables,
)


@given(manifests)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, made: Manifest) -> None:
    folder = tmp_path_factory.mktemp("run")
    file = made.write(folder)
    assert manifest.read(folder) == manifest.read(file) == made
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    made = Manifest(evidence=Evidence.MODELLED, made_by="x", command=("a\udcff", "转换"))
    made.write(tmp_path)
    assert manifest.read(tmp_path).command == made.command


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": "guessed"},
        {"evidence": 3},
        {"evidence": None},
        {"made_by": None},
        {"command": "msprof op"},
        {"command": [1]},
        {"exit_status": True},
        {"exit_status": "0"},
        {"versions": {"torch": 2.7}},
        {"git": []},
        {"started": 5},
    ],
)
def test_a_field_of_another_kind_is_damage(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({**MEASURED.to_dict(), **change}))
    with pytest.raises(UsageError, match=next(iter(change))) as caught:
        manifest.read(tmp_path)
    assert caught.value.code == "AI-PROF-033"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"evidence": "simulated"}', "[" * 99999]
)
def test_other_text_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(UsageError, match=FILE_NAME):
        manifest.read(tmp_path)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        manifest.read(tmp_path)
    assert manifest.covering(tmp_path) is None


def test_fields_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({**MEASURED.to_dict(), "power_limit": 400}))
    assert manifest.read(tmp_path) == MEASURED


def test_a_folder_that_cannot_be_written_keeps_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        MEASURED.write(tmp_path / "absent")
    assert caught.value.code == "AI-CLI-004"
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(UsageError):
        MEASURED.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def evidence_in(path: Path) -> set[Evidence]:
    """The evidence of the durations and pipe times below `path`."""
    profile = read_profile(path)
    assert not profile.damaged
    return {
        table.by_key[key].evidence
        for table in profile.tables
        for key in ("task_duration_us", "aiv_vec_time_us")
        if key in table.by_key
    }


def test_a_profile_takes_its_evidence_from_the_manifest(tmp_path: Path) -> None:
    root = fixtures.write(tmp_path / "OPPROF", fixtures.FLAT)
    assert evidence_in(root) == {Evidence.NPU_MEASURED}
    assert read_profile(root).manifests == ()
    SIMULATED.write(root)
    assert evidence_in(root) == {Evidence.SIMULATED}
    assert read_profile(root).manifests == (SIMULATED,)
    basic = next(read_profile(root).of_kind(FileKind.OP_BASIC_INFO))
    assert basic.by_key["rated_freq"].evidence is Evidence.VENDOR_REPORTED
    memory = next(read_profile(root).of_kind(FileKind.MEMORY))
    estimate = next(column for column in memory.columns if column.key.endswith("_estimate"))
    assert estimate.evidence is Evidence.MODELLED


def test_the_nearest_manifest_counts(tmp_path: Path) -> None:
    SIMULATED.write(tmp_path)
    below = fixtures.write(tmp_path / "a" / "b", fixtures.FLAT)
    MEASURED.write(tmp_path / "a")
    assert evidence_in(tmp_path) == evidence_in(below) == {Evidence.NPU_MEASURED}
    assert read_profile(tmp_path).manifests == (MEASURED,)
    beside = fixtures.write(tmp_path / "c", fixtures.FLAT)
    assert evidence_in(beside / "OpBasicInfo.csv") == {Evidence.SIMULATED}
    assert evidence_in(tmp_path) == {Evidence.NPU_MEASURED, Evidence.SIMULATED}


def test_a_manifest_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "collected.zip"
    with zipfile.ZipFile(archive, "w") as into:
        for name, text in fixtures.FLAT.items():
            into.writestr(f"run/OPPROF/{name}", text)
        into.writestr(f"run/{FILE_NAME}", json.dumps(SIMULATED.to_dict()))
    assert evidence_in(archive) == {Evidence.SIMULATED}


def test_a_damaged_manifest_is_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    root = fixtures.write(tmp_path, {**fixtures.FLAT, FILE_NAME: '{"evidence": "simul'})
    for path in (root, root / "OpBasicInfo.csv"):
        profile = read_profile(path)
        assert profile.damaged and profile.kernels
        assert [note.code for note in profile.notes] == ["AI-PROF-033"]


def test_tasks_and_traces_follow_it_and_simulated_time_is_not_shown(tmp_path: Path) -> None:
    files = {"kernel_details.csv": fixtures.KERNEL_DETAILS_1, "trace_view.json": fixtures.TRACE}
    root = fixtures.write(tmp_path, files)
    assert track_totals(read_profile(root).traces[0])[0].total == pytest.approx(14.5)
    SIMULATED.write(root)
    profile = read_profile(root)
    assert profile.tasks[0].evidence is profile.traces[0].evidence is Evidence.SIMULATED
    assert track_totals(profile.traces[0])[0].total is None
