"""The choice of an implementation, its reasons, counts and refusals."""

from __future__ import annotations

import logging
import threading

import pytest
import torch

from kernels_npu import dialect, ops, registry, requirements
from kernels_npu.errors import EnvironmentProblem, UnsupportedError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_counts")


def arguments(hidden: int, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor, float]:
    x = torch.randn(2, hidden).half()
    return x.to(device), torch.ones(hidden).half().to(device), 1e-5


@pytest.fixture(autouse=True)
def forget_decisions():
    """Decisions are made once per process; these tests watch them being made."""
    kept = {name: dict(op.decisions) for name, op in registry.OPERATORS.items()}
    for operator in registry.OPERATORS.values():
        operator.decisions.clear()
    yield
    for name, operator in registry.OPERATORS.items():
        operator.decisions.clear()
        operator.decisions.update(kept[name])


def test_host_tensors_run_the_reference():
    ops.rms_norm(*arguments(64, "cpu"))
    assert registry.launch_counts() == {("rms_norm", "reference"): 1}


def test_device_tensors_run_the_simulated_kernel(npu):
    ops.rms_norm(*arguments(64, npu))
    ops.rms_norm(*arguments(64, npu))
    assert registry.launch_counts() == {("rms_norm", "sim"): 2}


def test_a_captured_launch_counts_when_it_is_replayed(npu):
    inputs = arguments(64, npu)
    ops.rms_norm(*inputs)
    registry.reset_launch_counts()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        ops.rms_norm(*inputs)
    assert registry.launch_counts() == {}
    graph.replay()
    graph.replay()
    assert registry.launch_counts() == {("rms_norm", "sim"): 2}


def test_the_reason_is_logged_once_per_kind(caplog):
    caplog.set_level(logging.INFO, logger="kernels_npu.registry")
    for hidden in (64, 64, 32):
        ops.rms_norm(*arguments(hidden, "cpu"))
    assert [r.message for r in caplog.records] == [
        "rms_norm runs as reference: tensors are on cpu, where references run"
    ] * 2


def test_a_call_without_a_kernel_is_an_error_in_strict_mode(npu):
    with registry.strict(), pytest.raises(UnsupportedError) as caught:
        ops.rms_norm(*arguments(24, npu))
    assert caught.value.code == "AI-OP-008"
    assert "hidden size 24" in caught.value.what
    assert registry.launch_counts() == {}


def test_strict_is_the_default():
    assert registry.is_strict()


def test_a_fallback_is_counted_and_warned_about(npu, caplog):
    x, weight, eps = arguments(24, npu)
    with registry.strict(False):
        out = ops.rms_norm(x, weight, eps)
    expected = ops.rms_norm(x.cpu(), weight.cpu(), eps)
    assert out.device == x.device
    torch.testing.assert_close(out.cpu(), expected)
    assert registry.launch_counts()["rms_norm", "reference"] == 2
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "AI-OP-006" in record.message


def cache_arguments(
    device: torch.device, head_dim: int = 64, blocks: int = 2
) -> list[torch.Tensor]:
    rows = torch.zeros(1, 2, head_dim, dtype=torch.float16, device=device)
    caches = torch.zeros(2, blocks, 16, 2, 64, dtype=torch.float16, device=device)
    return [rows, rows, caches[0], caches[1], torch.zeros(1, dtype=torch.int32, device=device)]


def test_a_wrong_call_decides_nothing_for_the_right_one(npu):
    with pytest.raises(UsageError) as caught:
        ops.reshape_and_cache(*cache_arguments(npu, head_dim=40))
    assert "key_cache" in caught.value.what
    ops.reshape_and_cache(*cache_arguments(npu))
    assert registry.launch_counts() == {("reshape_and_cache", "sim"): 1}


def test_a_cache_beyond_32_bits_decides_nothing_for_a_smaller_one(npu, monkeypatch):
    monkeypatch.setattr(requirements, "_MAX_ELEMENTS", 3 * 16 * 2 * 64)
    with pytest.raises(UnsupportedError) as caught:
        ops.reshape_and_cache(*cache_arguments(npu, blocks=3))
    assert "key_cache has 6144 elements" in caught.value.what
    ops.reshape_and_cache(*cache_arguments(npu, blocks=2))
    with registry.strict(False):
        ops.reshape_and_cache(*cache_arguments(npu, blocks=3))
    assert registry.launch_counts() == {
        ("reshape_and_cache", "sim"): 1,
        ("reshape_and_cache", "reference"): 1,
    }


def test_references_do_not_broadcast_a_wrong_shape():
    x, _, eps = arguments(64, "cpu")
    with pytest.raises(UsageError) as caught:
        ops.rms_norm(x, torch.ones(1).half(), eps)
    assert "weight has shape [1], but must be [64]" in caught.value.what
    assert registry.launch_counts() == {}


def test_launches_of_several_threads_are_all_counted():
    inputs = arguments(16, "cpu")

    def work() -> None:
        for _ in range(100):
            ops.rms_norm(*inputs)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.launch_counts() == {("rms_norm", "reference"): 400}


def test_strictness_ends_with_its_block(npu):
    with registry.strict(False):
        assert not registry.is_strict()
        with registry.strict():
            assert registry.is_strict()
        assert not registry.is_strict()


def test_kernels_of_the_other_dialect_are_refused(npu, monkeypatch):
    from kernels_npu.dialect import tilelang  # noqa: F401  (loads a dialect)

    monkeypatch.setattr(dialect, "name", "adapter")
    with pytest.raises(EnvironmentProblem) as caught:
        ops.rms_norm(*arguments(64, npu))
    assert caught.value.code == "AI-ENV-013"


def test_an_unknown_device_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        registry.OPERATORS["rms_norm"](
            torch.empty(1, 16, device="meta"), torch.empty(16, device="meta"), 1e-5
        )
    assert caught.value.code == "AI-OP-007"
