"""GGUF files: row order of Q and K, quantisations, and what corrupt files give."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ascend_infer.model.gguf_file import GgufFile
from ascend_infer.model.weights import load_weights
from ascend_infer.model.weights_gguf import GgufSource, undo_rope_permutation
from ascend_infer.model.weights_safetensors import SafetensorsSource
from kernels_npu.errors import AscendInferError
from tests.ascend_infer.gguf_writing import gguf_name, interleave_halves, write_gguf

pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def llama(llama_dir: Path) -> SafetensorsSource:
    return SafetensorsSource(llama_dir)


@pytest.fixture(scope="module")
def llama_gguf(llama: SafetensorsSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(llama, tmp_path_factory.mktemp("gguf") / "llama.gguf")


def test_permutation_is_undone():
    rows = np.random.default_rng(0).standard_normal((3 * 16, 5)).astype(np.float32)
    stored = interleave_halves(rows, heads=3)
    assert not np.array_equal(stored, rows)
    np.testing.assert_array_equal(undo_rope_permutation(stored, 3), rows)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_every_tensor_comes_back(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    original = SafetensorsSource(request.getfixturevalue(f"{kind}_dir"))
    source = GgufSource(write_gguf(original, tmp_path / "m.gguf"))
    assert source.names() == original.names()
    for name in original.names():
        torch.testing.assert_close(source.tensor(name), original.tensor(name), atol=0, rtol=0)


def test_configuration_comes_from_the_metadata(llama: SafetensorsSource, llama_gguf: Path):
    ours, original = GgufSource(llama_gguf).config, llama.config
    for field in ("vocab_size", "hidden_size", "num_layers", "num_q_heads", "num_kv_heads"):
        assert getattr(ours, field) == getattr(original, field)
    assert (ours.head_dim, ours.rope_theta) == (original.head_dim, original.rope_theta)
    assert ours.rms_norm_eps == pytest.approx(original.rms_norm_eps)
    assert ours.tied_head is False


def test_tied_head_is_recognised(qwen2_dir: Path, tmp_path: Path):
    source = GgufSource(write_gguf(SafetensorsSource(qwen2_dir), tmp_path / "q.gguf"))
    assert source.config.tied_head and source.config.qkv_bias
    weights = load_weights(source, device=torch.device("cpu"), dtype=torch.float32)
    assert weights.head is weights.embedding


# Rows of this model have 64 and 112 elements: F16 and 32-element blocks fit the former only.
@pytest.mark.parametrize("kind, tolerance", [("F16", 1e-3), ("BF16", 1e-2)])
def test_half_precision_storage(
    llama: SafetensorsSource, tmp_path: Path, kind: str, tolerance: float
):
    source = GgufSource(write_gguf(llama, tmp_path / "m.gguf", quantisation=kind))
    name = "model.layers.1.self_attn.q_proj.weight"
    torch.testing.assert_close(
        source.tensor(name), llama.tensor(name), atol=tolerance, rtol=tolerance
    )


def test_stored_rope_factors(llama: SafetensorsSource, tmp_path: Path):
    factors = [1.0 + i for i in range(8)]
    source = GgufSource(write_gguf(llama, tmp_path / "m.gguf", rope_factors=factors))
    assert source.config.rope_scaling.kind == "factors"
    assert list(source.config.rope_scaling.factors) == factors


def test_end_of_turn_is_an_end_token(llama: SafetensorsSource, tmp_path: Path):
    metadata = {"tokenizer.ggml.eos_token_id": 5, "tokenizer.ggml.eot_token_id": 9}
    path = write_gguf(llama, tmp_path / "m.gguf", metadata=metadata)
    assert GgufSource(path).config.eos_token_ids == (5, 9)


def test_wrong_number_of_rope_factors(llama: SafetensorsSource, tmp_path: Path):
    path = write_gguf(llama, tmp_path / "m.gguf", rope_factors=[1.0, 2.0])
    with pytest.raises(AscendInferError) as caught:
        GgufSource(path)
    assert caught.value.code == "AI-MODEL-002"


def test_unknown_quantisation(llama_gguf: Path):
    file = GgufFile.open(llama_gguf)
    name = gguf_name("model.layers.0.mlp.up_proj.weight")
    data = bytearray(llama_gguf.read_bytes())
    entry = data.index(name.encode()) + len(name) + 4 + 2 * 8
    data[entry : entry + 4] = (999).to_bytes(4, "little")
    broken = llama_gguf.with_name("type.gguf")
    broken.write_bytes(data)
    assert file.tensors[name].type_id == 0
    with pytest.raises(AscendInferError) as caught:
        GgufSource(broken).tensor("model.layers.0.mlp.up_proj.weight")
    assert caught.value.code == "AI-MODEL-014"


def test_a_file_cut_anywhere_is_refused_with_a_code(llama_gguf: Path, tmp_path: Path):
    data = llama_gguf.read_bytes()
    cuts = [0, 3, 4, 8, 23, 24, 100, *random.Random(0).sample(range(len(data) - 64), 20)]
    for cut in cuts:
        path = tmp_path / "cut.gguf"
        path.write_bytes(data[:cut])
        with pytest.raises(AscendInferError) as caught:
            load_weights(GgufSource(path), device=torch.device("cpu"), dtype=torch.float32)
        assert caught.value.code == "AI-MODEL-011", cut


def test_overwritten_headers_never_crash(llama_gguf: Path, tmp_path: Path):
    """Any damage to the header either goes unnoticed by construction or gives a coded error."""
    data, generator = llama_gguf.read_bytes(), random.Random(1)
    header = data.index(b"blk.2.ffn_up.weight")
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 8])):
            damaged[generator.randrange(header)] = generator.randrange(256)
        path = tmp_path / "damaged.gguf"
        path.write_bytes(damaged)
        # Anything but a coded error would end the test.
        with contextlib.suppress(AscendInferError):
            load_weights(GgufSource(path), device=torch.device("cpu"), dtype=torch.float32)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"\0" * 4096, b"PK\3\4" + b"x" * 100])
def test_not_a_gguf_file(content: bytes, tmp_path: Path):
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(AscendInferError) as caught:
        GgufFile.open(path)
    assert caught.value.code == "AI-MODEL-011" and str(path) in str(caught.value)


def test_absent_file(tmp_path: Path):
    with pytest.raises(AscendInferError) as caught:
        GgufFile.open(tmp_path / "none.gguf")
    assert caught.value.code == "AI-MODEL-010"


@pytest.mark.parametrize("value", ["text", 7, True, ["a"], [1]], ids=repr)
@pytest.mark.parametrize(
    "key",
    [
        "general.alignment",
        "llama.attention.key_length",
        "llama.rope.dimension_count",
        "llama.rope.scaling.type",
        "llama.rope.scaling.factor",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.bos_token_id",
    ],
)
def test_metadata_of_another_kind(
    key: str, value: object, llama_gguf: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each is usable as it is, or refused with a code."""
    file = GgufFile.open(llama_gguf)
    changed = dataclasses.replace(file, metadata={**file.metadata, key: value})
    monkeypatch.setattr(GgufFile, "open", lambda path: changed)
    with contextlib.suppress(AscendInferError):
        GgufSource(llama_gguf)


