"""Every kind of file, value by value; how files are told apart and put together."""

from __future__ import annotations

import zipfile
from decimal import Decimal
from pathlib import Path

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling import read_profile
from profiling.records import FileKind, OpProfile, Profile, Quantity, Table
from tests.profiling import fixtures


def only(profile: Profile, kind: FileKind) -> Table:
    (table,) = profile.of_kind(kind)
    return table


def read(folder: Path, **files: str) -> Profile:
    named = {name.replace("__", "/") + ".csv": text for name, text in files.items()}
    return read_profile(fixtures.write(folder, named))


@pytest.fixture
def flat(tmp_path: Path) -> OpProfile:
    profile = read_profile(fixtures.write(tmp_path / "OPPROF_1", fixtures.FLAT))
    assert not profile.notes
    (kernel,) = profile.kernels
    return kernel


# ----------------------------------------------------------------------------------- msprof op


def test_the_task_of_a_kernel(flat: OpProfile) -> None:
    info = flat.info
    assert info is not None and info.is_mix
    assert (info.name, info.task_duration_us) == ("rms_norm_kernel_mix_aic", 12.25)
    assert (info.block_dim, info.mix_block_dim, info.device_id) == (2, 4, "0")
    assert (info.current_freq_mhz, info.rated_freq_mhz) == (1650, 1800)
    assert flat.tables[FileKind.OP_BASIC_INFO].rows[0]["pid"] is None


def test_rows_of_both_kinds_of_cores(flat: OpProfile) -> None:
    cube, vector, *_ = flat.rows(FileKind.PIPE)
    assert (cube["sub_block_id"], cube["aic_time_us"], cube["aiv_time_us"]) == ("cube0", 4.0, None)
    assert (vector["aiv_mte2_ratio"], vector["aic_time_us"]) == (0.734694, None)
    assert cube["aic_total_cycles"] == 6600
    assert isinstance(cube["aic_total_cycles"], int)
    first = flat.rows(FileKind.L2_CACHE)[0]
    assert (first["aic_r0_read_cache_hit"], first["aic_read_hit_rate_pct"]) == (17, 80.25)


def test_a_figure_says_where_it_is_from(flat: OpProfile) -> None:
    table = flat.tables[FileKind.MEMORY]
    figure = table.figure(table.rows[1], "gm_to_ub_datas_kb")
    assert (figure.value, figure.unit, figure.evidence) == (960.0, "KiB", Evidence.NPU_MEASURED)
    assert (Path(figure.where.file).name, figure.where.line) == ("Memory.csv", 3)
    assert table.by_key["l1_to_gm_datas_kb_estimate"].evidence is Evidence.MODELLED
    rated = flat.info_figure("rated_freq")
    assert rated is not None and rated.evidence is Evidence.VENDOR_REPORTED


def test_both_generations_of_pipe_columns(tmp_path: Path) -> None:
    profile = read(
        tmp_path, old__PipeUtilization=fixtures.PIPE, new__PipeUtilization=fixtures.PIPE_9
    )
    new, old = (kernel.rows(FileKind.PIPE)[0] for kernel in profile.kernels)
    assert (old["aic_scalar_time_us"], new["aic_scalar_time_us"]) == (2.0, 0.85)
    assert new["aic_scalar_mte1_stall_time_us"] == 0.3
    assert all(c.known for t in profile.tables for c in t.columns)
    assert not profile.notes


def test_one_kind_of_core_without_blocks(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        OpBasicInfo=fixtures.BASIC_INFO_310P,
        PipeUtilization=fixtures.PIPE_310P,
        L2Cache=fixtures.L2_310P,
    )
    (kernel,) = profile.kernels
    assert kernel.info is not None and kernel.info.mix_block_dim is None
    assert kernel.rows(FileKind.PIPE)[0]["aic_vec_time_us"] == 6.1
    assert kernel.rows(FileKind.L2_CACHE)[0]["aic_l2_cache_hit_rate_pct"] == 61.5
    assert not profile.notes


