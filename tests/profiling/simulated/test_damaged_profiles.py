"""A profile of which one file is damaged: the rest is analysed, nothing raises."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from profiling import read_profile
from tests.profiling import fixtures
from tests.profiling.files.test_damage import mutated, refusal

#: In miniature: two launches with everything that a roofline needs, and the pipes' trace.
TREE = {
    "ascend_infer_manifest.json": (
        '{"evidence":"simulated","made_by":"simulated NPU","settings":{"soc":"Ascend910B2"}}\n'
    ),
    "k/0/OpBasicInfo.csv": (
        "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,"
        "Rated Freq,Task Cycles,\nk,mix,NA,2,4,NA,NA,NA,1800,5000,\n"
    ),
    "k/0/PipeUtilization.csv": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_scalar_cycles,aiv_time(us),"
        "aiv_total_cycles,aiv_vec_cycles,aiv_mte2_cycles,\n"
        "0,vector0,NA,NA,NA,NA,4000,900,3900,\n1,vector0,NA,NA,NA,NA,5000,100,4700,\n"
    ),
    "k/0/ArithmeticUtilization.csv": (
        "block_id,sub_block_id,aic_time(us),aic_cube_fp16_ratio,aic_cube_fops,aiv_vec_fp32_ratio,"
        "aiv_vec_fops,\n0,cube0,NA,0.5,8192,NA,NA,\n0,vector0,NA,NA,NA,0.25,640,\n"
    ),
    "k/0/Memory.csv": (
        "block_id,sub_block_id,aic_time(us),aiv_time(us),aiv_mte2_instructions,GM_to_UB_datas(KB),"
        "UB_to_GM_datas(KB),\n0,vector0,NA,NA,40,12.5,0.25,\n"
    ),
    "trace.json": (
        '{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"k #0 block 0 '
        'AIV0"}},\n{"ph":"X","pid":1,"tid":"MTE2","ts":0,"dur":40,"name":"copy",'
        '"cat":"instruction"},\n{"ph":"X","pid":1,"tid":"V","ts":20,"dur":30,"name":"add",'
        '"cat":"instruction"}]}\n'
    ),
}
MUTATIONS = int(os.environ.get("ASCEND_INFER_PROFILE_MUTATIONS", "300"))


def test_the_tree_is_one_that_analysis_has_much_to_say_about(tmp_path: Path) -> None:
    from profiling import analysis

    profile = read_profile(fixtures.write(tmp_path, TREE))
    chip = analysis.chip_of(profile)
    (kernel,) = profile.kernels
    topics = {sentence.topic for sentence in analysis.kernel_sentences(kernel, chip)}
    assert topics >= {"roofline", "verdict", "cores", "bound", "overlap", "balance", "packets"}
    assert [s.topic for s in analysis.trace_sentences(profile.traces[0])] == ["overlap"]
    assert profile.notes == ()


@pytest.mark.parametrize("seed", [7, 8])
def test_no_mutation_raises(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    fixtures.write(tmp_path, TREE)
    names = sorted(TREE)
    for number in range(MUTATIONS // 2):
        name = names[number % len(names)]
        (tmp_path / name).write_bytes(mutated(TREE[name].encode(), chance))
        assert refusal(tmp_path) in ("", "AI-PROF-033")
        (tmp_path / name).write_bytes(TREE[name].encode())
