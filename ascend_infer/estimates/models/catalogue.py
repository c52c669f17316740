"""Public models by name: configurations written from their model cards and papers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_infer.estimates.models.decoder import Decoder
from ascend_infer.estimates.models.reading import read_decoder
from ascend_infer.model.config import read_json
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class PublicModel:
    """A model and the parameters that its card states, in billions; active ones where it does."""

    name: str
    billions: float
    active_billions: float | None = None
    config: Mapping[str, Any]


def _config(
    model_type: str,
    layers: int,
    hidden_size: int,
    width: int,
    heads: int,
    kv_heads: int | None,
    vocab_size: int,
    context: int,
    **further: Any,
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden_size,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab_size,
        "max_position_embeddings": context,
        **further,
    }


def _experts(count: int, active: int, width: int | None = None, **further: Any) -> dict[str, Any]:
    key = "num_experts" if width is not None else "num_local_experts"
    return {key: count, "num_experts_per_tok": active, "moe_intermediate_size": width, **further}


def _deepseek(
    routed: int, active: int, width: int, shared: int, dense: int, q_rank: int | None
) -> dict[str, Any]:
    return {
        "n_routed_experts": routed,
        "num_experts_per_tok": active,
        "moe_intermediate_size": width,
        "n_shared_experts": shared,
        "first_k_dense_replace": dense,
        "q_lora_rank": q_rank,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }


_K = 1024
MODELS: dict[str, PublicModel] = {
    model.name: model
    for model in (
        PublicModel(
            name="smollm2-135m",
            billions=0.135,
            config=_config(
                "llama", 30, 576, 1536, 9, 3, 49152, 8 * _K, tie_word_embeddings=True
            ),
        ),
        PublicModel(
            name="llama-3.2-1b",
            billions=1.24,
            config=_config(
                "llama", 16, 2048, 8192, 32, 8, 128256, 128 * _K, tie_word_embeddings=True
            ),
        ),
        PublicModel(
            name="llama-3.1-8b",
            billions=8.03,
            config=_config("llama", 32, 4096, 14336, 32, 8, 128256, 128 * _K),
        ),
        PublicModel(
            name="llama-3.1-70b",
            billions=70.6,
            config=_config("llama", 80, 8192, 28672, 64, 8, 128256, 128 * _K),
        ),
        PublicModel(
            name="qwen2.5-0.5b",
            billions=0.49,
            config=_config(
                "qwen2", 24, 896, 4864, 14, 2, 151936, 32 * _K, tie_word_embeddings=True
            ),
        ),
        PublicModel(
            name="qwen2.5-7b",
            billions=7.61,
            config=_config("qwen2", 28, 3584, 18944, 28, 4, 152064, 128 * _K),
        ),
        PublicModel(
            name="qwen3-0.6b",
            billions=0.6,
            config=_config(
                "qwen3", 28, 1024, 3072, 16, 8, 151936, 40 * _K, head_dim=128,
                tie_word_embeddings=True,
            ),
        ),
        PublicModel(
            name="qwen3-8b",
            billions=8.2,
            config=_config("qwen3", 36, 4096, 12288, 32, 8, 151936, 40 * _K, head_dim=128),
        ),
        PublicModel(
            name="qwen3-32b",
            billions=32.8,
            config=_config("qwen3", 64, 5120, 25600, 64, 8, 151936, 40 * _K, head_dim=128),
        ),
        PublicModel(
            name="qwen3-30b-a3b",
            billions=30.5,
            active_billions=3.3,
            config=_config("qwen3_moe", 48, 2048, 6144, 32, 4, 151936, 40 * _K, head_dim=128)
            | _experts(128, 8, 768),
        ),
        PublicModel(
            name="qwen3-235b-a22b",
            billions=235,
            active_billions=22,
            config=_config("qwen3_moe", 94, 4096, 12288, 64, 4, 151936, 40 * _K, head_dim=128)
            | _experts(128, 8, 1536),
        ),
        PublicModel(
            name="mistral-7b-v0.1",
            billions=7.24,
            config=_config(
                "mistral", 32, 4096, 14336, 32, 8, 32000, 32 * _K, sliding_window=4096
            ),
        ),
        PublicModel(
            name="mixtral-8x7b",
            billions=46.7,
            active_billions=12.9,
            config=_config("mixtral", 32, 4096, 14336, 32, 8, 32000, 32 * _K) | _experts(8, 2),
        ),
        PublicModel(
            name="deepseek-v2-lite",
            billions=15.7,
            active_billions=2.4,
            config=_config("deepseek_v2", 27, 2048, 10944, 16, 16, 102400, 160 * _K)
            | _deepseek(64, 6, 1408, 2, 1, None),
        ),
        PublicModel(
            name="deepseek-v2",
            billions=236,
            active_billions=21,
            config=_config("deepseek_v2", 60, 5120, 12288, 128, 128, 102400, 160 * _K)
            | _deepseek(160, 6, 1536, 2, 1, 1536),
        ),
        PublicModel(
            name="deepseek-v3",
            billions=671,
            active_billions=37,
            config=_config("deepseek_v3", 61, 7168, 18432, 128, 128, 129280, 160 * _K)
            | _deepseek(256, 8, 2048, 1, 3, 1536),
        ),
        PublicModel(
            name="gemma-2-9b",
            billions=9.24,
            config=_config(
                "gemma2", 42, 3584, 14336, 16, 8, 256000, 8 * _K, head_dim=256,
                sliding_window=4096,
            ),
        ),
        PublicModel(
            name="gemma-3-27b",
            billions=27.0,
            config=_config(
                "gemma3_text", 62, 5376, 21504, 32, 16, 262208, 128 * _K, head_dim=128,
                sliding_window=1024,
            ),
        ),
        PublicModel(
            name="gpt-oss-20b",
            billions=20.9,
            active_billions=3.6,
            config=_config(
                "gpt_oss", 24, 2880, 2880, 64, 8, 201088, 128 * _K, head_dim=64,
                sliding_window=128,
            )
            | _experts(32, 4),
        ),
        PublicModel(
            name="gpt-oss-120b",
            billions=116.8,
            active_billions=5.1,
            config=_config(
                "gpt_oss", 36, 2880, 2880, 64, 8, 201088, 128 * _K, head_dim=64,
                sliding_window=128,
            )
            | _experts(128, 4),
        ),
        PublicModel(
            name="phi-3-mini",
            billions=3.82,
            config=_config("phi3", 32, 3072, 8192, 32, 32, 32064, 4 * _K, sliding_window=2047),
        ),
        PublicModel(
            name="phi-4",
            billions=14.7,
            config=_config("phi3", 40, 5120, 17920, 40, 10, 100352, 16 * _K),
        ),
        PublicModel(
            name="glm-4-9b",
            billions=9.4,
            config=_config("glm", 40, 4096, 13696, 32, 2, 151552, 128 * _K, head_dim=128),
        ),
        PublicModel(
            name="glm-4.5-air",
            billions=106,
            active_billions=12,
            config=_config(
                "glm4_moe", 46, 4096, 10944, 96, 8, 151552, 128 * _K, head_dim=128,
                attention_bias=True, n_routed_experts=128, num_experts_per_tok=8,
                moe_intermediate_size=1408, n_shared_experts=1, first_k_dense_replace=1,
            ),
        ),
    )
}  # fmt: skip


def _key(name: str) -> str:
    return name.lower().rpartition("/")[2].replace("_", "-").replace(" ", "-")


def public_model(name: str) -> PublicModel | None:
    """The known model called `name`, however it is written and with or without its maker."""
    return MODELS.get(_key(name))


def load_decoder(name: str) -> Decoder:
    """The decoder called `name`: a name of `MODELS`, a `config.json`, or a folder that has one.

    Raises:
        AscendInferError: AI-EST-005 for a name that is none of the three, AI-MODEL-001, 002, 007
            and AI-EST-004 for a configuration that is not usable.
    """
    model = public_model(name)
    if model is not None:
        return read_decoder({"_name_or_path": model.name, **model.config}, model.name)
    try:
        path = Path(name).expanduser()
        file = path / "config.json" if path.is_dir() else path
        found = file.is_file()
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a zero byte
        found = False
    if found:
        return read_decoder(read_json(file), str(file))
    near = difflib.get_close_matches(_key(name), MODELS, n=4, cutoff=0.4) or list(MODELS)[:6]
    raise UsageError(
        "AI-EST-005",
        f"no model {name[:200]!r}: neither a known name nor a configuration file",
        rule="a model is a config.json, a folder with one, or one of: " + ", ".join(MODELS),
        fix=f"give the path of its config.json, or a name such as {' or '.join(near)}",
    )