def test_cache_columns_of_a_950(tmp_path: Path) -> None:
    row = only(read(tmp_path, L2Cache=fixtures.L2_950), FileKind.L2_CACHE).rows[0]
    assert (row["aic_read_close_hit"], row["aic_read_far_miss"]) == (120, 8)
    assert row["aic_read_hit_rate_pct"] == 93.75


@pytest.mark.parametrize(
    ("layout", "folders"),
    [
        (["{}.csv"], ["."]),
        (
            ["norm/0/{}_20260605155158123.csv", "norm/1/{}_20260605155159456.csv"],
            ["norm/0", "norm/1"],
        ),
        (
            ["device0/a/0/{}_20260605155158123.csv", "device1/a/0/{}_20260605155158124.csv"],
            ["device0/a/0", "device1/a/0"],
        ),
    ],
)
def test_layouts_of_a_tree(tmp_path: Path, layout: list[str], folders: list[str]) -> None:
    files = {
        pattern.format(name): text
        for pattern in layout
        for name, text in (("OpBasicInfo", fixtures.BASIC_INFO), ("PipeUtilization", fixtures.PIPE))
    }
    profile = read_profile(fixtures.write(tmp_path, files))
    assert [kernel.folder for kernel in profile.kernels] == folders
    assert all(len(kernel.tables) == 2 for kernel in profile.kernels)
    assert not profile.notes


def test_launches_put_into_one_folder_are_told_apart_and_noted(tmp_path: Path) -> None:
    second = fixtures.BASIC_INFO.replace("12.250000", "13.5")
    profile = read(
        tmp_path,
        OpBasicInfo_20260605155158123=fixtures.BASIC_INFO,
        PipeUtilization_20260605155158125=fixtures.PIPE,
        OpBasicInfo_20260605155159001=second,
        PipeUtilization_20260605155159002=fixtures.PIPE_9,
    )
    durations = [k.info.task_duration_us for k in profile.kernels if k.info]
    assert durations == [12.25, 13.5]
    assert [len(k.rows(FileKind.PIPE)) for k in profile.kernels] == [4, 1]
    assert [note.code for note in profile.notes] == ["AI-PROF-030"]


def test_a_second_row_of_a_launch_is_not_lost_without_a_word(tmp_path: Path) -> None:
    text = fixtures.BASIC_INFO + fixtures.BASIC_INFO.splitlines()[1].replace("12.25", "13.25")
    profile = read(tmp_path, OpBasicInfo=text, PipeUtilization=fixtures.PIPE)
    (kernel,) = profile.kernels
    assert kernel.info is not None and kernel.info.task_duration_us == 12.25
    (note,) = profile.notes
    assert note.code == "AI-PROF-030" and "2 rows" in note.what
    assert str(note.where).endswith("OpBasicInfo.csv:3")


def test_instructions_of_the_simulator_are_modelled(tmp_path: Path) -> None:
    table = only(read(tmp_path, core0__x_instr_exe=fixtures.INSTRUCTIONS), FileKind.INSTRUCTIONS)
    assert [row["cycles"] for row in table.rows] == [2944, 277]
    assert table.rows[1]["detail"] == "PIPE:MTE2,TRIGGERPIPE:SCALAR,FLAGID:0,"
    assert table.rows[0]["addr"] == "288401332"
    assert {column.evidence for column in table.columns} == {Evidence.MODELLED}


# ---------------------------------------------------------------------------- whole application


def test_kernels_of_the_torch_profiler(tmp_path: Path) -> None:
    profile = read(tmp_path, kernel_details=fixtures.KERNEL_DETAILS_1)
    rows = only(profile, FileKind.KERNEL_DETAILS).rows
    assert rows[0]["start_us"] == Decimal("1736408883704643.212")
    assert (rows[0]["input_shapes"], rows[0]["block_dim"]) == ("32,3,224,224", 32)
    assert (rows[1]["op_type"], rows[1]["aic_cube_ratio"]) == ("MatMulV2", 0.625)
    assert (rows[2]["core"], rows[2]["aic_time_us"]) == ("HCCL", None)
    (tasks,) = profile.tasks
    assert tasks.start_ns[0] == 1736408883704643212
    assert tasks.operator.names == ("TransData", "MatMulV2", "hcom_allReduce_", "Cast")
    assert list(tasks.step.codes) == [0, 0, 0, 1]
    assert not profile.notes


