"""Counted bytes and operations beside the operators' formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer.operator_formulas import formula_sentences
from kernels_npu.evidence import Evidence
from kernels_npu.spec import all_specs
from profiling import read_profile
from profiling.manifest import Manifest
from tests.profiling import fixtures

COMMAND = ("msprof", "op", "python", "-m", "ascend_infer.operator_launch", "--op=rms_norm")
BASIC = fixtures.BASIC_INFO.splitlines()[0] + "\n{},mix,12.0,2,4,0,NA,1800,1800,\n"
MEMORY = (
    "block_id,sub_block_id,aiv_time(us),aic_time(us),read_main_memory_datas(KB),"
    "write_main_memory_datas(KB),aiv_main_mem_read_bw(GB/s)\n0,vector0,9,NA,{},0,NA\n"
)


def profile(folder: Path, name: str, moved: int, command: tuple[str, ...] = COMMAND) -> Path:
    files = {"OpBasicInfo.csv": BASIC.format(name), "Memory.csv": MEMORY.format(moved / 1024)}
    fixtures.write(folder, files)
    Manifest(evidence=Evidence.NPU_MEASURED, made_by="msprof op", command=command).write(folder)
    return folder


@pytest.mark.parametrize(("factor", "flagged"), [(1.0, False), (1.2, False), (1.5, True)])
def test_bytes_against_the_least(tmp_path: Path, factor: float, flagged: bool) -> None:
    spec = all_specs()["rms_norm"]
    workload = spec.workloads[0]
    least = spec.min_bytes(workload, "float16")
    folder = profile(tmp_path, "rms_norm_kernel_mix_aic", round(least * factor))
    (sentence,) = formula_sentences(read_profile(folder))
    assert f"{factor:.2f} times the {least:,} B" in sentence.text
    assert f"{spec.flops(workload):,} operations" in sentence.text
    assert workload.name in sentence.text and sentence.flagged == flagged
    assert [(r.key, r.value) for r in sentence.refs[1:]] == [
        ("min_bytes", least),
        ("flops", spec.flops(workload)),
    ]


def test_the_workload_and_dtype_of_the_command(tmp_path: Path) -> None:
    workload = all_specs()["rms_norm"].workloads[-1]
    more = (*COMMAND, "--case", workload.name, "--dtype=bfloat16", "--launches=3")
    (sentence,) = formula_sentences(read_profile(profile(tmp_path, "rms_norm", 1 << 20, more)))
    assert f"rms_norm, {workload.name}, bfloat16" in sentence.text


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("other_kernel", COMMAND),
        ("add_rms_norm_kernel_mix_aic", COMMAND),
        ("rms_norm_kernel_mix_aic", ("msprof", "op", "./app")),
        ("rms_norm_kernel_mix_aic", (*COMMAND[:-1], "--op=removed_operator")),
        ("rms_norm_kernel_mix_aic", (*COMMAND, "--case=removed")),
        ("rms_norm_kernel_mix_aic", COMMAND[:-1]),
        ("rms_norm_kernel_mix_aic", (*COMMAND[:-1], "--op")),
        ("rms_norm_kernel_mix_aic", (*COMMAND, "--dtype", "float3")),
    ],
)
def test_nothing_is_said_of_other_kernels_and_commands(
    tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    assert formula_sentences(read_profile(profile(tmp_path, name, 4096, command))) == []
