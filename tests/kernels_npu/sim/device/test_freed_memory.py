"""What a graph names and nobody keeps: a replay refuses it; weak references do not keep it."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable

import pytest
import torch

from kernels_npu.sim.frontend import T, tilelang


def weak(tensor: torch.Tensor) -> torch.Tensor:
    from torch_npu._C import _weak_ref_tensor

    found: torch.Tensor = _weak_ref_tensor(tensor)
    return found


def captured(body: Callable[[], object]) -> torch.npu.NPUGraph:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        body()
    return graph


def refused(graph: torch.npu.NPUGraph) -> str:
    with pytest.raises(RuntimeError, match="error code is 507011") as error:
        graph.replay()
    assert error.value.code == "AI-CAP-026"
    return str(error.value)


def freed_while(hold: bool) -> tuple[torch.npu.NPUGraph, torch.Tensor, list[torch.Tensor]]:
    """A graph that reads a tensor to which only a list refers, if anything."""
    kept = [torch.randn(5, 7).to("npu")]
    out = torch.empty(5, 7, device="npu")
    graph = captured(lambda: out.copy_(kept[0] * 2))
    if not hold:
        kept.clear()
    return graph, out, kept


def test_an_input_that_nobody_holds() -> None:
    graph, _out, _ = freed_while(hold=False)
    torch.empty(5, 7, device="npu")
    message = refused(graph)
    assert "the graph reads bytes 0 to 140 of an allocation of 140 bytes" in message
    graph, out, kept = freed_while(hold=True)
    graph.replay()
    assert torch.equal(out.cpu(), kept[0].cpu() * 2)


def test_an_output_that_nobody_holds() -> None:
    x = torch.randn(3, device="npu")

    def writing_into_a_temporary() -> torch.npu.NPUGraph:
        out = torch.zeros_like(x)
        return captured(lambda: out.copy_(x))

    assert "the graph writes bytes 0 to 12" in refused(writing_into_a_temporary())


def test_a_name_that_is_bound_anew_inside() -> None:
    """As `q = norm(q)` in a captured block: nobody knows the first `q` afterwards."""
    x = torch.randn(5, 7).to("npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x = x * 2
        x = x + 1
    gc.collect()
    refused(graph)


def test_a_view_keeps_the_memory() -> None:
    kept = [torch.arange(12.0).to("npu").view(3, 4)]
    out = torch.empty(2, device="npu")
    graph = captured(lambda: out.copy_(kept[0][1:, 1] + 1))
    kept = [kept[0][:1]]
    graph.replay()
    assert out.tolist() == [6.0, 10.0]
    kept.clear()
    refused(graph)


def test_memory_of_the_pool_lives_with_the_graph() -> None:
    x = torch.randn(4, 4).to("npu")
    out = torch.empty(4, 4, device="npu")
    graph = captured(lambda: out.copy_((x @ x).relu() + 1))
    gc.collect()
    for _ in range(2):
        graph.replay()
    torch.testing.assert_close(out.cpu(), (x.cpu() @ x.cpu()).relu() + 1)


def test_memory_of_a_pool_that_has_gone_lives_with_its_tensors() -> None:
    x, out = torch.randn(3).to("npu"), torch.empty(3, device="npu")
    kept: list[torch.Tensor] = []
    first = captured(lambda: kept.append(x * 2))
    first.replay()
    second = captured(lambda: out.copy_(kept[0] + 1))
    first.reset()
    second.replay()
    assert torch.equal(out.cpu(), x.cpu() * 2 + 1)
    kept.clear()
    refused(second)


@tilelang.jit(out_idx=[1], workspace_idx=[2])
def through_a_workspace(width: int):
    @T.prim_func
    def kernel(
        x: T.Tensor([width], "float32"),
        y: T.Tensor([width], "float32"),
        workspace: T.Tensor([width], "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            ub = T.alloc_ub([width], "float32")
            with T.Scope("V"):
                if vid == 0:
                    T.copy(x[0:width], ub)
                    T.barrier_all()
                    T.copy(ub, workspace[0:width])
                    T.barrier_all()
                    T.copy(workspace[0:width], ub)
                    T.barrier_all()
                    T.copy(ub, y[0:width])

    return kernel


def test_a_kernels_workspace_is_in_the_pool_and_a_given_tensor_is_not() -> None:
    kernel = through_a_workspace(64)
    kept, out = [torch.randn(64).to("npu")], torch.empty(64, device="npu")
    kernel(kept[0])
    graph = captured(lambda: out.copy_(kernel(kept[0])))
    gc.collect()
    graph.replay()
    assert torch.equal(out.cpu(), kept[0].cpu())
    kept.clear()
    assert "the graph reads" in refused(graph)


# --------------------------------------------------------------------------- weak references


@pytest.mark.parametrize("seed", range(4))
def test_a_weak_reference_is_the_same_memory(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.randint(1, 5) for _ in range(3)]
    base = torch.randn(shape).to(rng.choice([torch.float16, torch.float32, torch.bfloat16]))
    tensor = base.to("npu").transpose(0, 2)[rng.randrange(shape[2]) :]
    other = weak(tensor)
    assert (other.shape, other.stride(), other.dtype) == (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )
    assert other.data_ptr() == tensor.data_ptr() and other.device == tensor.device
    assert torch.equal(other.cpu(), tensor.cpu())
    tensor.fill_(5)
    assert other.eq(5).all()
    other.zero_()
    assert tensor.eq(0).all()


def test_a_weak_reference_keeps_nothing() -> None:
    before = torch.npu.memory_allocated()
    tensor = torch.ones(100, device="npu")
    other = weak(tensor)
    allocated = torch.npu.memory_allocated()
    del tensor
    assert torch.npu.memory_allocated() == before == allocated - 400
    assert other.isnan().all()
    graph = captured(lambda: other + 1)
    refused(graph)


def test_a_weak_reference_frees_nothing() -> None:
    tensor = torch.ones(100, device="npu")
    out = torch.empty(100, device="npu")
    graph = captured(lambda: out.copy_(tensor + 1))
    allocated = torch.npu.memory_allocated()
    weak(tensor).add_(1)  # and is gone
    assert torch.npu.memory_allocated() == allocated
    graph.replay()
    assert out.eq(3).all()


def test_pieces_of_a_graph_hand_memory_of_their_pool_on_weakly() -> None:
    """As pieces that vLLM captures one by one: the next one knows the output before it weakly."""
    x, out = torch.randn(6).to("npu"), torch.empty(6, device="npu")
    pool = torch.npu.graph_pool_handle()
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    with torch.npu.graph(first, pool=pool):
        between = x * 2
        handed_on = weak(between)
        del between
    with torch.npu.graph(second, pool=pool):
        out.copy_(handed_on + 1)
    for _ in range(2):
        x.add_(1)
        first.replay()
        second.replay()
        assert torch.equal(out.cpu(), x.cpu() * 2 + 1)


def test_an_output_of_a_graph_is_read_through_a_weak_reference() -> None:
    """As vLLM's wrapper keeps outputs: the pool has the memory, and lends it to later captures."""
    x = torch.randn(6).to("npu")
    pool = torch.npu.graph_pool_handle()
    outputs = []
    graphs = []
    for factor in (2, 3):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, pool=pool):
            outputs.append(weak(x * factor))
        graphs.append(graph)
    assert outputs[0].data_ptr() == outputs[1].data_ptr()
    for factor, graph, output in zip((2, 3), graphs, outputs):
        graph.replay()
        assert torch.equal(output.cpu(), x.cpu() * factor)


def test_an_update_with_memory_that_is_gone_is_refused_at_the_replay() -> None:
    x, y = torch.randn(8).to("npu"), torch.randn(8).to("npu")
    out = torch.empty(8, device="npu")
    main, side = torch.npu.Stream(), torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, stream=main):
        torch.npu.graph_task_group_begin(main)
        torch.add(x, 1, out=out)
        handle = torch.npu.graph_task_group_end(main)
    replacement = weak(y)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        torch.npu.graph_task_update_begin(side, handle)
        torch.add(replacement, 1, out=out)
        torch.npu.graph_task_update_end(side)
    torch.npu.synchronize()
    graph.replay()
    torch.npu.synchronize()
    assert torch.equal(out.cpu(), y.cpu() + 1)
    del y
    refused(graph)
