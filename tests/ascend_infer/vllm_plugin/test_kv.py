"""The record of an engine's cache, from a configuration with the methods of vLLM's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ascend_infer.kv_contract import KVContract
from ascend_infer.vllm_plugin.kv import contract_of, worker_contract
from kernels_npu.errors import UsageError

RANKS, STAGES = 2, 3


def config(**changed: Any) -> SimpleNamespace:
    """Of two ranks with half of the heads, and three stages with a third of the layers each."""
    model = {
        "model": "a/model",
        "revision": None,
        "dtype": torch.bfloat16,
        "get_head_size": lambda: 96,
        "get_num_layers": lambda parallel: 12 // parallel.pipeline_parallel_size,
        "get_total_num_kv_heads": lambda: 8,
        "get_num_kv_heads": lambda parallel: 8 // parallel.tensor_parallel_size,
        "get_sliding_window": lambda: None,
    }
    cache = {"cache_dtype": "auto", "block_size": 128}
    parallel = {"tensor_parallel_size": RANKS, "pipeline_parallel_size": STAGES}
    return SimpleNamespace(
        model_config=SimpleNamespace(**{**model, **changed}),
        cache_config=SimpleNamespace(**{k: changed.get(k, v) for k, v in cache.items()}),
        parallel_config=SimpleNamespace(**parallel),
    )


def test_a_dense_model() -> None:
    found = contract_of(config())
    assert found == KVContract(
        model="a/model@default",
        layers=4,
        kv_heads=8,  # of the model; a rank's are told by `tensor_parallel`
        head_dim=96,
        value_head_dim=96,
        block_size=128,
        dtype="bfloat16",
        layout="NHD",
        tensor_parallel=RANKS,
        sliding_window=0,
    )
    # A block of one layer: keys and values of this rank's heads.
    assert found.block_bytes == 4 * 2 * 128 * (8 // RANKS) * 96 * 2


def test_what_the_server_was_told() -> None:
    changed = {"revision": "abc", "cache_dtype": "float16", "get_sliding_window": lambda: 64}
    found = contract_of(config(**changed))
    assert found.model == "a/model@abc" and found.sliding_window == 64
    assert found.dtype == "float16"  # and not the model's


def test_a_dtype_that_no_cache_has_is_refused() -> None:
    with pytest.raises(UsageError, match="AI-VLLM-003"):
        contract_of(config(cache_dtype="int3"))


def test_a_workers_record_is_read_back() -> None:
    found = worker_contract(SimpleNamespace(vllm_config=config()))
    assert KVContract.from_fields(found) == contract_of(config())
