"""`--device`: names, numbers, and that a session stays on the device that was asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ascend_infer.devices import open_device, parse_device, restart_environment
from ascend_infer.engine import Request
from ascend_infer.model.catalogue import resolve
from ascend_infer.session import SessionOptions, open_session
from kernels_npu import registry
from kernels_npu.errors import EnvironmentProblem, UsageError


@pytest.mark.parametrize(
    "text, parsed",
    [("auto", ("auto", 0)), ("cpu", ("cpu", 0)), ("cuda", ("cuda", 0)), ("sim:3", ("sim", 3))],
)
def test_names_and_numbers(text: str, parsed: tuple[str, int]) -> None:
    assert parse_device(text) == parsed


@pytest.mark.parametrize(
    "text", ["tpu", "cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:x", "sim:1:2", ""]
)
def test_other_devices_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="AI-CLI-001") as caught:
        parse_device(text)
    assert caught.value.rule and "cuda" in caught.value.rule


def test_a_numbered_simulator_needs_a_new_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    monkeypatch.setattr("ascend_infer.devices.torch_npu_installed", lambda: True)
    assert restart_environment("sim:1") and not restart_environment("npu:1")


def test_a_host_s_device_becomes_current(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 2, set_device=chosen.append
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    assert open_device("cuda:1").torch_device == torch.device("cuda", 1) and chosen == [1]
    with pytest.raises(EnvironmentProblem, match="AI-CLI-002: cuda:2 does not exist"):
        open_device("cuda:2")


def test_a_session_on_the_second_simulated_device(kernel_sized_dir: Path) -> None:
    """Weights, cache, buffers, prefill and graphs, while the first device is current."""
    options = SessionOptions(max_batch=2, max_tokens=32, block_size=16, strict=True)
    prompts = [(5, 9, 2, 7, 1), (3, 8)]
    requests = [Request(prompt_token_ids=p, max_new_tokens=3, ignore_eos=True) for p in prompts]
    tokens = []
    for name in ("sim:0", "sim:1"):
        device = open_device(name)
        session = open_session(resolve(str(kernel_sized_dir)).open(), device, options)
        held = [session.runner.buffers.logits, *session.model.fixed_tensors().values()]
        assert {tensor.device for tensor in held} == {device.torch_device}
        with registry.strict(True), torch.no_grad():
            session.runner.capture()
            results = session.engine.generate(requests)
        assert session.runner.captured_buckets == (1, 2)
        assert session.runner.stats.total_replays == 2
        assert torch.npu.current_device() == 0
        tokens.append([result.output_token_ids for result in results])
    assert tokens[0] == tokens[1]