def test_level_0_has_names_and_no_types(tmp_path: Path) -> None:
    profile = read(tmp_path, kernel_details=fixtures.KERNEL_DETAILS_0)
    assert profile.tasks[0].operator.names == ("aclnnAdd_Add_Add", "Conv2D1")
    assert list(profile.tasks[0].duration_us) == [50.621, 6.5]


def test_tables_of_msprof(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        op_summary_20260605155158=fixtures.OP_SUMMARY,
        task_time_20260605155158=fixtures.TASK_TIME,
        op_statistic_1=fixtures.OP_STATISTIC,
        api_statistic_1=fixtures.API_STATISTIC,
        step_trace_time=fixtures.STEP_TRACE,
    )
    summary = only(profile, FileKind.OP_SUMMARY).rows[0]
    assert (summary["device_id"], summary["duration_us"]) == ("3", 42399.125)
    assert (summary["aic_time_us"], summary["aic_cube_time_us"]) == (12.75, 0.5)
    assert summary["cube_utilization_pct"] == 0.029
    task = only(profile, FileKind.TASK_TIME).rows[1]
    assert (task["op_name"], task["stop_us"]) == ("k_main", Decimal("1000401.720"))
    assert only(profile, FileKind.OP_STATISTIC).rows[0]["total_time_us"] == 1423.208
    api = only(profile, FileKind.API_STATISTIC).rows[0]
    assert (api["device_id"], api["variance"]) == ("host", 1380172212.489)
    steps = only(profile, FileKind.STEP_TRACE)
    assert steps.rows[1]["index"] == "(0, 1)"
    assert steps.by_key["computing"].quantity is Quantity.TIME
    assert not profile.notes


def test_rows_of_many_lines(tmp_path: Path) -> None:
    profile = read(tmp_path, operator_details=fixtures.OPERATOR_DETAILS)
    first, second = only(profile, FileKind.OPERATOR_DETAILS).rows
    assert first["call_stack"] == "model.py(7): forward;\nrun.py(12): <module>;\n\nrun.py(1): main"
    assert (first.line, first["host_total_duration_us"]) == (2, 7.25)
    assert (second.line, second["input_shapes"], second["host_self_duration_us"]) == (
        6,
        ";\n;\n;",
        2.5,
    )


def test_memory_of_the_torch_profiler(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        operator_memory=fixtures.OPERATOR_MEMORY,
        memory_record=fixtures.MEMORY_RECORD,
        npu_module_mem=fixtures.MODULE_MEMORY,
        static_op_mem=fixtures.STATIC_MEMORY,
        l2_cache=fixtures.L2_OF_TASKS,
    )
    allocated = only(profile, FileKind.OPERATOR_MEMORY).rows[0]
    assert allocated["allocation_time_us"] == Decimal("1706704429088523.015")
    assert (allocated["size_kb"], allocated["release_time_us"]) == (192.5, None)
    assert allocated["allocation_total_allocated_mb"] == 954.375
    record = only(profile, FileKind.MEMORY_RECORD)
    assert record.figure(record.rows[0], "total_reserved_mb").unit == "MiB"
    assert only(profile, FileKind.MODULE_MEMORY).rows[0]["total_reserved_mb"] == 0.5
    assert only(profile, FileKind.STATIC_MEMORY).rows[0]["size_kb"] == 2343.75
    assert only(profile, FileKind.L2_OF_TASKS).rows[0]["victim_rate"] == 0.066608


def test_one_key_for_both_spellings_of_blocks(tmp_path: Path) -> None:
    renamed = fixtures.OP_SUMMARY.replace("Block Dim", "Block Num")
    row = only(read(tmp_path, op_summary=renamed), FileKind.OP_SUMMARY).rows[0]
    assert row["block_dim"] == 256


