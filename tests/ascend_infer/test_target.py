"""`--target`, and settings that reach the threads of a script."""

from __future__ import annotations

import threading

import pytest

from ascend_infer.simulation import SimulationOptions, simulating
from ascend_infer.target import Target, compiling_for, parse_target
from kernels_npu.errors import UsageError
from kernels_npu.sim.config import configure, current_config
from kernels_npu.sim.frontend import tilelang


@pytest.mark.parametrize(
    "text, target",
    [
        ("pto", Target(code_generator="pto")),
        ("A5", Target(soc="Ascend950PR_9599")),
        ("pto,A5", Target(code_generator="pto", soc="Ascend950PR_9599")),
        ("910b3, ASCENDC", Target(soc="Ascend910B3")),
    ],
)
def test_a_target_is_a_code_generator_a_chip_or_both(text: str, target: Target):
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text, code",
    [("", "AI-CLI-001"), ("A2,A3", "AI-CLI-001"), ("pto,ascendc", "AI-CLI-001"),
     ("cuda", "AI-DEV-010")],
)  # fmt: skip
def test_other_targets_are_refused(text: str, code: str):
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.code == code


def test_auto_means_the_target_s_code_generator(vector_copy):
    with compiling_for(Target(code_generator="pto")):
        assert tilelang.compile(vector_copy, out_idx=[-1]).target == "pto"
        assert tilelang.compile(vector_copy, out_idx=[-1], target="ascendc").target == "ascendc"
    assert tilelang.compile(vector_copy, out_idx=[-1]).target == "ascendc"


@pytest.fixture
def vector_copy():
    from kernels_npu.sim.frontend import T

    @T.prim_func
    def main(A: T.Tensor((1, 64), "float32"), B: T.Tensor((1, 64), "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a = T.alloc_ub((1, 64), "float32")
            with T.Scope("V"):
                T.copy(A[0, 0], a)
                T.barrier_all()
                T.copy(a, B[0, 0])

    return main


def test_threads_of_a_script_run_under_its_options():
    seen = []
    before = current_config()
    with simulating(SimulationOptions(schedule="late", checks="off"), soc="Ascend910B3"):
        thread = threading.Thread(target=lambda: seen.append(current_config()))
        thread.start()
        thread.join()
        assert seen[0] == current_config()
        with configure(schedule="eager"):
            assert current_config().schedule == "eager"
    assert (seen[0].schedule, seen[0].soc, seen[0].checks.races) == ("late", "Ascend910B3", False)
    assert current_config() == before
