"""Weights from one GGUF file: configuration from its metadata, tensors dequantised to float32."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ascend_infer.model.config import ModelConfig
from ascend_infer.model.gguf_file import GgufFile, GgufTensor, corrupt
from kernels_npu.errors import EnvironmentProblem, UnsupportedError

#: Tensors outside the layers, and inside layer N: Hugging Face name -> GGUF name.
_OUTER = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_IN_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
#: Metadata key after `<architecture>.` -> `config.json` key.
_METADATA = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
}


class GgufSource:
    """A GGUF file of the `llama` or `qwen2` architecture."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = GgufFile.open(path)
        self._gguf_names = _names(self.file)
        self.config = ModelConfig.from_hf(self._config_values(), origin=str(path))
        if self.config.architecture == "llama" and self.config.rotary_dim != self.config.head_dim:
            raise UnsupportedError(
                "AI-MODEL-004",
                f"{path}: a llama file that rotates {self.config.rotary_dim} of "
                f"{self.config.head_dim} elements per head",
                rule="the row order of Q and K is known for full rotation only",
                fix="use the model's safetensors directory",
            )

    def names(self) -> frozenset[str]:
        """All tensors of the file that have a Hugging Face name."""
        return frozenset(self._gguf_names)

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor on the host in float32, with the row order of Hugging Face checkpoints.

        Raises:
            UsageError: AI-MODEL-011 when the data ends early.
            UnsupportedError: AI-MODEL-014 for a quantisation that the library does not know.
        """
        values = dequantise(self.file, self.file.tensors[self._gguf_names[name]])
        heads = self._permuted_heads(name)
        # Another number of rows is refused by whoever knows the expected shape.
        if heads and values.shape[0] == heads * self.config.head_dim:
            values = undo_rope_permutation(values, heads)
        return torch.from_numpy(values)

    def _permuted_heads(self, name: str) -> int:
        """Heads of a tensor whose rows llama.cpp stores in its own order; 0 for all others."""
        if self.config.architecture != "llama":
            return 0
        if ".q_proj." in name:
            return self.config.num_q_heads
        return self.config.num_kv_heads if ".k_proj." in name else 0

    def _config_values(self) -> dict[str, Any]:
        """The metadata under the names of a `config.json`."""
        file, tensors = self.file, self.file.tensors
        architecture = file.value("general.architecture", str)
        values: dict[str, Any] = {
            hf_key: file.metadata.get(f"{architecture}.{key}") for key, hf_key in _METADATA.items()
        }
        values["model_type"] = architecture
        embedding = tensors.get("token_embd.weight")
        if embedding is not None and len(embedding.shape) == 2:
            values["vocab_size"] = embedding.shape[0]
        values["tie_word_embeddings"] = "output.weight" not in tensors
        values["attention_bias"] = "blk.0.attn_q.bias" in tensors
        # A chat model ends its turn with `eot`, which may differ from the end of the text.
        ends = [file.value(f"tokenizer.ggml.{name}_token_id", int) for name in ("eos", "eot")]
        values["eos_token_id"] = list(dict.fromkeys(end for end in ends if end is not None))
        values["bos_token_id"] = file.value("tokenizer.ggml.bos_token_id", int)
        _add_rope(values, file, str(architecture))
        return values


def undo_rope_permutation(rows: np.ndarray[Any, Any], num_heads: int) -> np.ndarray[Any, Any]:
    """Give Q or K rows (weights `[heads * head_dim, in]` or a bias) back their half-split order.

    llama.cpp rotates neighbours (2i, 2i+1), so its converter stores row i of a head's first half at
    2i and row i of its second half at 2i+1. Our kernels rotate (i, i + head_dim/2).
    """
    pairs = rows.shape[0] // num_heads // 2
    split = rows.reshape(num_heads, pairs, 2, -1)
    restored: np.ndarray[Any, Any] = np.ascontiguousarray(split.swapaxes(1, 2))
    restored.shape = rows.shape
    return restored


def dequantise(file: GgufFile, tensor: GgufTensor) -> np.ndarray[Any, Any]:
    """The values of `tensor` in float32, a new array."""
    gguf = _library()
    try:
        kind = gguf.GGMLQuantizationType(tensor.type_id)
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise _unknown_type(file, tensor, f"type {tensor.type_id}") from error
    elements = math.prod(tensor.shape)
    if not tensor.shape or tensor.shape[-1] % per_block:
        raise corrupt(
            file.path,
            f"{tensor.name} has shape {tensor.shape}, {kind.name} needs rows of whole "
            f"blocks of {per_block}",
        )
    size = elements // per_block * block_bytes
    if tensor.offset + size > len(file.data):
        raise corrupt(
            file.path,
            f"{tensor.name} needs {size} bytes at offset {tensor.offset}, the file has "
            f"{len(file.data)} bytes",
        )
    raw = np.frombuffer(file.data, dtype=np.uint8, count=size, offset=tensor.offset)
    if kind.name in ("F32", "F16"):
        stored = raw.view(np.float32 if kind.name == "F32" else np.float16)
        return stored.astype(np.float32).reshape(tensor.shape)
    row_bytes = tensor.shape[-1] // per_block * block_bytes
    try:
        values = gguf.quants.dequantize(raw.reshape(*tensor.shape[:-1], row_bytes), kind)
    except NotImplementedError as error:
        raise _unknown_type(file, tensor, kind.name) from error
    return np.ascontiguousarray(values, dtype=np.float32).reshape(tensor.shape)


def _unknown_type(file: GgufFile, tensor: GgufTensor, kind: str) -> UnsupportedError:
    return UnsupportedError(
        "AI-MODEL-014",
        f"{file.path}: {tensor.name} is stored as {kind}",
        rule="quantisations that the installed library gguf can dequantise",
        fix="pip install -U gguf, or use a file with a common quantisation such as Q8_0 or Q4_K",
    )


def _library() -> Any:
    try:
        import gguf
        import gguf.quants
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "reading GGUF files needs the package gguf",
            fix="pip install 'ascend-infer[model]'",
        ) from error
    return gguf


def _names(file: GgufFile) -> dict[str, str]:
    """Hugging Face name -> GGUF name, of the tensors that are there."""
    layers = {
        int(parts[1])
        for name in file.tensors
        if (parts := name.split("."))[0] == "blk" and len(parts) > 2 and parts[1].isdecimal()
    }
    bases = dict(_OUTER)
    for layer in layers:
        for hf_name, gguf_name in _IN_LAYER.items():
            bases[f"model.layers.{layer}.{hf_name}"] = f"blk.{layer}.{gguf_name}"
    return {
        f"{hf_name}.{kind}": f"{gguf_name}.{kind}"
        for hf_name, gguf_name in bases.items()
        for kind in ("weight", "bias")
        if f"{gguf_name}.{kind}" in file.tensors
    }


def _add_rope(values: dict[str, Any], file: GgufFile, architecture: str) -> None:
    """RoPE settings: rotated part of a head, scaling kind, stored frequency factors."""

    prefix = f"{architecture}.rope."
    heads, hidden, head_dim = (
        file.value(f"{architecture}.{key}", int)
        for key in ("attention.head_count", "embedding_length", "attention.key_length")
    )
    if head_dim is None and hidden and heads:
        head_dim = hidden // heads
    rotated = file.value(prefix + "dimension_count", int)
    if head_dim and rotated:
        values["partial_rotary_factor"] = rotated / head_dim
    kind = file.value(prefix + "scaling.type", str)
    if kind not in (None, "none"):
        factor = file.value(prefix + "scaling.factor", float)
        values["rope_scaling"] = {"rope_type": kind, "factor": factor}
    factors = file.tensors.get("rope_freqs.weight")
    if factors is not None:
        values["rope_scaling"] = {
            "rope_type": "factors",
            "factors": dequantise(file, factors).reshape(-1).tolist(),
        }
