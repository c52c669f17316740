"""The reference model: transformers on the host in float32, with the weights that our model has.

It can run in this process, or in one of its own: transformers looks at every accelerator that torch
knows, and must not meet the simulated one.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ascend_infer.model.config import ModelConfig
from ascend_infer.model.weights import WeightSource
from ascend_infer.model.weights_safetensors import SafetensorsSource
from kernels_npu.errors import EnvironmentProblem, UnsupportedError

#: Prompt and output tokens of a generation.
Tokens = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class ReferenceLogits:
    """What the reference would have chosen each output token from.

    values: per generation float32 `[output tokens, vocab]`.
    rounding: what the reference itself loses in the dtype of the generations: the largest root mean
        square of one row's differences. 0.0 for float32, infinite when it overflows in that dtype.
    """

    values: list[torch.Tensor]
    rounding: float


def logits(
    source: WeightSource, generations: Sequence[Tokens], dtype: torch.dtype
) -> ReferenceLogits:
    """The reference's logits for given tokens: it sees those, not its own.

    Raises:
        EnvironmentProblem: AI-MODEL-015 when transformers is not installed.
        UnsupportedError: AI-MODEL-034 when transformers cannot express the model.
    """
    model = reference_model(source)
    values = _forward(model, generations)
    if dtype is torch.float32:
        return ReferenceLogits(values=values, rounding=0.0)
    rounded = _forward(model.to(dtype), generations)
    worst = max(
        float((a - b).square().mean(dim=-1).sqrt().nan_to_num(nan=math.inf).max())
        for a, b in zip(values, rounded)
    )
    return ReferenceLogits(values=values, rounding=worst)


def _forward(model: Any, generations: Sequence[Tokens]) -> list[torch.Tensor]:
    results = []
    for prompt, output in generations:
        # The last output token is never fed back.
        tokens = torch.tensor([[*prompt, *output[:-1]]], dtype=torch.int64)
        with torch.no_grad():
            # Only rows that chose an output token: those of a long prompt would fill the memory.
            kept = model(tokens, use_cache=False, logits_to_keep=len(output)).logits
        results.append(kept[0].float())
    return results


def logits_isolated(
    source: WeightSource, generations: Sequence[Tokens], dtype: torch.dtype
) -> ReferenceLogits:
    """`logits`, computed in a process of its own without any accelerator."""
    require_reference(source)
    with tempfile.TemporaryDirectory(prefix="ascend-infer-") as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.pt")
        asked = {
            "model": str(source.path),
            "generations": generations,
            "dtype": str(dtype).removeprefix("torch."),
        }
        request.write_text(json.dumps(asked), encoding="utf-8")
        finished = subprocess.run(
            [sys.executable, "-m", "ascend_infer.reference", str(request), str(answer)],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise _failed(finished)
        return ReferenceLogits(**torch.load(answer, weights_only=True))


def require_reference(source: WeightSource) -> None:
    """Refuse, before anything is decoded for it, a reference that cannot be made.

    Raises:
        EnvironmentProblem: AI-MODEL-015 when transformers is not installed.
        UnsupportedError: AI-MODEL-034 when transformers cannot express the model.
    """
    _require_transformers()
    _config_values(source)


def _failed(finished: subprocess.CompletedProcess[str]) -> EnvironmentProblem:
    """What became of a reference process that gave no answer."""
    lines = [line for line in finished.stderr.splitlines() if line.strip()] or ["no message"]
    why = lines[-1].strip()
    if finished.returncode < 0:
        why = f"signal {-finished.returncode} ended it (9 is usually lack of memory)"
    return EnvironmentProblem(
        "AI-MODEL-036",
        f"the process that computes the reference failed: {why}",
        rule="the reference runs in a process of its own, in float32: four bytes per weight",
        fix="see that `python -c 'import transformers'` works, or leave out --verify",
    )


def _answer(request: Path, answer: Path) -> None:
    """The child's side of `logits_isolated`."""
    from ascend_infer.model.catalogue import resolve

    asked = json.loads(request.read_text(encoding="utf-8"))
    source = resolve(asked["model"]).open()
    dtype: torch.dtype = getattr(torch, asked["dtype"])
    torch.save(vars(logits(source, asked["generations"], dtype)), answer)


def _require_transformers() -> None:
    # Looked for by name only: importing it here would be the import that isolation is to avoid.
    if importlib.util.find_spec("transformers") is None:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "the reference check needs the package transformers",
            fix="pip install 'ascend-infer[model]', or leave out --verify",
        )


def reference_model(source: WeightSource) -> Any:
    """The model as transformers implements it, on the host in float32."""
    _require_transformers()
    transformers: Any = importlib.import_module("transformers")
    config = transformers.AutoConfig.for_model(**_config_values(source))
    config.tie_word_embeddings = source.config.tied_head
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    )
    result = model.load_state_dict(dict(_state(source)), strict=False, assign=True)
    absent = set(result.missing_keys) - ({"lm_head.weight"} if source.config.tied_head else set())
    if absent or result.unexpected_keys:
        raise UnsupportedError(
            "AI-MODEL-034",
            f"transformers' {config.model_type} model and {source.path} differ in the tensors "
            f"{sorted(absent)[:3]} and {sorted(result.unexpected_keys)[:3]}",
            fix="leave out the reference check for this model",
        )
    model.tie_weights()
    return model.eval()


def _config_values(source: WeightSource) -> dict[str, Any]:
    """The original `config.json` where there is one, else what the GGUF metadata says."""
    if isinstance(source, SafetensorsSource):
        return source.raw_config
    return hf_values(source.config)


def hf_values(config: ModelConfig) -> dict[str, Any]:
    """`config` as the keys of a `config.json`."""
    scaling = config.rope_scaling
    if scaling.kind == "factors":
        raise UnsupportedError(
            "AI-MODEL-034",
            "transformers has no RoPE with one stored factor per frequency, "
            "which this GGUF file uses",
            fix="compare with the model's safetensors directory",
        )
    rope: dict[str, Any] = {"rope_type": scaling.kind, "rope_theta": config.rope_theta}
    if scaling.kind != "default":
        rope["factor"] = scaling.factor
    if config.rotary_dim != config.head_dim:
        rope["partial_rotary_factor"] = config.rotary_dim / config.head_dim
    return {
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_q_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": rope,
        "attention_bias": config.qkv_bias,
        "sliding_window": config.sliding_window or None,
        "tie_word_embeddings": config.tied_head,
    }


def _state(source: WeightSource) -> Iterator[tuple[str, torch.Tensor]]:
    for name in sorted(source.names()):
        yield name, source.tensor(name).float()


if __name__ == "__main__":
    _answer(Path(sys.argv[1]), Path(sys.argv[2]))