def test_columns_decide_whatever_the_name_says(tmp_path: Path) -> None:
    profile = read(tmp_path, rank0=fixtures.KERNEL_DETAILS_1, MemoryUB=fixtures.PIPE)
    assert {table.kind for table in profile.tables} == {FileKind.KERNEL_DETAILS, FileKind.PIPE}


def test_unknown_columns_are_kept(tmp_path: Path) -> None:
    text = fixtures.OP_STATISTIC.replace("Ratio(%)", "Ratio(%),Mood,Spare Time(us)")
    text = text.replace("16.038", "16.038,calm,2.5")
    table = only(read(tmp_path, op_statistic=text), FileKind.OP_STATISTIC)
    assert (table.rows[0]["mood"], table.rows[0]["spare_time_us"]) == ("calm", 2.5)
    assert not table.by_key["mood"].known
    assert table.by_key["spare_time_us"].unit == "us"


# ---------------------------------------------------------------------------------------- traces


def test_spans_of_a_trace(tmp_path: Path) -> None:
    profile = read_profile(fixtures.write(tmp_path, {"trace_view.json": fixtures.TRACE}))
    (trace,) = profile.traces
    first = trace.spans[0]
    assert (first.process, first.track, first.name) == ("Ascend Hardware", "Stream 2", "MatMulV2")
    assert first.end == Decimal("1736405443881422.820")
    assert (len(trace.spans), trace.others) == (2, 3)
    assert trace.evidence is Evidence.NPU_MEASURED


def test_a_simulated_trace_is_modelled(tmp_path: Path) -> None:
    path = fixtures.write(tmp_path, {"trace.json": fixtures.SIMULATOR_TRACE}) / "trace.json"
    (trace,) = read_profile(path).traces
    assert (trace.evidence, trace.spans[0].track) == (Evidence.MODELLED, "VECTOR")


# ----------------------------------------------------------------------------------- what PATH is


def test_an_archive_reads_like_its_folder(tmp_path: Path) -> None:
    folder = fixtures.write(tmp_path / "tree", fixtures.ALL)
    with zipfile.ZipFile(tmp_path / "tree.zip", "w") as archive:
        for name in fixtures.ALL:
            archive.write(folder / name, name)
    unpacked, packed = read_profile(folder), read_profile(tmp_path / "tree.zip")
    assert [t.rows for t in unpacked.tables] == [t.rows for t in packed.tables]
    assert [k.folder for k in unpacked.kernels] == [k.folder for k in packed.kernels]
    assert packed.tables[0].file.startswith(f"{tmp_path / 'tree.zip'}/")


def test_a_single_file(tmp_path: Path) -> None:
    path = fixtures.write(tmp_path, {"PipeUtilization.csv": fixtures.PIPE}) / "PipeUtilization.csv"
    (kernel,) = read_profile(path).kernels
    assert kernel.info is None and len(kernel.rows(FileKind.PIPE)) == 4


@pytest.mark.parametrize(
    "files",
    [{}, {"notes.csv": "a,b\n1,2\n"}, {"x.json": "{}"}, {"y.csv": ""}, {"z.json": "[1, {}]"}],
)
def test_nothing_of_a_profiler(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_profile(fixtures.write(tmp_path, files))
    assert caught.value.code == "AI-PROF-020"


def test_a_file_that_is_named_is_read_whatever_it_is(tmp_path: Path) -> None:
    profile = read_profile(fixtures.write(tmp_path, {"x.csv": "a,b(us)\n1,2.5\nz,NA\n"}) / "x.csv")
    (table,) = profile.tables
    assert [dict(row) for row in table.rows] == [{"a": 1, "b_us": 2.5}, {"a": "z", "b_us": None}]
    assert [note.code for note in profile.notes] == ["AI-PROF-029"]


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AI-PROF-020"):
        read_profile(tmp_path / "nowhere")
