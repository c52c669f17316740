"""Writes a tiny Llama or Qwen2 as a GGUF file, with the row order llama.cpp's converter gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ascend_infer.model.weights_safetensors import SafetensorsSource

_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_INNER = {
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


def interleave_halves(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Row i of a head's first half goes to 2i, row i of its second half to 2i + 1."""
    head_dim = rows.shape[0] // heads
    out = np.empty_like(rows)
    for head in range(heads):
        for i in range(head_dim // 2):
            out[head * head_dim + 2 * i] = rows[head * head_dim + i]
            out[head * head_dim + 2 * i + 1] = rows[head * head_dim + head_dim // 2 + i]
    return out


def gguf_name(name: str) -> str:
    base, kind = name.rsplit(".", 1)
    if base in _OUTER:
        return f"{_OUTER[base]}.{kind}"
    _, _, layer, rest = base.split(".", 3)
    return f"blk.{layer}.{_INNER[rest]}.{kind}"


def write_gguf(
    source: SafetensorsSource,
    path: Path,
    *,
    quantisation: str = "F32",
    rope_factors: list[float] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """Write the model of `source` to `path`; norms and biases stay float32."""
    import gguf

    config = source.config
    arch = "qwen2" if config.architecture == "qwen2" else "llama"
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_context_length(config.max_position)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_layers)
    writer.add_head_count(config.num_q_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_dimension_count(config.rotary_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for key, value in (metadata or {}).items():
        add = writer.add_array if isinstance(value, list) else None
        if add is not None:
            add(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    kind = gguf.GGMLQuantizationType[quantisation]
    for name in sorted(source.names()):
        values = source.tensor(name).float().numpy()
        if arch == "llama" and ".q_proj." in name:
            values = interleave_halves(values, config.num_q_heads)
        elif arch == "llama" and ".k_proj." in name:
            values = interleave_halves(values, config.num_kv_heads)
        if values.ndim == 2 and kind.name not in ("F32", "F16"):
            raw = gguf.quants.quantize(values, kind)
            writer.add_tensor(gguf_name(name), raw, raw_shape=raw.shape, raw_dtype=kind)
        else:
            dtype = np.float16 if kind.name == "F16" and values.ndim == 2 else np.float32
            writer.add_tensor(gguf_name(name), values.astype(dtype))
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(rope_factors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
