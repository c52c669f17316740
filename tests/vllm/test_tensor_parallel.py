"""Two ranks by vLLM's own executor: each runs our kernels on its own heads, or its own layers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ascend_infer.kv_contract import KVContract
from tests.vllm.conftest import NEW_TOKENS
from tests.vllm.hosted.server import serving

LAYERS, HEADS, HEAD_DIM = 2, 4, 32  # of vllm_host.tiny_model
RANKS = 2


def test_two_ranks_decode_as_one_with_local_heads(
    model: Path,
    environment: dict[str, str],
    prompts: list[list[int]],
    expected: list[list[int]],
    tmp_path: Path,
):
    from vllm_host.__main__ import engine_arguments

    engine = engine_arguments(model, "FULL_DECODE_ONLY")
    with serving(
        model,
        tmp_path / "log",
        {**environment, "ASCEND_INFER_VLLM_OPS": "all"},
        tensor_parallel_size=RANKS,
        dtype="float16",
        skip_tokenizer_init=True,
        max_model_len=512,
        max_num_seqs=4,
        num_gpu_blocks_override=512,
        compilation_config=engine["compilation_config"],
    ) as server:
        before = server.workers("device_counts")
        chosen = [2, 4, 6]
        for i in chosen:
            assert server.complete(prompts[i], NEW_TOKENS) == expected[i], server.tail()
        statuses = server.workers("ascend_infer_status")
        after = server.workers("device_counts")
        queries = server.workers("query_shapes", "paged_decode_attention")
        contracts = [KVContract(**c) for c in server.workers("ascend_infer_kv_contract")]
    assert len(statuses) == len(after) == len(queries) == RANKS
    # Held against the tensors of each rank, which have one of the two KV heads.
    assert contracts == [dataclasses.replace(contracts[0], tensor_parallel=RANKS)] * RANKS
    facts = ("layers", "kv_heads", "head_dim", "block_size", "dtype", "rotary", "scale_format")
    assert [getattr(contracts[0], name) for name in facts] == [
        *(LAYERS, 2, HEAD_DIM, 128, "float16", "half_split", "none"),
    ]
    assert contracts[0].block_bytes == LAYERS * 2 * 128 * 1 * HEAD_DIM * 2
    steps = (NEW_TOKENS - 1) * len(chosen)  # the prefill chooses each first token
    for status, old, new, query in zip(statuses, before, after, queries):
        assert status["layers"]["attention"] == {"ascend-infer": LAYERS}
        assert new["replays"] - old["replays"] == steps
        assert new["replayed_launches"]["paged_decode_attention"] == LAYERS * steps
        assert new["replayed_ops"]["hccl.allreduce"] >= 2 * LAYERS * steps
        assert new["task_updates"] == 0
        assert query == [[None, HEADS // RANKS, HEAD_DIM]]


def test_two_stages_of_a_pipeline_decode_as_one(ours, stock, prompts):
    """The counts are those of the first stage, which sends and never samples."""
    found = ours("FULL_DECODE_ONLY", [prompts], pipeline_parallel_size=RANKS)
    assert found["tokens"] == [stock]
    assert found["plugin"]["layers"]["attention"] == {"ascend-infer": LAYERS // RANKS}
    assert found["plugin"]["layers"]["qk_norm_rope"] == {"ascend-infer": LAYERS // RANKS}
    serving = found["serving"]
    replayed = serving["replayed_launches"]["paged_decode_attention"]
    assert replayed == LAYERS // RANKS * serving["replays"] > 0
    assert serving["eager_ops"]["hccl.send"] >= serving["replays"]
    assert serving["task_updates"] == 0
