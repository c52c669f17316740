"""Graphs that share a pool share their intermediates' memory: replays must be ordered."""

from __future__ import annotations

import pytest
import torch


def graph_on(x: torch.Tensor, pool: tuple[int, int]) -> tuple[torch.npu.NPUGraph, torch.Tensor]:
    """A graph whose intermediates die in the capture; only the static output lives on."""
    out = torch.zeros_like(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, pool=pool):
        out.copy_((x * 2 + 1).relu().sum(1, keepdim=True).expand_as(x))
    return graph, out


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7, 5, generator=generator).to("npu") for _ in range(2)]


def expected(x: torch.Tensor) -> torch.Tensor:
    host = x.cpu()
    return (host * 2 + 1).relu().sum(1, keepdim=True).expand_as(host)


def test_two_replays_at_once_are_found() -> None:
    a, b = inputs()
    pool = torch.npu.graph_pool_handle()
    (first, _one), (second, _other) = graph_on(a, pool), graph_on(b, pool)
    torch.npu.synchronize()
    streams = [torch.npu.Stream(), torch.npu.Stream()]
    with torch.npu.stream(streams[0]):
        first.replay()
    with (
        torch.npu.stream(streams[1]),
        pytest.raises(RuntimeError, match=f"of memory pool .*{pool[1]}") as error,
    ):
        second.replay()
    assert error.value.code == "AI-STREAM-007"
    assert str(error.value).count("test_pool_sharing.py:") == 2
    torch.npu.synchronize()


@pytest.mark.parametrize("how", ["one stream", "wait_stream", "synchronize", "own pools"])
def test_ordered_replays_and_own_pools_are_fine(how: str) -> None:
    a, b = inputs()
    pools = [torch.npu.graph_pool_handle(), torch.npu.graph_pool_handle()]
    if how != "own pools":
        pools[1] = pools[0]
    (first, one), (second, other) = graph_on(a, pools[0]), graph_on(b, pools[1])
    torch.npu.synchronize()
    streams = [torch.npu.Stream(), torch.npu.Stream()]
    if how == "one stream":
        streams[1] = streams[0]
    with torch.npu.stream(streams[0]):
        first.replay()
    if how == "wait_stream":
        streams[1].wait_stream(streams[0])
    elif how == "synchronize":
        torch.npu.synchronize()
    with torch.npu.stream(streams[1]):
        second.replay()
    torch.npu.synchronize()
    torch.testing.assert_close(one.cpu(), expected(a))
    torch.testing.assert_close(other.cpu(), expected(b))


def test_a_graph_may_not_overtake_itself() -> None:
    (a, _) = inputs()
    graph, _ = graph_on(a, torch.npu.graph_pool_handle())
    torch.npu.synchronize()
    for number, stream in enumerate((torch.npu.Stream(), torch.npu.Stream())):
        with torch.npu.stream(stream):
            if number:
                with pytest.raises(RuntimeError, match="AI-STREAM-007"):
                    graph.replay()
            else:
                graph.replay()
    torch.npu.synchronize()
