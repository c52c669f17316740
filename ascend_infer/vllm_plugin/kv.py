"""The KV contract of a vLLM engine, from its configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from ascend_infer.kv_contract import KVContract


def contract_of(vllm_config: Any) -> KVContract:
    """The cache of a dense model with grouped queries, as vllm-ascend lays it out.

    Raises:
        UsageError: AI-VLLM-003 where a fact is not one that a cache can have.
    """
    model, cache = vllm_config.model_config, vllm_config.cache_config
    parallel = vllm_config.parallel_config
    dtype = cache.cache_dtype
    head_dim = model.get_head_size()
    return KVContract(
        model=f"{model.model}@{model.revision or 'default'}",
        layers=model.get_num_layers(parallel),
        kv_heads=model.get_total_num_kv_heads(),
        head_dim=head_dim,
        value_head_dim=head_dim,
        block_size=cache.block_size,
        dtype=str(model.dtype).removeprefix("torch.") if dtype == "auto" else dtype,
        layout="NHD",
        tensor_parallel=parallel.tensor_parallel_size,
        sliding_window=model.get_sliding_window() or 0,
    )


def worker_contract(worker: Any) -> dict[str, Any]:
    """`contract_of` in a worker, JSON-ready: `llm.collective_rpc(worker_contract)`."""
    return dataclasses.asdict(contract_of(worker.vllm_config))
