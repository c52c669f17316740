"""The independent reference: transformers in float32 with the same dequantised weights.

The engine keeps the logits that chose each of its tokens. Here the same tokens are given to transformers
in one pass (teacher forcing), so both sides see the same context at every step and one early difference
cannot hide the later ones.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ascend_infer.engine import Generation
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.weights import WeightSource
from ascend_infer.model.weights_safetensors import SafetensorsSource
from kernels_npu.errors import EnvironmentProblem, UnsupportedError, UsageError

#: Differences that float32 itself leaves between two correct implementations.
_FLOAT32_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class ReferenceReport:
    """What a comparison of decode steps with the reference found.

    steps: decode steps compared (prefill is not one of them; see `prefill_max_abs_logit_diff`).
    tolerance: change of a gap between logits that rounding to the dtype explains, see `logit_tolerance`.
    top1_agreement: share of all steps whose most likely token is the reference's, 0.0 to 1.0.
    decided_steps: steps where the reference's two best logits differ by more than `tolerance`.
    decided_agreements: those of them whose most likely token is the reference's.
    """

    steps: int
    max_abs_logit_diff: float
    prefill_max_abs_logit_diff: float
    top1_agreement: float
    tolerance: float
    decided_steps: int
    decided_agreements: int

    @property
    def passed(self) -> bool:
        """Whether every step that the reference decides clearly was decided the same way."""
        return self.decided_agreements == self.decided_steps and math.isfinite(
            self.max_abs_logit_diff
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "steps": self.steps,
            "max_abs_logit_diff": self.max_abs_logit_diff,
            "prefill_max_abs_logit_diff": self.prefill_max_abs_logit_diff,
            "top1_agreement": self.top1_agreement,
            "tolerance": self.tolerance,
            "decided_steps": self.decided_steps,
            "decided_agreements": self.decided_agreements,
            "passed": self.passed,
        }


def check_against_reference(
    source: WeightSource, generations: Sequence[Generation], dtype: torch.dtype
) -> ReferenceReport:
    """Compare generations that kept their logits with transformers.

    Args:
        dtype: what the generations were computed in; sets the tolerance.

    Raises:
        UsageError: AI-MODEL-034 when no logits were kept.
        EnvironmentProblem: AI-MODEL-015 when transformers is not installed.
        UnsupportedError: AI-MODEL-034 when transformers cannot express the model.
    """
    model = reference_model(source)
    ours, reference, is_prefill = [], [], []
    for generation in generations:
        if generation.logits is None:
            raise UsageError(
                "AI-MODEL-034",
                "a generation kept no logits to compare",
                fix="generate with keep_logits=True",
            )
        ours.append(generation.logits)
        reference.append(reference_logits(model, generation))
        is_prefill += [row == 0 for row in range(len(generation.output_token_ids))]
    return compare_logits(
        torch.cat(ours),
        torch.cat(reference),
        torch.tensor(is_prefill, dtype=torch.bool),
        dtype,
        source.config.num_layers,
    )


def compare_logits(
    ours: torch.Tensor,
    reference: torch.Tensor,
    is_prefill: torch.Tensor,
    dtype: torch.dtype,
    num_layers: int,
) -> ReferenceReport:
    """Compare float32 logits `[steps, vocab]` row by row; `is_prefill` is bool `[steps]`."""
    difference = (ours - reference).abs().amax(dim=-1)
    difference = difference.nan_to_num(nan=math.inf)
    tolerance = logit_tolerance(reference, dtype, num_layers)
    best_two = reference.topk(2, dim=-1).values
    decode = ~is_prefill
    agree = (ours.argmax(dim=-1) == reference.argmax(dim=-1))[decode]
    decided = ((best_two[:, 0] - best_two[:, 1]) > tolerance)[decode]
    steps = int(decode.sum())
    return ReferenceReport(
        steps=steps,
        max_abs_logit_diff=_largest(difference[decode]),
        prefill_max_abs_logit_diff=_largest(difference[is_prefill]),
        top1_agreement=float(agree.float().mean()) if steps else 1.0,
        tolerance=tolerance,
        decided_steps=int(decided.sum()),
        decided_agreements=int((agree & decided).sum()),
    )


def logit_tolerance(reference: torch.Tensor, dtype: torch.dtype, num_layers: int) -> float:
    """The change of a difference between two logits that rounding explains.

    Each layer rounds its result to `dtype`; independent roundings add up like a random walk, so a logit is
    off by about eps * sqrt(layers) of the largest one, and two logits move against each other by twice that.
    """
    per_logit = torch.finfo(dtype).eps * float(reference.abs().max()) * math.sqrt(num_layers)
    return max(_FLOAT32_TOLERANCE, 2 * per_logit)


def reference_logits(model: Any, generation: Generation) -> torch.Tensor:
    """What the reference would have chosen each output token from: `[output tokens, vocab]`."""
    prompt, output = generation.prompt_token_ids, generation.output_token_ids
    # The last output token is never fed back.
    tokens = torch.tensor([[*prompt, *output[:-1]]], dtype=torch.int64)
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0, len(prompt) - 1 :]
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"transformers gave {type(logits).__name__}, expected logits")
    return logits.float()


def reference_model(source: WeightSource) -> Any:
    """The model as transformers implements it, on the host in float32."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "the reference check needs the package transformers",
            fix="pip install 'ascend-infer[model]', or leave out --verify",
        ) from error
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
            "transformers has no RoPE with one stored factor per frequency, which this GGUF file uses",
            fix="compare with the model's safetensors directory",
        )
    rope: dict[str, Any] = {"rope_type": scaling.kind, "rope_theta": config.rope_theta}
    if scaling.kind != "default":
        rope["factor"] = scaling.factor
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


def _largest(differences: torch.Tensor) -> float:
    return float(differences.max()) if differences.numel() else 0.0
