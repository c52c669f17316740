"""Whether two hosts in half precision decode the same, where two tokens may be equally likely.

The measure is float32: what transformers gives for the tokens that a host has decoded, in the
context that it has decoded them in. `noise` is the most by which a log probability of the *stock*
host is off. A host that is off by so much may prefer a token to another that is up to twice as much
more likely, and so may ours: a token that is not the stock host's, or that follows such a one,
must be the likeliest in float32 up to that. Everything else is an error, as is a log probability
of ours that is off by more.

`ascend_infer.verification.vllm.compare` cannot say so much: it has nothing but the two engines, as
on a host whose model is too large for a third computation. It takes the stock one for right, allows
a fixed number of ulps, and ends with a sequence where the first token differs. Here the stock host
is judged too, by as much as it is really off, and each token behind a tie in its own context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

#: How far ours may be off, in units of `noise`, which is the largest value of a sample.
SLACK = 1.5
#: More than half precision costs in any of these models: the stock host itself is wrong.
TOO_MUCH = {"float16": 0.1, "bfloat16": 0.8}


class Reference:
    """The model of `folder` in `dtype`, computed in float32."""

    def __init__(self, folder: Path, dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self.dtype = dtype
        half = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self._model = half.float().eval()
        self._known: dict[tuple[int, ...], torch.Tensor] = {}

    def logprobs(self, prompt: Sequence[int], decoded: Sequence[int]) -> torch.Tensor:
        """`[len(decoded), vocabulary]`: of each token of `decoded`, given those before it."""
        key = (*prompt, *decoded)
        if key not in self._known:
            with torch.no_grad():
                logits = self._model(torch.tensor([key])).logits[0, len(prompt) - 1 : -1]
            self._known[key] = logits.log_softmax(-1)
        return self._known[key]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """noise: of the stock host. ours: the same of ours. ties: tokens that differ and may; errors:
    what may not be."""

    noise: float
    ours: float
    ties: list[str]
    errors: list[str]


def compare(
    ours: dict[str, Any],
    stock: dict[str, Any],
    rounds: Sequence[Sequence[Sequence[int]]],
    reference: Reference,
) -> Agreement:
    """Two runs of `rounds`: `engine.Decoded` as dictionaries, their scores log probabilities."""
    noise, own = (_deviation(found, rounds, reference) for found in (stock, ours))
    errors, ties = [], []
    if noise > TOO_MUCH[reference.dtype]:
        errors.append(f"the stock host's log probabilities are off by {noise:.4f}")
    if own > SLACK * noise:
        errors.append(f"log probabilities off by {own:.4f}, the stock host's by {noise:.4f}")
    for batch, (prompts, ours_tokens, stock_tokens) in enumerate(
        zip(rounds, ours["tokens"], stock["tokens"], strict=True)
    ):
        for row, (prompt, mine, theirs) in enumerate(
            zip(prompts, ours_tokens, stock_tokens, strict=True)
        ):
            if mine == theirs:
                continue
            first = next(i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b)
            rows = reference.logprobs(prompt, mine)
            chosen = rows.gather(1, torch.tensor(mine)[:, None])[:, 0]
            behind = (rows.max(1).values - chosen)[first:]
            step = first + int(behind.argmax())
            what = (
                f"round {batch}, prompt {row} of {len(prompt)} tokens: {mine[first:]} for "
                f"{theirs[first:]} from step {first}; in step {step} a token was chosen that is "
                f"{behind.max():.4f} behind"
            )
            (ties if behind.max() <= (1 + SLACK) * noise else errors).append(what)
    return Agreement(noise=noise, ours=own, ties=ties, errors=errors)


def _deviation(
    found: dict[str, Any], rounds: Sequence[Sequence[Sequence[int]]], reference: Reference
) -> float:
    """The most by which a log probability that a host reports is not float32's."""
    most = 0.0
    for prompts, tokens, logprobs in zip(rounds, found["tokens"], found["scores"], strict=True):
        for prompt, decoded, steps in zip(prompts, tokens, logprobs, strict=True):
            rows = reference.logprobs(prompt, decoded)
            for row, step in zip(rows, steps, strict=True):
                ids = torch.tensor([int(token) for token in step])
                most = max(most, float((row[ids] - torch.tensor(list(step.values()))).abs().max()))
    return most
