"""A graph holds addresses: tensors that existed before the capture must outlive its replays."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to("npu")


def captured(body: Callable[[], object]) -> tuple[torch.npu.NPUGraph, object]:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = body()
    return graph, result


def test_a_replay_on_a_dead_input_is_refused() -> None:
    held, out = [random(7, 5)], torch.zeros(7, 5, device="npu")
    graph, _ = captured(lambda: out.copy_(held[0] * 2))
    expected = held[0].cpu() * 2
    graph.replay()
    assert torch.equal(out.cpu(), expected)
    held.clear()
    gc.collect()
    with pytest.raises(RuntimeError, match=r"no longer exists: mul.* reads 140 bytes") as error:
        graph.replay()
    assert error.value.code == "AI-CAP-026"


def test_a_replay_on_a_dead_output_is_refused() -> None:
    x, held = random(7, 5), [torch.zeros(7, 5, device="npu")]
    graph, _ = captured(lambda: held[0].copy_(x).shape)
    held.clear()
    gc.collect()
    with pytest.raises(RuntimeError, match=r"AI-CAP-026.*copy_ writes 140 bytes"):
        graph.replay()


def test_a_view_keeps_the_memory() -> None:
    held = [random(7, 5)]
    graph, result = captured(lambda: held[0].sum(0))
    expected, row = held[0].cpu().sum(0), held[0][3:4]
    held.clear()
    gc.collect()
    graph.replay()
    assert torch.equal(result.cpu(), expected) and row.shape == (1, 5)


def test_what_the_capture_made_is_the_pool_s() -> None:
    x = random(7, 5)
    graph, result = captured(lambda: [(x + 1).relu(), None][0])
    expected = (x.cpu() + 1).relu()
    graph.replay()
    assert torch.equal(result.cpu(), expected)
    del result
    gc.collect()
    graph.replay()
