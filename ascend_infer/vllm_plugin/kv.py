"""The KV contract of a vLLM engine: its configuration, held against the cache that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ascend_infer.kv_contract import KVContract
from ascend_infer.vllm_plugin.host import ASCEND, installed
from kernels_npu.errors import UsageError


def worker_contract(worker: Any) -> dict[str, Any]:
    """The record of a worker, JSON-ready: `llm.collective_rpc(worker_contract)`.

    Raises:
        UsageError: AI-VLLM-003 for a cache that the record cannot describe: another layout than
            vllm-ascend's of dense models, or one that is not as the configuration says.
    """
    if installed().kind is not ASCEND:
        raise _undescribed(f"the engine's cache is that of {installed().label}")
    runner = worker.model_runner
    contract = contract_of(worker.vllm_config, rotary_styles(runner.model.modules()))
    require_cache(contract, runner.kv_caches)
    return dataclasses.asdict(contract)


def contract_of(vllm_config: Any, rotary: Iterable[str]) -> KVContract:
    """The cache of a dense model with grouped queries, as vllm-ascend lays it out.

    rotary: how the model's layers rotate keys.

    Raises:
        UsageError: AI-VLLM-003 where a fact is not one that a cache can have.
    """
    model, cache = vllm_config.model_config, vllm_config.cache_config
    parallel = vllm_config.parallel_config
    styles = sorted(set(rotary))
    if len(styles) > 1:
        raise _undescribed(f"layers rotate keys in several ways: {', '.join(styles)}")
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
        rotary=styles[0] if styles else "none",
        sliding_window=model.get_sliding_window() or 0,
    )


def rotary_styles(modules: Iterable[Any]) -> set[str]:
    """The styles of the rotary embeddings among a model's modules."""
    styles = (getattr(module, "is_neox_style", None) for module in modules)
    return {"half_split" if neox else "interleaved" for neox in styles if neox is not None}


def require_cache(contract: KVContract, caches: Sequence[Any]) -> None:
    """Refuse a record that the engine's cache contradicts.

    caches: per layer keys and values `[blocks, slots, kv_heads, elements]`; blocks may be pieces
        of the engine's.

    Raises:
        UsageError: AI-VLLM-003.
    """
    if len(caches) != contract.layers:
        raise _undescribed(f"{len(caches)} layers have a cache, {contract.layers} are configured")
    for layer, pair in enumerate(caches):
        for tensor, elements in zip(pair, (contract.head_dim, contract.value_head_dim)):
            slots, *rest = tensor.shape[1:]
            wanted = [contract.kv_heads_per_rank, elements]
            dtype = str(tensor.dtype).removeprefix("torch.")
            if len(pair) != 2 or rest != wanted or contract.block_size % slots:
                raise _undescribed(f"the cache of layer {layer} is {list(tensor.shape)}")
            if dtype != contract.dtype or not tensor.is_contiguous():
                raise _undescribed(f"the cache of layer {layer} is {dtype}, or is not contiguous")


def _undescribed(what: str) -> UsageError:
    return UsageError(
        "AI-VLLM-003",
        what,
        rule="the record describes keys and values per head in blocks, as vllm-ascend keeps them",
        fix="hand over between engines of vllm-ascend that serve a dense model",
    )
