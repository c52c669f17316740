"""What is left to the stock host or ends the engine, loudly: texts, kernels, imports; and off."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.hosted.plugins import CANNOT_BE_BUILT, OTHER_TEXT, installed
from tests.vllm.test_modes import LAYERS

FULL = "FULL_DECODE_ONLY"
#: A kernel that fails from its launch number {launches} on, as a faulty one does.
FAILS_IN_THE_MIDDLE = """
def register():
    from kernels_npu.sim.machine import CompiledKernel
    launch, seen = CompiledKernel.launch, []

    def failing(kernel, *arguments, **options):
        if kernel.func.name == "{name}":
            seen.append(None)
            if len(seen) > {launches}:
                raise RuntimeError("vector core exception, error code is 507035")
        return launch(kernel, *arguments, **options)

    CompiledKernel.launch = failing
"""


def test_another_text_is_served_by_the_host(plugin, ours, stock, prompts):
    found = ours(FULL, [prompts], variables=plugin(OTHER_TEXT))
    assert found["tokens"] == [stock]
    assert found["plugin"]["layers"] == {} and not found["serving"]["replayed_launches"]
    for op in found["plugin"]["ops"].values():
        assert op["asked"] and "has another text" in op["refusal"]


def test_another_text_can_end_the_engine(plugin, ours_fails, prompts):
    variables = {**plugin(OTHER_TEXT), "ASCEND_INFER_VLLM_ON_REFUSAL": "stop"}
    assert "AI-VLLM-002" in ours_fails(FULL, [prompts], variables=variables)


@pytest.mark.parametrize(
    ("mode", "kernels", "failing"),
    [
        (FULL, ["paged_decode_attention", "fused_add_rms_norm"], {"attention", "rms_norm"}),
        (
            "PIECEWISE",
            ["split_qkv_rmsnorm_rope", "rotary_embedding"],
            {"qk_norm_rope", "rotary_embedding"},
        ),
    ],
)
def test_a_kernel_that_cannot_be_built_leaves_its_layers_to_the_host(
    mode, kernels, failing, plugin, ours, stock, prompts
):
    found = ours(mode, [prompts], variables=plugin(CANNOT_BE_BUILT.format(names=kernels)))
    assert found["tokens"] == [stock]
    for op, layers in found["plugin"]["layers"].items():
        if op in failing:
            assert OURS not in layers
            assert all("the compiler failed on " in reason for reason in layers)
        else:
            assert set(layers) == {OURS}
    attends = "attention" not in failing
    assert (OURS in found["plugin"]["attention_calls"]) == attends
    assert (found["serving"]["task_updates"] == 0) == attends  # the host's attention needs them


def test_a_kernel_that_cannot_be_built_can_end_the_engine(plugin, ours_fails, prompts):
    variables = {
        **plugin(CANNOT_BE_BUILT.format(names=["rms_norm"])),
        "ASCEND_INFER_VLLM_ON_REFUSAL": "stop",
    }
    log = ours_fails("eager", [prompts], variables=variables)
    assert "AI-VLLM-002: rms_norm cannot be replaced" in log
    assert "the compiler failed on rms_norm" in log


@pytest.mark.parametrize(
    ("mode", "name", "launches"),
    [("eager", "paged_decode_attention", 1 + 2 * LAYERS), ("PIECEWISE", "rms_norm", 20)],
)
def test_a_kernel_that_fails_in_the_middle_ends_generate(
    mode, name, launches, plugin, ours_fails, prompts
):
    """After the trials and the start: no answer for any of the prompts."""
    printed = ours_fails(
        mode, [prompts], variables=plugin(FAILS_IN_THE_MIDDLE.format(name=name, launches=launches))
    )
    assert "error code is 507035" in printed
    assert ", in generate" in printed  # of vllm.LLM, in the traceback


def test_an_import_that_fails_is_swallowed_by_vllm_and_told_by_status(
    ours, stock, prompts, environment, tmp_path
):
    broken = installed(tmp_path, "ascend-infer", "ascend_infer = not_there:register")
    found = ours(FULL, [prompts], variables=broken)
    assert found["tokens"] == [stock]
    assert not found["plugin"]["hooks_installed"] and found["plugin"]["layers"] == {}
    program = "from ascend_infer.cli import main; raise SystemExit(main(['vllm', 'status']))"
    asked = {**environment, **broken, "ASCEND_INFER_VLLM_OPS": "all"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=asked, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    says = "not_there:register cannot be imported: ModuleNotFoundError"
    assert says in " ".join(done.stdout.split())


def test_off_leaves_the_host_alone(ours, stock, prompts):
    found = ours(FULL, [prompts], ops="off")
    assert found["tokens"] == [stock]
    assert not found["plugin"]["hooks_installed"] and found["plugin"]["layers"] == {}
    assert not found["serving"]["replayed_launches"] and not found["serving"]["eager_launches"]
