"""Every set and every wait of the row kernels is needed: without it the simulator finds a fault.

The kernel's text is changed, one line at a time, and run on more rows than there are vector cores
times slots, so that every slot is used again. Attention has its own tests of the same kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from kernels_npu.activation import silu_and_mul
from kernels_npu.kv_cache import reshape_and_cache
from kernels_npu.normalization import add_rms_norm, rms_norm
from kernels_npu.rotary import (
    half_split,
    interleaved,
    rotary_embedding,
    split_qkv_rmsnorm_rope,
)
from kernels_npu.spec import Workload, all_specs
from tests.kernels_npu.source_edits import synchronisation_lines, without_line

Launch = Callable[[ModuleType, pytest.MonkeyPatch, dict[str, Any]], object]


def operator(name: str) -> Launch:
    """Calls the public function of the changed operator file."""
    return lambda module, _patch, inputs: getattr(module, name)(**inputs)


def rotary(factory: str) -> Launch:
    """Puts the changed kernel under the unchanged operator."""

    def launch(module: ModuleType, patch: pytest.MonkeyPatch, inputs: dict[str, Any]) -> object:
        build = functools.cache(getattr(module, f"{factory}_kernel"))
        patch.setattr(rotary_embedding, f"_compiled_{factory}", build)
        return rotary_embedding.rotary_embedding(**inputs)

    return launch


ROTARY = {"tokens": 100, "q_heads": 3, "kv_heads": 2, "head_dim": 64}
#: The kernel's file, how it is launched, its operator, and sizes.
KERNELS: dict[str, tuple[ModuleType, Launch, str, dict[str, Any]]] = {
    "rms_norm": (rms_norm, operator("rms_norm"), "rms_norm", {"rows": 200, "hidden": 64}),
    "rms_norm-padded": (rms_norm, operator("rms_norm"), "rms_norm", {"rows": 150, "hidden": 16336}),
    "add_rms_norm": (
        add_rms_norm,
        operator("add_rms_norm"),
        "add_rms_norm",
        {"rows": 200, "hidden": 64},
    ),
    "add_rms_norm-one-slot": (
        add_rms_norm,
        operator("add_rms_norm"),
        "add_rms_norm",
        {"rows": 100, "hidden": 8208},
    ),
    "silu_and_mul": (
        silu_and_mul,
        operator("silu_and_mul"),
        "silu_and_mul",
        {"rows": 200, "inter": 64},
    ),
    "reshape_and_cache": (
        reshape_and_cache,
        operator("reshape_and_cache"),
        "reshape_and_cache",
        {"tokens": 200, "kv_heads": 2, "head_dim": 32, "block_size": 16},
    ),
    "half_split": (half_split, rotary("half_split"), "rotary_embedding", ROTARY),
    "interleaved": (
        interleaved,
        rotary("interleaved"),
        "rotary_embedding",
        {**ROTARY, "interleaved": True},
    ),
    "split_qkv_rmsnorm_rope": (
        split_qkv_rmsnorm_rope,
        operator("split_qkv_rmsnorm_rope"),
        "split_qkv_rmsnorm_rope",
        {**ROTARY, "rotary_dim": 32},
    ),
}
LINES = [
    pytest.param(name, line, id=f"{name}:{line + 1}:{text[2:40]}")
    for name, (module, *_) in KERNELS.items()
    for line, text in synchronisation_lines(module).items()
]


def inputs(name: str) -> dict[str, Any]:
    _, _, op, dims = KERNELS[name]
    workload = Workload(name="synchronisation", dims=dims)
    generator = torch.Generator().manual_seed(0)
    return all_specs()[op].make_inputs(workload, torch.float16, "npu", generator)


@pytest.mark.parametrize("name", KERNELS)
def test_the_complete_kernel_is_clean(name, npu, monkeypatch, tmp_path):
    from kernels_npu.sim.reporting import collect_report

    module, launch, *_ = KERNELS[name]
    with collect_report() as report:
        launch(without_line(module, None, tmp_path), monkeypatch, inputs(name))
    assert report.findings == ()
    assert len(report.kernels) == 1


@pytest.mark.parametrize(("name", "line"), LINES)
def test_without_a_set_or_a_wait_a_fault_is_found(name, line, npu, monkeypatch, tmp_path):
    from kernels_npu.sim.machine import HazardError

    module, launch, *_ = KERNELS[name]
    twin = without_line(module, line, tmp_path)
    with pytest.raises(HazardError) as caught:
        launch(twin, monkeypatch, inputs(name))
    assert caught.value.code.startswith(("AI-RACE", "AI-SYNC"))
    assert f"_without_{line}.py:" in str(caught.value)


ATTENTION = {"q_heads": 9, "kv_heads": 3, "head_dim": 64, "block_size": 128, "seq_lens": (600,)}
LAUNCHES = {
    **{name: (op, dims) for name, (_, _, op, dims) in KERNELS.items()},
    "attention": ("paged_decode_attention", ATTENTION),
    "attention-slices": (
        "paged_decode_attention",
        {**ATTENTION, "q_heads": 2, "kv_heads": 1, "head_dim": 192},
    ),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_no_deleted_pair_half_or_barrier_survives(name, npu):
    """Deleted in the parsed kernel; what is not found is redundant by the happens-before graph."""
    from kernels_npu import ops
    from kernels_npu.sim.mutation.capture import Recorder, observing
    from kernels_npu.sim.mutation.trial import FOUND, NOT_REACHED, REDUNDANT, Trial
    from kernels_npu.sim.mutation.worker import judge_trials

    op, dims = LAUNCHES[name]
    workload = Workload(name="deletions", dims=dims)
    tensors = all_specs()[op].make_inputs(
        workload, torch.float16, "npu", torch.Generator().manual_seed(0)
    )
    recorder = Recorder(patience=3600.0)
    with observing(recorder):
        getattr(ops, op)(**tensors)
    verdicts = judge_trials([Trial(c) for kept in recorder.launches.values() for c in kept])
    assert verdicts
    for deletion, verdict in verdicts:
        # The one barrier of a single pipe is needed where products are small, or not executed.
        barrier = deletion.kind == "barrier"
        allowed = {FOUND, REDUNDANT, NOT_REACHED} if barrier else {FOUND}
        assert verdict.outcome in allowed, f"{deletion}: {verdict}"
