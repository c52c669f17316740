"""A kernel is built once, before its layer serves; one that cannot be built is a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ascend_infer.vllm_plugin import hooks, trial
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.settings import OnRefusal, Settings
from kernels_npu import ops, registry
from kernels_npu.errors import EnvironmentProblem
from kernels_npu.sim import machine
from kernels_npu.sim.device.setup import enable

HALF = (torch.float16, torch.float16)
HEADS, DIM, EPS = (3, 3), 32, 3e-4
#: Each trial with arguments of no other test: a kernel that was built once is not built again.
TRIALS: dict[str, Callable[[], str | None]] = {
    "rms_norm": lambda: trial.rms_norm(208, EPS, torch.float16, npu()),
    "rotary_embedding": lambda: trial.rotary_embedding(HEADS, DIM, True, DIM, HALF, npu()),
    "qk_norm_rope": lambda: trial.qk_norm_rope(HEADS, DIM, DIM, EPS, HALF, npu()),
    "attention": lambda: trial.attention(HEADS, DIM, 32, EPS, HALF, npu()),
}


def npu() -> torch.device:
    """A device that torch knows once the simulated one is there."""
    return torch.device("npu", 0)


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape).half().to("npu")


def calls_of(rows: int) -> dict[str, Callable[[], object]]:
    """What the layers call, for any number of rows."""
    positions = torch.zeros(rows, dtype=torch.int64).to("npu")
    x, weight, angles = half(rows, 208), half(208), half(9, DIM)
    heads, norm = half(rows, HEADS[0], DIM), half(DIM)
    cache, qkv = half(4, 32, HEADS[1], DIM), half(rows, 9 * DIM)
    table = torch.arange(4, dtype=torch.int32).expand(rows, 4).contiguous().to("npu")
    lengths = torch.full((rows,), 70, dtype=torch.int32).to("npu")
    return {
        "rms_norm": lambda: (
            ops.rms_norm(x, weight, EPS),
            ops.fused_add_rms_norm(x, x, weight, EPS),
        ),
        "rotary_embedding": lambda: ops.rotary_embedding(
            positions, heads, heads.clone(), angles, True
        ),
        "qk_norm_rope": lambda: ops.split_qkv_rmsnorm_rope(
            qkv, norm, norm, EPS, positions, angles, *HEADS
        ),
        "attention": lambda: ops.paged_decode_attention(heads, cache, cache, table, lengths, EPS),
    }


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What was compiled; with `fails` nothing can be."""
    enable()
    found = SimpleNamespace(names=[], fails=False, config=SimpleNamespace(additional_config={}))
    build = machine.compile_kernel

    def compile_kernel(func: Any, **options: Any) -> Any:
        if found.fails:
            raise RuntimeError(f"bisheng: error in {func.name}\nand more lines")
        found.names.append(func.name)
        return build(func, **options)

    monkeypatch.setattr(machine, "compile_kernel", compile_kernel)
    monkeypatch.setattr(hooks, "current_config", lambda: found.config)
    _forget()
    yield found
    _forget()


def _forget() -> None:
    for name in TRIALS:
        getattr(trial, name).cache_clear()


@pytest.mark.parametrize("name", TRIALS)
def test_what_cannot_be_built_is_a_reason_and_in_the_configuration(
    name: str, compiler: Any
) -> None:
    compiler.fails = True
    reason = TRIALS[name]()
    assert reason is not None and TRIALS[name]() == reason
    assert reason.startswith("its kernel cannot be built: RuntimeError: bisheng: error in ")
    assert "\n" not in reason
    # By which vLLM keeps compiled graphs: one with our operator in it is not found.
    assert compiler.config.additional_config == {"ascend_infer_not_built": [name]}


@pytest.mark.parametrize("name", TRIALS)
def test_it_can_end_the_process(name: str, compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.fails = True
    monkeypatch.setattr(decision(), "settings", Settings(on_refusal=OnRefusal.STOP))
    with pytest.raises(EnvironmentProblem, match=f"AI-VLLM-002: {name} cannot be replaced") as got:
        TRIALS[name]()
    assert isinstance(got.value.__cause__, RuntimeError)


@pytest.mark.parametrize("name", TRIALS)
def test_after_the_trial_no_number_of_rows_builds_anything(name: str, compiler: Any) -> None:
    with registry.strict():
        assert TRIALS[name]() is None
        built = list(compiler.names)
        assert len(built) == (2 if name == "rms_norm" else 1)
        for rows in (1, 2, 7, 48, 113):
            calls_of(rows)[name]()
    assert compiler.names == built


@pytest.mark.parametrize(
    "size, dtypes", [(DIM, (torch.float32,) * 2), (520, HALF), (DIM + 1, HALF)]
)
def test_what_no_kernel_is_made_for_is_the_hosts_and_ends_nothing(
    size: int, dtypes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision(), "settings", Settings(on_refusal=OnRefusal.STOP))
    reason = trial.attention(HEADS, size, 32, EPS, dtypes, npu())
    assert reason is not None and "cannot be built" not in reason
    assert ("float32" if dtypes != HALF else str(size)) in reason


@pytest.mark.parametrize("name", TRIALS)
def test_a_launch_that_fails_later_is_a_reason_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an NPU a launch returns at once, and the wait for it tells what became of it."""

    def failing(*_: object) -> None:
        raise RuntimeError("synchronize: error code is 507015")

    monkeypatch.setattr(torch.npu, "synchronize", failing)
    reason = TRIALS[name]()
    assert reason is not None and "507015" in reason


def test_nothing_is_tried_without_memory() -> None:
    reason = trial.rms_norm(224, EPS, torch.float16, torch.device("meta"))
    assert reason is not None and "without memory" in reason