def test_typed_access_to_metadata(llama_gguf: Path):
    file = dataclasses.replace(
        GgufFile.open(llama_gguf), metadata={"n": 3, "b": True, "t": "x", "l": ["a"], "m": ["a", 1]}
    )
    assert file.value("n", int) == file.value("n", float) == 3 and file.value("t", str) == "x"
    assert file.value("b", bool) is True and file.value("absent", int) is None
    assert file.array("l", str) == ["a"] and file.array("absent", str) == []
    wrong = [("n", str), ("b", int), ("b", float), ("t", int), ("n", bool), ("l", str)]
    for key, kind in wrong:
        with pytest.raises(AscendInferError, match="AI-MODEL-011"):
            file.value(key, kind)
    for key, kind in [("n", int), ("t", str), ("m", str), ("m", int)]:
        with pytest.raises(AscendInferError, match="AI-MODEL-011"):
            file.array(key, kind)


@pytest.mark.parametrize("change", [{"shape": (0,)}, {"shape": (1,) * 9}, {"offset": 33}])
def test_a_tensor_entry_that_cannot_be(
    change: dict[str, Any], llama_gguf: Path, monkeypatch: pytest.MonkeyPatch
):
    file, name = GgufFile.open(llama_gguf), "blk.0.attn_q.weight"
    wrong = dataclasses.replace(file.tensors[name], **change)
    changed = dataclasses.replace(file, tensors={**file.tensors, name: wrong})
    monkeypatch.setattr(GgufFile, "open", lambda path: changed)
    if "offset" in change:
        data = bytearray(llama_gguf.read_bytes())
        entry = data.index(name.encode()) + len(name) + 4 + 2 * 8 + 4
        data[entry] += 1
        monkeypatch.undo()
        llama_gguf = llama_gguf.with_name("misaligned.gguf")
        llama_gguf.write_bytes(data)
    with pytest.raises(AscendInferError) as caught:
        load_weights(GgufSource(llama_gguf), device=torch.device("cpu"), dtype=torch.float32)
    assert caught.value.code == ("AI-MODEL-011" if "offset" in change else "AI-MODEL-013")
