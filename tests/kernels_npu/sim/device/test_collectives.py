"""The back end "hccl": two ranks in two threads, each with a simulated device of its own."""

from __future__ import annotations

import concurrent.futures

import pytest
import torch
import torch.distributed as dist

from kernels_npu.sim.device.errors import DeviceError

SIZE = 2


def on_all_ranks(body):
    """`body(group, device)` of every rank."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    store = dist.HashStore()

    def rank(index):
        torch.npu.set_device(index)
        return body(ProcessGroupHCCL(store, index, SIZE), f"npu:{index}")

    with concurrent.futures.ThreadPoolExecutor(SIZE) as threads:
        return list(threads.map(rank, range(SIZE), timeout=60))


def test_sums_gathers_and_scatters():
    values = torch.randn(SIZE, 4, 3)

    def body(group, device):
        mine = values[group.rank()].to(device)
        total = mine.clone()
        group.allreduce([total]).wait()
        rows = torch.empty(SIZE * 4, 3, device=device)
        group._allgather_base(rows, mine).wait()
        parts = [torch.empty(4, 3, device=device) for _ in range(SIZE)]
        group.allgather([parts], [mine]).wait()
        half = torch.empty(2, 3, device=device)
        group._reduce_scatter_base(half, mine).wait()
        exchanged = torch.empty_like(mine)
        group.alltoall_base(exchanged, mine, [], []).wait()
        first = mine.clone()
        group.broadcast([first]).wait()
        group.barrier().wait()
        return [t.cpu() for t in (total, rows, torch.cat(parts), half, exchanged, first)]

    for index, (total, rows, parts, half, exchanged, first) in enumerate(on_all_ranks(body)):
        torch.testing.assert_close(total, values.sum(0))
        assert torch.equal(rows, values.flatten(0, 1)) and torch.equal(parts, rows)
        torch.testing.assert_close(half, values.sum(0)[2 * index : 2 * index + 2])
        assert torch.equal(exchanged, values[:, 2 * index : 2 * index + 2].flatten(0, 1))
        assert torch.equal(first, values[0])


def test_one_rank_sends_to_the_next():
    def body(group, device):
        tensor = torch.full((3,), float(group.rank()), device=device)
        if group.rank() == 0:
            group.send([tensor], 1, 0).wait()
        else:
            group.recv([tensor], 0, 0).wait()
        return tensor.cpu().tolist()

    assert on_all_ranks(body) == [[0.0] * 3, [0.0] * 3]


def test_a_graph_communicates_at_each_replay():
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    group = ProcessGroupHCCL(dist.HashStore(), 0, 1)
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
        group.allreduce([x])
        y = x * 2
    assert x.eq(1).all()  # nothing ran
    for expected in (2.0, 3.0):
        graph.replay()
        assert x.eq(expected).all() and y.eq(2 * expected).all()


def test_tensors_of_the_host_and_of_two_devices_are_refused():
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    group = ProcessGroupHCCL(dist.HashStore(), 0, 1)
    with pytest.raises(DeviceError, match="AI-DEV-004"):
        group.allreduce([torch.ones(3)])
    with pytest.raises(DeviceError, match="AI-DEV-004"):
        group._allgather_base(torch.empty(3, device="npu:1"), torch.ones(3, device="npu:0"))


def test_torch_distributed_knows_the_name(tmp_path):
    assert dist.is_hccl_available()
    dist.init_process_group("hccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = torch.ones(3, device="npu")
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        assert dist.get_backend() == "hccl" and x.eq(1).all()
        copies = [torch.empty(3, device="npu") for _ in range(3)]
        dist.all_gather_single(copies[0], x)
        dist.reduce_scatter(copies[1], [x])
        dist.all_to_all_single(copies[2], x)
        assert all(copy.eq(1).all() for copy in copies)
        dist.destroy_process_group(dist.new_group([0], backend="hccl"))
        dist.barrier()
        # One tensor in, one out: torch.distributed calls these by other names from 2.13 on.
        for collective in (
            dist.all_gather_into_tensor,
            dist.reduce_scatter_tensor,
            dist.all_to_all_single,
        ):
            found = torch.zeros(3, device="npu")
            collective(found, x)
            assert found.eq(1).all(), collective.__name__
    finally:
        dist.destroy_process_group()
