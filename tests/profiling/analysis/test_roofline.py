"""Traffic, rooflines and core usage against numbers worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernels_npu.evidence import Evidence
from profiling import read_profile
from profiling.analysis import Sentence, kernel_sentences, roofline_of, traffic_of
from profiling.devices import Chip, get_chip
from profiling.manifest import Manifest
from profiling.records import OpProfile
from tests.profiling import fixtures

CHIP = "Ascend910B2"
_BASIC = fixtures.BASIC_INFO.splitlines()[0] + "\n"
_MEMORY = (
    "block_id,sub_block_id,aic_time(us),aic_mte2_instructions,aiv_time(us),aiv_mte2_instructions,"
    "aiv_mte3_instructions,read_main_memory_datas(KB),write_main_memory_datas(KB),"
    "GM_to_L1_datas(KB),GM_to_UB_datas(KB),UB_to_GM_datas(KB),L1_to_GM_datas(KB)(estimate)\n"
)
_ARITHMETIC = (
    "block_id,sub_block_id,aic_time(us),aic_cube_fp16_ratio,aic_cube_int8_ratio,aic_cube_fops,"
    "aiv_time(us),aiv_vec_fp32_ratio,aiv_vec_fp16_ratio,aiv_vec_fops\n"
)
_PIPE = "block_id,sub_block_id,aic_time(us),aiv_time(us),aiv_vec_time(us),aiv_mte2_time(us)\n"


def basic(duration: str = "12.0", kind: str = "mix", blocks: int = 2) -> str:
    return f"{_BASIC}k,{kind},{duration},{blocks},NA,0,NA,1800,1800,\n"


def kernel(folder: Path, **files: str) -> OpProfile:
    named = {f"{name}.csv": text for name, text in files.items()}
    (found,) = read_profile(fixtures.write(folder, named)).kernels
    return found


def said(found: OpProfile, chip: Chip | None = None) -> dict[str, Sentence]:
    return {
        sentence.topic: sentence for sentence in kernel_sentences(found, chip or get_chip(CHIP))
    }


def test_main_memory_counts_where_the_file_has_it(tmp_path: Path) -> None:
    rows = (
        "0,cube0,4,1,NA,NA,NA,2.5,0.5,2,NA,NA,0.25\n0,vector0,NA,NA,9,2,2,130.5,64,NA,128,64,NA\n"
    )
    traffic = traffic_of(kernel(tmp_path / "a", Memory=_MEMORY + rows))
    assert traffic is not None
    assert (traffic.read, traffic.written) == (133 * 1024, 64.5 * 1024)
    assert traffic.paths == {
        "gm_to_l1": 2048, "gm_to_ub": 131072, "ub_to_gm": 65536, "l1_to_gm": 256,
    }  # fmt: skip
    assert [f.value for f in traffic.refs] == [130.5, 64]
    without = rows.replace("2.5,0.5", "NA,NA").replace("130.5,64,", "NA,NA,")
    paths = traffic_of(kernel(tmp_path / "b", Memory=_MEMORY + without))
    assert paths is not None
    assert (paths.read, paths.written) == (130 * 1024, 64.25 * 1024)
    assert traffic_of(kernel(tmp_path / "c", OpBasicInfo=basic())) is None


def test_bandwidths_stand_for_bytes_where_there_are_no_volumes(tmp_path: Path) -> None:
    """The figures of a vector addition on a 910B2, whose file says 130.5 and 64.125 KiB as well."""
    memory = (
        "block_id,sub_block_id,aic_time(us),aiv_time(us),aiv_main_mem_read_bw(GB/s),"
        "aiv_main_mem_write_bw(GB/s),\n0,vector0,NA,5.068889,15.595801,7.663455,\n"
    )
    mix = traffic_of(kernel(tmp_path / "a", OpBasicInfo=basic("7.98"), Memory=memory))
    assert mix is not None and mix.paths == {}
    assert mix.read == pytest.approx(130.5 * 1024, rel=1e-6)
    assert mix.written == pytest.approx(64.125 * 1024, rel=1e-6)
    assert [ref.value for ref in mix.refs] == [15.595801, 7.663455]
    # on one kind of core alone the rate is that of the core's own time
    info = basic("7.98", kind="vector")
    alone = traffic_of(kernel(tmp_path / "b", OpBasicInfo=info, Memory=memory))
    assert alone is not None
    assert alone.read == pytest.approx(15.595801 * 2**30 * 5.068889e-6)


def test_bounds_of_a_device_file_are_times(tmp_path: Path) -> None:
    chip = get_chip(CHIP)
    memory = "0,vector0,NA,NA,9,2,2,1000,500,NA,1000,500,NA\n"
    work = "0,cube0,4,0.5,0,8192000,NA,NA,NA,NA\n0,vector0,NA,NA,NA,NA,9,0.5,0,640000\n"
    found = kernel(
        tmp_path, OpBasicInfo=basic(), Memory=_MEMORY + memory,
        ArithmeticUtilization=_ARITHMETIC + work,
    )  # fmt: skip
    roofline = roofline_of(found, chip)
    assert roofline is not None and roofline.unit == "us"
    bounds = {ceiling.unit: ceiling.bound for ceiling in roofline.ceilings}
    assert chip.memory_bandwidth is not None
    assert bounds["memory"] == pytest.approx(1500 * 1024 / chip.memory_bandwidth.value * 1e6)
    assert bounds["cube"] == pytest.approx(8192000 / (24 * 8192 * 1800e6) * 1e6)
    assert bounds["vector"] == pytest.approx(640000 / (48 * 64 * 1800e6) * 1e6)
    assert roofline.intensity == pytest.approx((8192000 + 640000) / (1500 * 1024))
    assert roofline.usage == pytest.approx(bounds["memory"] / 12)
    assert roofline.achieved == pytest.approx((8192000 + 640000) / 12)
    sentence = said(found)["roofline"]
    assert "1,536,000 B of global memory" in sentence.text and CHIP in sentence.text
    assert "1.75e+12 B/s (vendor-reported: msopprof" in sentence.rule
    bound = next(ref for ref in sentence.refs if ref.key == "memory_bound")
    assert (bound.unit, bound.evidence) == ("us", Evidence.MODELLED)


@pytest.mark.parametrize(
    ("duration", "core", "verdict"),
    [
        ("1.0", (1.0, 0.1, 0.2), "memory bound"),
        ("12.0", (10.0, 1.0, 9.0), "latency bound, caused by memory, mte2 90% active"),
        ("12.0", (10.0, 9.0, 1.0), "latency bound, caused by computing, vec 90% active"),
        ("12.0", (10.0, 2.0, 7.0), "latency bound, caused by the pipeline, in which no pipe"),
    ],
)  # fmt: skip
def test_verdicts_of_the_vendors_rules(
    tmp_path: Path, duration: str, core: tuple[float, float, float], verdict: str
) -> None:
    memory = "0,vector0,NA,NA,9,2,2,1000,500,NA,1000,500,NA\n"
    pipe = f"0,vector0,NA,{core[0]},{core[1]},{core[2]}\n"
    sentence = said(
        kernel(
            tmp_path,
            OpBasicInfo=basic(duration),
            Memory=_MEMORY + memory,
            PipeUtilization=_PIPE + pipe,
        )
    )["verdict"]
    assert verdict in sentence.text
    assert sentence.flagged == ("latency" in verdict)
    assert {"task_duration_us", "memory_bound"} <= {ref.key for ref in sentence.refs}


def test_scalar_code_is_no_cause(tmp_path: Path) -> None:
    """A pipe of data or of arithmetic has to be busy; the scalar unit always is something."""
    memory = "0,vector0,NA,NA,9,2,2,1000,500,NA,1000,500,NA\n"
    pipe = _PIPE.rstrip("\n") + ",aiv_scalar_time(us)\n0,vector0,NA,10.0,2.0,7.0,9.5\n"
    files = {"OpBasicInfo": basic(), "Memory": _MEMORY + memory, "PipeUtilization": pipe}
    verdict = said(kernel(tmp_path, **files))["verdict"]
    assert "no pipe is active over 80% (mte2 70% active)" in verdict.text


def test_compute_bound_and_what_the_l2_served(tmp_path: Path) -> None:
    work = f"0,cube0,4,0.9,0,{24 * 8192 * 1800 * 9},NA,NA,NA,NA\n"
    memory = "0,cube0,4,1,NA,NA,NA,1000,500,1000,NA,NA,NA\n"
    files = {"Memory": _MEMORY + memory, "ArithmeticUtilization": _ARITHMETIC + work}
    compute = said(kernel(tmp_path / "a", OpBasicInfo=basic("10.0"), **files))["verdict"]
    assert compute.text.startswith(
        "compute bound by the cube: 318.5 TFLOP/s of 353.9 TFLOP/s (90.0%), the cube bound is 9.000"
    )
    del files["ArithmeticUtilization"]
    cached = said(kernel(tmp_path / "b", OpBasicInfo=basic("0.5"), **files))
    assert "the L2 served the rest" in cached["verdict"].text
    assert "without counted operations computing is unknown" in cached["roofline"].text
    assert "per byte" not in cached["roofline"].text


def test_more_than_the_chip_can_compute_asks_for_a_look(tmp_path: Path) -> None:
    """A launch that is twice as fast as the cubes is of another chip, and no good one."""
    work = f"0,cube0,4,0.9,0,{24 * 8192 * 1800 * 20},NA,NA,NA,NA\n"
    memory = "0,cube0,4,1,NA,NA,NA,1000,500,1000,NA,NA,NA\n"
    files = {"Memory": _MEMORY + memory, "ArithmeticUtilization": _ARITHMETIC + work}
    verdict = said(kernel(tmp_path, OpBasicInfo=basic("10.0"), **files))["verdict"]
    assert verdict.flagged and "(200.0%)" in verdict.text
    assert "more than Ascend910B2 can: is it the chip?" in verdict.text


def test_simulated_bounds_are_cycles_and_never_times(tmp_path: Path) -> None:
    header = _BASIC.rstrip("\n") + "Task Cycles,\n"
    Manifest(evidence=Evidence.SIMULATED, made_by="simulated NPU").write(tmp_path)
    found = kernel(
        tmp_path,
        OpBasicInfo=f"{header}k,mix,NA,2,4,NA,NA,NA,1800,5000,\n",
        Memory=_MEMORY + "0,vector0,NA,NA,NA,2,2,NA,NA,NA,1000,500,NA\n",
    )
    chip = get_chip(CHIP)
    roofline = roofline_of(found, chip)
    assert roofline is not None and chip.memory_bandwidth is not None
    cycles = 1500 * 1024 / (chip.memory_bandwidth.value / 1800e6)
    assert (roofline.unit, roofline.highest.bound) == ("cycles", pytest.approx(cycles))
    assert roofline.usage == pytest.approx(cycles / 5000)
    for sentence in kernel_sentences(found, chip):
        assert not re.search(r"\bus\b", sentence.text), sentence.text
        assert all(ref.unit != "us" for ref in sentence.refs)


def test_no_roofline_without_a_chip_or_its_bandwidth(tmp_path: Path) -> None:
    memory = "0,vector0,NA,NA,9,2,2,1000,500,NA,1000,500,NA\n"
    found = kernel(tmp_path, OpBasicInfo=basic(), Memory=_MEMORY + memory)
    assert not {"roofline", "verdict", "cores"} & {s.topic for s in kernel_sentences(found)}


@pytest.mark.parametrize(
    ("kind", "blocks", "text", "flagged"),
    [
        ("mix", 24, "24 blocks on 24 cores of Ascend910B2: 0 idle; 100% of", False),
        ("mix", 25, "2 rounds, 1 busy in the last; 52% of", True),
        ("mix", 40, "2 rounds, 16 busy in the last; 83% of", False),
        ("vector", 40, "40 blocks on 48 vector cores of Ascend910B2: 8 idle; 83% of", False),
        ("cube", 3, "3 blocks on 24 cores of Ascend910B2: 21 idle; 12% of", True),
    ],
)
def test_blocks_against_cores(
    tmp_path: Path, kind: str, blocks: int, text: str, flagged: bool
) -> None:
    sentence = said(kernel(tmp_path, OpBasicInfo=basic(kind=kind, blocks=blocks)))["cores"]
    assert text in sentence.text and sentence.flagged == flagged
    assert sentence.refs[0].value == blocks


@pytest.mark.parametrize(("count", "small"), [(7, False), (255, False), (257, True)])
def test_small_packets(tmp_path: Path, count: int, small: bool) -> None:
    memory = f"0,vector0,NA,NA,9,{count},1,NA,NA,NA,127.5,64,NA\n"
    told = said(kernel(tmp_path, Memory=_MEMORY + memory))
    assert ("packets" in told) == small
    if small:
        assert f"130,560 B in {count} mte2 instructions, 508 B each" in told["packets"].text
