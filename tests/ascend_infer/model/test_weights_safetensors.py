"""Model directories: single and sharded files, and every way in which they can be incomplete."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ascend_infer.model.catalogue import resolve
from ascend_infer.model.weights import load_weights, require_layers
from ascend_infer.model.weights_safetensors import SafetensorsSource
from kernels_npu.errors import AscendInferError

CPU = torch.device("cpu")


@pytest.fixture
def copy(llama_dir: Path, tmp_path: Path) -> Path:
    shutil.copytree(llama_dir, tmp_path / "model")
    return tmp_path / "model"


def code(path: Path) -> str:
    with pytest.raises(AscendInferError) as caught:
        load_weights(SafetensorsSource(path), device=CPU, dtype=torch.float32)
    assert caught.value.fix
    return caught.value.code


def test_fused_rows_are_q_k_v_and_gate_up(llama_dir: Path):
    source = SafetensorsSource(llama_dir)
    layer = load_weights(source, device=CPU, dtype=torch.float32).layers[1]
    prefix = "model.layers.1."
    q, k, v = (source.tensor(f"{prefix}self_attn.{n}_proj.weight") for n in "qkv")
    assert torch.equal(layer.qkv, torch.cat((q, k, v)))
    gate, up = (source.tensor(f"{prefix}mlp.{n}_proj.weight") for n in ("gate", "up"))
    assert torch.equal(layer.gate_up, torch.cat((gate, up)))
    assert layer.qkv_bias is None


def test_bias_is_fused_like_its_weight(qwen2_dir: Path):
    source = SafetensorsSource(qwen2_dir)
    layer = load_weights(source, device=CPU, dtype=torch.float32).layers[0]
    parts = [source.tensor(f"model.layers.0.self_attn.{n}_proj.bias") for n in "qkv"]
    assert layer.qkv_bias is not None
    assert torch.equal(layer.qkv_bias, torch.cat(parts)) and layer.qkv_bias.abs().min() > 0


def test_size_counts_a_tied_head_once(qwen2_dir: Path):
    source = SafetensorsSource(qwen2_dir)
    weights = load_weights(source, device=CPU, dtype=torch.float16)
    assert weights.bytes == 2 * sum(source.tensor(name).numel() for name in source.names())


def test_sharded_directory(copy: Path):
    whole = SafetensorsSource(copy)
    tensors = load_file(copy / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, copy / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    expected = {name: whole.tensor(name) for name in names}
    (copy / "model.safetensors").unlink()
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    source = SafetensorsSource(copy)
    assert source.names() == frozenset(names)
    assert all(torch.equal(source.tensor(name), expected[name]) for name in names)
    (copy / "b.safetensors").unlink()
    assert code(copy) == "AI-MODEL-010"


def test_no_weights(copy: Path):
    (copy / "model.safetensors").unlink()
    assert code(copy) == "AI-MODEL-010"


@pytest.mark.parametrize("keep", [0, 5, 100, -10])
def test_cut_file(copy: Path, keep: int):
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert code(copy) == "AI-MODEL-011"


def test_missing_tensor(copy: Path):
    tensors = load_file(copy / "model.safetensors")
    del tensors["model.layers.2.mlp.down_proj.weight"]
    save_file(tensors, copy / "model.safetensors")
    assert code(copy) == "AI-MODEL-012"


@pytest.mark.parametrize("broken", [torch.zeros(3), torch.zeros(64, dtype=torch.int8)])
def test_wrong_tensor(copy: Path, broken: torch.Tensor):
    tensors = load_file(copy / "model.safetensors")
    tensors["model.norm.weight"] = broken
    save_file(tensors, copy / "model.safetensors")
    assert code(copy) == "AI-MODEL-013"


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff"])
def test_unreadable_configuration(copy: Path, text: str):
    (copy / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert code(copy) == "AI-MODEL-007"


@pytest.mark.parametrize("ends, expected", [(7, (95, 7)), ([95, 7], (95, 7)), (None, (95,))])
def test_end_tokens_of_the_generation_configuration(copy: Path, ends: object, expected: tuple[int]):
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    assert SafetensorsSource(copy).config.eos_token_ids == expected


def test_absurd_end_token(copy: Path):
    (copy / "generation_config.json").write_text('{"eos_token_id": 96}')
    assert code(copy) == "AI-MODEL-002"


@pytest.mark.parametrize("mapping", [None, [], {"a": 1}, {"a": ["b"]}])
def test_index_of_another_form(copy: Path, mapping: object):
    index = copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": mapping}))
    assert code(copy) == "AI-MODEL-007"


@pytest.mark.parametrize("layers, expected", [(2, "AI-MODEL-016"), (2**31 - 1, "AI-MODEL-012")])
def test_another_number_of_layers(copy: Path, layers: int, expected: str):
    """Fewer than the weights hold would decode nonsense; two billion would never return."""
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    with pytest.raises(AscendInferError) as caught:
        require_layers(resolve(str(copy)).open())
    assert caught.value.code == expected
