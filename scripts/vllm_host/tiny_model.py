"""A small decoder with random weights, on disk as transformers saves it, and what it decodes
greedily.

The weights have the scale of trained ones, so that a wrong attention, position or cache slot
changes tokens: with weights as small as an initialisation's, all logits are nearly alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

VOCABULARY = 512
_SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: Standard deviations of a projection's output for inputs of 1; the rest of the linears have 1.
_GAINS = {"q_proj": 2.0, "k_proj": 2.0, "o_proj": 2.0, "down_proj": 2.0, "lm_head": 2.0}


def write(
    folder: Path, kind: str = "Qwen3", *, layers: int = 2, seed: int = 0, **changed: Any
) -> None:
    """Write the model, in bfloat16, into `folder`.

    kind: a decoder of transformers by the name of its configuration without "Config"; changed:
    arguments of that configuration that are not a small model's.
    """
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        **{**_SMALL, "num_hidden_layers": layers, **changed}
    )
    generator = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                values = 0.2 * values + (0 if name.endswith("bias") else 1)
            elif "embed" not in name:
                gain = next((g for part, g in _GAINS.items() if part in name), 1.0)
                values *= gain * weight.shape[-1] ** -0.5
            weight.copy_(values)
    model.to(torch.bfloat16).save_pretrained(folder)


def prompts(lengths: Sequence[int], seed: int = 1) -> list[list[int]]:
    """A random prompt of each length, without the special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def greedy(folder: Path, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """What transformers decodes on the CPU in float32, one prompt at a time."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    options: Mapping[str, object] = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    found = []
    for prompt in prompts:
        out = model.generate(torch.tensor([prompt]), max_new_tokens=new_tokens, **options)
        found.append(out[0, len(prompt) :].tolist())
    return found
