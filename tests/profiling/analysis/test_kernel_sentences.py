"""Each sentence about a kernel: said of the one that has the trouble, not of its clean twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling import read_profile
from profiling.analysis import Sentence, kernel_sentences
from tests.profiling import fixtures

_PIPE = (
    "block_id,sub_block_id,aic_time(us),aiv_time(us),aiv_vec_time(us),aiv_vec_ratio,"
    "aiv_scalar_time(us),aiv_mte2_time(us),aiv_mte2_ratio,aiv_icache_miss_rate\n"
)


def basic(kind: str = "vector", current: int = 1800, blocks: int = 2) -> str:
    header = fixtures.BASIC_INFO.splitlines()[0]
    return f"{header}\nk,{kind},12.0,{blocks},NA,0,NA,{current},1800,\n"


def pipes(*cores: tuple[float, float, float, float], divisor: float = 0) -> str:
    """Rows of (time, vector, scalar, mte2); ratios of the divisor, or of the core's time."""
    lines = [
        f"{block},vector0,NA,{time},{vec},{vec / (divisor or time):.6f},{scalar},{mte2},"
        f"{mte2 / (divisor or time):.6f},0.0"
        for block, (time, vec, scalar, mte2) in enumerate(cores)
    ]
    return _PIPE + "\n".join(lines) + "\n"


def said(folder: Path, **files: str) -> dict[str, Sentence]:
    named = {f"{name}.csv": text for name, text in files.items()}
    (kernel,) = read_profile(fixtures.write(folder, named)).kernels
    sentences = kernel_sentences(kernel)
    assert all(sentence.refs for sentence in sentences)
    return {sentence.topic: sentence for sentence in sentences}


@pytest.mark.parametrize(("current", "slow"), [(1800, False), (1710, False), (1709, True)])
def test_clock(tmp_path: Path, current: int, slow: bool) -> None:
    sentences = said(tmp_path, OpBasicInfo=basic(current=current))
    assert ("clock" in sentences) == slow
    if slow:
        assert [ref.value for ref in sentences["clock"].refs] == [1709, 1800]
        assert "94.9% of their rated frequency: what their clock decides takes 5.3% longer" in (
            sentences["clock"].text
        )


@pytest.mark.parametrize(
    ("core", "cause", "flagged"),
    [
        ((10.0, 1.0, 2.0, 9.0), "mte2 was active 90.0% of the cores' time; moving data", True),
        ((10.0, 9.5, 2.0, 9.0), "vec was active 95.0% of the cores' time; computing", True),
        ((10.0, 1.0, 8.5, 2.0), "scalar was active 85.0% of the cores' time; scalar code", True),
        ((10.0, 3.0, 2.0, 8.0), "mte2 was active 80.0% of the cores' time; no pipe", False),
    ],
)
def test_bound(
    tmp_path: Path, core: tuple[float, float, float, float], cause: str, flagged: bool
) -> None:
    bound = said(tmp_path, PipeUtilization=pipes(core))["bound"]
    assert cause in bound.text
    assert bound.flagged == flagged
    assert bound.refs[0].where.line == 2


def test_the_cores_that_run_longest_decide(tmp_path: Path) -> None:
    """The cube cores' mte2 is idle and the scalar pipe busy, in a task of the vector cores."""
    text = fixtures.PIPE.replace("4.000000,6600", "2.000000,3300").replace("4.400000", "2.200000")
    files = {"OpBasicInfo.csv": fixtures.BASIC_INFO, "PipeUtilization.csv": text}
    (kernel,) = read_profile(fixtures.write(tmp_path, files)).kernels
    vector, cube = (s for s in kernel_sentences(kernel) if s.topic == "bound")
    assert vector.text.startswith("vector cores: mte2") and vector.flagged
    assert cube.text.startswith("cube cores: scalar") and not cube.flagged


def test_chips_with_one_kind_of_core_have_ai_cores(tmp_path: Path) -> None:
    """The files of 310P have no blocks, and vector pipes in the columns of the cube cores."""
    pipe = (
        "aic_time(us),aic_cube_time(us),aic_vec_time(us),aic_mte2_time(us)\n100.0,5.0,90.0,20.0\n"
    )
    rate = "aic_l2_cache_hit_rate(%)\n37.5\n"
    told = said(tmp_path, OpBasicInfo=basic("AiCore"), PipeUtilization=pipe, L2Cache=rate)
    assert told["bound"].text.startswith("AI cores: vec was active 90.0%")
    assert told["L2"].text.startswith("AI cores: L2 hit rates of 1 cores between 37.5")


def test_hit_rates_of_reads_and_of_writes_are_called_so(tmp_path: Path) -> None:
    header = "block_id,sub_block_id,aic_time(us),aic_read_hit_rate(%),aic_write_hit_rate(%)\n"
    files = {"L2Cache.csv": header + "0,cube0,5.0,66.6,77.7\n1,cube0,5.0,60.0,NA\n"}
    (kernel,) = read_profile(fixtures.write(tmp_path, files)).kernels
    assert [s.text for s in kernel_sentences(kernel) if s.topic == "L2"] == [
        "cube cores: L2 read hit rates of 2 cores between 60.0 and 66.6%",
        "cube cores: L2 write hit rates of 1 cores between 77.7 and 77.7%",
    ]


