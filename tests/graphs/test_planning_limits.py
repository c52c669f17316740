"""Default lists, streams and memory: against published figures and by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from graphs.errors import PlanInputError
from graphs.planning import (
    RULES,
    CaptureMode,
    ModelShape,
    StreamDemand,
    Topology,
    default_sizes,
    full_decode_sizes,
    graph_memory,
    stream_limit,
)
from graphs.planning.streams import most_sizes, stream_budget

QWEN25_7B = ModelShape(
    num_layers=28,
    hidden_size=3584,
    mlp_width=18944,
    num_q_heads=28,
    num_kv_heads=4,
    head_dim=128,
    vocab_size=152064,
)


@pytest.mark.parametrize(
    "rule, max_num_seqs, sizes",
    [
        # The table of vllm-ascend#16049, and what vLLM's own headroom makes of the same setting.
        ("vllm-ascend", 8, (1, 2, 4, 8)),
        ("vllm-ascend", 12, (1, 2, 4, 8)),
        ("vllm-ascend", 16, (1, 2, 4, 8, 16)),
        ("vllm-ascend", 20, (1, 2, 4, 8, 16)),
        ("vllm-ascend", 3, (1, 2)),
        ("vllm", 12, (1, 2, 4, 8, 16, 24)),
        ("vllm-exact", 12, (1, 2, 4, 8, 12, 16, 24)),
    ],
)
def test_default_sizes(rule: str, max_num_seqs: int, sizes: tuple[int, ...]) -> None:
    assert default_sizes(max_num_seqs, rule) == sizes


@pytest.mark.parametrize("rule", RULES)
def test_the_ladder_at_scale(rule: str) -> None:
    sizes = default_sizes(1000, rule)
    assert len(sizes) == 51 and sizes[-1] == 512
    assert {b - a for a, b in pairwise(sizes[3:34])} == {8}
    assert {b - a for a, b in pairwise(sizes[34:])} == {16}


def test_full_decode_sizes_stop_at_max_num_seqs() -> None:
    assert full_decode_sizes(default_sizes(100, "vllm"), 100)[-1] == 96
    assert full_decode_sizes(default_sizes(100, "vllm-exact"), 100)[-1] == 100


@pytest.mark.parametrize("arguments", [(0, "vllm"), (8, "sglang")])
def test_no_default_sizes(arguments: tuple[int, str]) -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-042"):
        default_sizes(*arguments)


@pytest.mark.parametrize(
    "soc, streams",
    [
        ("Ascend910B1", 1984),
        ("Ascend910B4-1", 1984),
        ("910B2C", 1984),
        ("Ascend910_9391", 1984),
        ("Ascend910C", 1984),
        ("Ascend950PR_9599", 1984),
        ("A3", 1984),
        ("Ascend910A", 2048),
        ("Ascend910ProB", 2048),
        ("Ascend310P3", 1024),
        ("310B1", 512),
    ],
)
def test_stream_limits(soc: str, streams: int) -> None:
    assert stream_limit(soc).streams == streams


@pytest.mark.parametrize("soc", ["", "H200", "Ascend910X", "Ascend31", "910B1 extra"])
def test_chips_without_a_known_limit(soc: str) -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-042"):
        stream_limit(soc)


@pytest.mark.parametrize(
    "mode, groups, side, per_size",
    [
        (CaptureMode.FULL, 0, 0, 1),
        (CaptureMode.FULL, 1, 2, 4),
        (CaptureMode.PIECEWISE, 0, 0, 65),
        (CaptureMode.PIECEWISE, 2, 0, 195),
        (CaptureMode.FULL_AND_PIECEWISE, 1, 0, 132),
    ],
)
def test_streams_per_size(mode: CaptureMode, groups: int, side: int, per_size: int) -> None:
    topology = Topology(mode=mode, num_layers=64, comm_groups=groups, side_streams=side, aiv=True)
    assert topology.streams_per_size == per_size
    more = replace(topology, aiv=False).streams_per_size - per_size
    assert more == groups * (topology.full_graphs + topology.pieces)
    demand = StreamDemand(
        topology=topology, num_sizes=7, num_full_sizes=7, limit=stream_limit("A2")
    )
    assert demand.needed == 7 * per_size
    assert demand.most_sizes == (1984 - 248) // per_size


def test_graphs_as_counted_by_vllm_ascend() -> None:
    # Two layers, three sizes: 3 full, 9 piecewise, 12 for both.
    for mode, graphs in zip(CaptureMode, (3, 9, 12), strict=True):
        demand = StreamDemand(
            topology=Topology(mode=mode, num_layers=2),
            num_sizes=3,
            num_full_sizes=3,
            limit=stream_limit("A2"),
        )
        assert demand.needed == graphs


def test_sizes_beyond_max_num_seqs_have_no_full_graph() -> None:
    topology = Topology(mode=CaptureMode.FULL_AND_PIECEWISE, num_layers=9, comm_groups=1, aiv=True)
    demand = StreamDemand(
        topology=topology, num_sizes=6, num_full_sizes=4, limit=stream_limit("310P3")
    )
    assert demand.needed == (6 * 10 + 4) * 2
    assert demand.to_dict()["limit"] == 1024


@pytest.mark.parametrize("arguments", [{"comm_groups": -1}, {"mode": CaptureMode.PIECEWISE}])
def test_topologies_that_cannot_be_meant(arguments: dict[str, object]) -> None:
    if "comm_groups" not in arguments:
        arguments = {**arguments, "num_layers": 0}
    with pytest.raises(PlanInputError, match="AI-GRAPH-042"):
        Topology(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "layers, groups, sizes",
    # "Calculated maximum supported batch sizes for ACL graph" in published logs of 0.9.2 to 0.18.
    [(28, 0, 62), (36, 0, 48), (64, 1, 9), (48, 1, 11)],
)
def test_the_budget_of_vllm_ascend_018(layers: int, groups: int, sizes: int) -> None:
    topology = Topology(mode=CaptureMode.PIECEWISE, num_layers=layers, comm_groups=groups)
    assert most_sizes(topology, stream_limit("910A")) == sizes  # 2048 streams, as it assumed


def test_the_budget_with_collectives_on_vector_cores() -> None:
    topology = Topology(mode=CaptureMode.PIECEWISE, num_layers=64, comm_groups=1, aiv=True)
    assert most_sizes(topology, stream_limit("910A")) == 13
    assert stream_budget(topology, stream_limit("910A")) == 1800


def test_weights_and_cache_of_a_dense_model() -> None:
    # 7.07e9 of its 7.6e9 parameters are read per step: the embedding is a lookup.
    assert (
        QWEN25_7B.weights_read(1) == QWEN25_7B.weights_read(99) == pytest.approx(14.14e9, rel=1e-3)
    )
    assert QWEN25_7B.kv_read(3, 1000) == 3 * 1000 * 2 * 28 * 4 * 128 * 2


def test_experts_are_read_as_rows_visit_them() -> None:
    moe = ModelShape(
        num_layers=1,
        hidden_size=1,
        mlp_width=1,
        num_q_heads=1,
        num_kv_heads=1,
        head_dim=1,
        vocab_size=1,
        num_experts=8,
        active_experts=2,
        weight_bytes=1,
    )
    assert moe.weights_read(1) == pytest.approx(4 + 3 * 2 + 1)
    assert moe.weights_read(2) == pytest.approx(4 + 3 * 3.5 + 1)  # 2 + 2 less the shared half
    assert moe.weights_read(200) == pytest.approx(4 + 3 * 8 + 1)


def test_ranks_share_weights_and_copy_heads_when_there_are_too_few() -> None:
    two, eight = (replace(QWEN25_7B, tensor_parallel=n) for n in (2, 8))
    assert two.weights_read(1) == QWEN25_7B.weights_read(1) / 2
    assert two.kv_read(1, 10) == QWEN25_7B.kv_read(1, 10) / 2
    assert eight.kv_read(1, 10) == QWEN25_7B.kv_read(1, 10) / 4


def test_memory_by_hand() -> None:
    memory = graph_memory(QWEN25_7B, max_batch=128, max_blocks=64)
    assert memory.inputs == 128 * (24 + 4 * 64)
    assert memory.logits == 128 * 152064 * 2
    # The last stage is the widest: residual, normalised input, logits.
    assert memory.activations == 128 * (2 * 3584 + 152064) * 2
    # Two slots of 8 live rows per sequence and KV head: scores, probabilities, outputs.
    assert memory.workspace == 128 * 4 * 2 * 8 * (128 * 4 + 128 * 2 + 128 * 4)
    assert memory.to_dict()["total"] == memory.total


def test_memory_of_heads_that_the_kernel_does_not_cover() -> None:
    memory = graph_memory(replace(QWEN25_7B, head_dim=512), max_batch=2, max_blocks=1)
    assert memory.workspace is None
    assert memory.total == memory.inputs + memory.logits + memory.activations


def test_dimensions_that_cannot_be_meant() -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-042"):
        replace(QWEN25_7B, num_layers=0)