def test_overlap_is_what_the_sum_proves(tmp_path: Path) -> None:
    more = said(tmp_path / "a", PipeUtilization=pipes((10.0, 6.0, 1.0, 7.5)))["overlap"]
    less = said(tmp_path / "b", PipeUtilization=pipes((10.0, 3.0, 1.0, 4.5)))["overlap"]
    assert "13.500 us in 10.000 us: at least 3.500 us of it overlap" in more.text
    assert "for at least 2.500 us none of them was active" in less.text
    assert {ref.key for ref in more.refs} >= {"aiv_vec_time_us", "aiv_mte2_time_us"}


def test_balance(tmp_path: Path) -> None:
    cores = [(time, 1.0, 1.0, 1.0) for time in (10.0, 9.1, 8.9)]
    even = said(tmp_path / "a", PipeUtilization=pipes(*cores[:2]))["balance"]
    wide = said(tmp_path / "b", PipeUtilization=pipes(*cores))["balance"]
    assert (even.flagged, wide.flagged) == (False, True)
    assert "between 8.900 us and 10.000 us, 9.333 us on average" in wide.text
    assert [ref.value for ref in wide.refs] == [10.0, 8.9]


def test_blocks_that_the_file_does_not_have_are_told(tmp_path: Path) -> None:
    two = pipes((10.0, 1.0, 1.0, 1.0), (10.0, 1.0, 1.0, 1.0))
    whole = said(tmp_path / "a", OpBasicInfo=basic(blocks=2), PipeUtilization=two)
    part = said(tmp_path / "b", OpBasicInfo=basic(blocks=40), PipeUtilization=two)
    assert "only" not in whole["balance"].text
    assert "has 2 of the task's blocks only" in part["balance"].text


def test_ratios_of_a_mix_kernel(tmp_path: Path) -> None:
    of_task = pipes((6.0, 1.0, 1.0, 4.5), divisor=12)
    of_core = pipes((6.0, 1.0, 1.0, 4.5))
    trap = said(tmp_path / "a", OpBasicInfo=basic("mix"), PipeUtilization=of_task)["ratios"]
    assert "aiv_mte2_ratio is 0.375" in trap.text
    assert "divided by 12.000 us; of the core's own 6.000 us it is 75.0%" in trap.text
    scaled = said(tmp_path / "b", OpBasicInfo=basic("mix"), PipeUtilization=of_core)
    alone = said(tmp_path / "c", OpBasicInfo=basic("vector"), PipeUtilization=of_task)
    assert "ratios" not in scaled and "ratios" not in alone


def test_cache(tmp_path: Path) -> None:
    files = {"L2Cache.csv": fixtures.L2}
    (kernel,) = read_profile(fixtures.write(tmp_path, files)).kernels
    cube, vector = kernel_sentences(kernel)
    assert "cube cores: L2 hit rates of 1 cores between 79.0" in cube.text
    assert [ref.value for ref in vector.refs] == [4.5, 4.5]


@pytest.mark.parametrize(("ratio", "many"), [(0.02, False), (0.31, True)])
def test_conflicts(tmp_path: Path, ratio: float, many: bool) -> None:
    text = f"block_id,sub_block_id,aic_time(us),aiv_vec_total_cflt_ratio\n0,vector0,NA,{ratio}\n"
    sentences = said(tmp_path, ResourceConflictRatio=text)
    assert ("conflicts" in sentences) == many


def test_the_kind_of_conflict_is_named(tmp_path: Path) -> None:
    text = (
        "block_id,sub_block_id,aic_time(us),aiv_vec_total_cflt_ratio,aiv_vec_bankgroup_cflt_ratio,"
        "aiv_vec_bank_cflt_ratio,aiv_vec_mte_cflt_ratio\n"
        "0,vector0,NA,0.2,0.2,0.0,0.0\n0,vector1,NA,0.4,0.1,0.25,0.05\n"
    )
    conflicts = said(tmp_path, ResourceConflictRatio=text)["conflicts"]
    assert (
        "40.0% of the time vector instructions waited for UB, 25.0% for operands in one bank"
        in (conflicts.text)
    )
    assert [(ref.value, ref.where.line) for ref in conflicts.refs] == [(0.4, 3), (0.25, 3)]


def test_cycles_take_the_place_of_times_that_are_not_there(tmp_path: Path) -> None:
    pipe = (
        "block_id,sub_block_id,aic_time(us),aiv_time(us),aiv_total_cycles,aiv_vec_cycles,"
        "aiv_mte2_cycles,aic_scalar_cycles\n"
        "0,vector0,NA,NA,1000,300,900,NA\n1,vector0,NA,NA,2000,200,1900,NA\n"
    )
    sentences = said(tmp_path, PipeUtilization=pipe)
    assert "mte2 was active 93.3% of the cores' time" in sentences["bound"].text
    assert "vec + mte2 add up to 2,100 cycles in 2,000 cycles: at least 100 cycles" in (
        sentences["overlap"].text
    )
    assert "between 1,000 cycles and 2,000 cycles, 1,500 cycles on average" in (
        sentences["balance"].text
    )
