"""The engine: prompts in, tokens out. Prefill runs eagerly, decode steps go through one runner.

A decode step is one batch of all running sequences; a sequence that ends leaves the batch, and a
waiting request takes its place as soon as its worst case fits into the KV cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from ascend_infer.kv_cache import BlockManager, out_of_blocks
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.decoder import DecoderModel
from ascend_infer.sampling import Sampler, SamplingParams
from graphs.batch import DecodeBatch
from kernels_npu.errors import UsageError


class StepRunner(Protocol):
    """What runs a decode step: `graphs.runner.DecodeGraphRunner`, or the model itself, eagerly."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        """Logits `[batch.size, vocab]` on the device for a batch on the host."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A prompt and how to continue it. Generation ends at an end-of-sequence token or the limit."""

    prompt_token_ids: tuple[int, ...]
    max_new_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    ignore_eos: bool = False

    @property
    def most_tokens(self) -> int:
        """Cache rows at the end: the last token is chosen but never fed back."""
        return len(self.prompt_token_ids) + self.max_new_tokens - 1


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What became of a request.

    finish_reason: `stop` (an end-of-sequence token, included in the output) or `length`.
    logits: float32 `[len(output_token_ids), vocab]` on the host, row i chose output token i; None
        unless they were asked for. Row 0 is the prefill's, the others are decode steps'.
    """

    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    finish_reason: str
    logits: torch.Tensor | None = None


@dataclass(kw_only=True)
class _Sequence:
    """A request while it runs; `key` is its number in the caller's list."""

    key: int
    request: Request
    sampler: Sampler
    output: list[int] = field(default_factory=list)
    logits: list[torch.Tensor] = field(default_factory=list)
    finish_reason: str = ""


#: Called after every token: number of the request, token id.
OnToken = Callable[[int, int], None]


class Engine:
    """Runs requests on one model."""

    def __init__(self, model: DecoderModel, runner: StepRunner, *, max_batch: int) -> None:
        """`max_batch` bounds the sequences that decode together."""
        self.model = model
        self.runner = runner
        self.max_batch = max_batch
        self.blocks = BlockManager(
            num_blocks=model.cache.num_blocks, block_size=model.cache.block_size
        )

    def generate(
        self,
        requests: Sequence[Request],
        *,
        keep_logits: bool = False,
        on_token: OnToken | None = None,
    ) -> list[Generation]:
        """Run all requests; results in the order of the requests.

        Raises:
            UsageError: AI-MODEL-030 when a request cannot fit into the KV cache even alone,
                AI-MODEL-031 when it is longer than the model's positions, AI-MODEL-032 for token
                ids outside the vocabulary or an empty prompt. All before anything runs.
        """
        self.check(requests)
        waiting = deque(
            _Sequence(key=key, request=request, sampler=Sampler(request.sampling))
            for key, request in enumerate(requests)
        )
        running: list[_Sequence] = []
        finished: dict[int, Generation] = {}
        try:
            while waiting or running:
                for sequence in self._admit(waiting, running):
                    running.append(sequence)
                    self._advance(sequence, self._prefill(sequence), keep_logits, on_token)
                self._retire(running, finished)
                if running:
                    for sequence, row in zip(running, self._decode(running)):
                        self._advance(sequence, row, keep_logits, on_token)
                    self._retire(running, finished)
        finally:
            # After an error or an interrupt the engine can be used again.
            for sequence in running:
                self.blocks.free(sequence.key)
        return [finished[key] for key in range(len(requests))]

    # ------------------------------------------------------------------ admission

    def check(self, requests: Sequence[Request]) -> None:
        """Refuse requests that can never be run; raises what `generate` raises."""
        for request in requests:
            check_request(request, self.model.config)
            needed = self.blocks.blocks_for(request.most_tokens)
            if needed > self.blocks.num_blocks:
                raise out_of_blocks(
                    needed, self.blocks.num_blocks, self.blocks.num_blocks, self.blocks.block_size
                )

    def _admit(self, waiting: deque[_Sequence], running: list[_Sequence]) -> list[_Sequence]:
        """Take requests in order while the worst case of all that run fits into the cache."""
        reserved = sum(self._worst_case(sequence) for sequence in running)
        entered: list[_Sequence] = []
        while waiting and len(running) + len(entered) < self.max_batch:
            reserved += self._worst_case(waiting[0])
            if reserved > self.blocks.num_blocks:
                break
            entered.append(waiting.popleft())
        return entered

    def _worst_case(self, sequence: _Sequence) -> int:
        return self.blocks.blocks_for(sequence.request.most_tokens)

    # ------------------------------------------------------------------ steps

    def _prefill(self, sequence: _Sequence) -> torch.Tensor:
        prompt = sequence.request.prompt_token_ids
        device = self.model.device
        slots = self.blocks.allocate(sequence.key, len(prompt))
        logits = self.model.prefill(
            torch.tensor(prompt, dtype=torch.int64).to(device),
            torch.arange(len(prompt), dtype=torch.int64).to(device),
            torch.tensor(slots, dtype=torch.int32).to(device),
        )
        return logits.cpu().float()[0]

    def _decode(self, running: Sequence[_Sequence]) -> torch.Tensor:
        return self.runner.run(self._batch(running)).cpu().float()

    def _batch(self, running: Sequence[_Sequence]) -> DecodeBatch:
        """The next step's inputs; every running sequence gets a slot for its newest token."""
        keys = [sequence.key for sequence in running]
        slots = [self.blocks.append(key) for key in keys]
        lengths = [self.blocks.length(key) for key in keys]
        return DecodeBatch.from_lists(
            token_ids=[sequence.output[-1] for sequence in running],
            positions=[length - 1 for length in lengths],
            slot_mapping=slots,
            block_table=[self.blocks.block_table(key) for key in keys],
            seq_lens=lengths,
        )

    def _advance(
        self,
        sequence: _Sequence,
        logits: torch.Tensor,
        keep_logits: bool,
        on_token: OnToken | None,
    ) -> None:
        token = sequence.sampler(logits)
        sequence.output.append(token)
        if keep_logits:
            sequence.logits.append(logits.clone())
        request = sequence.request
        if token in self.model.config.eos_token_ids and not request.ignore_eos:
            sequence.finish_reason = "stop"
        elif len(sequence.output) == request.max_new_tokens:
            sequence.finish_reason = "length"
        if on_token is not None:
            on_token(sequence.key, token)

    def _retire(self, running: list[_Sequence], finished: dict[int, Generation]) -> None:
        for sequence in [s for s in running if s.finish_reason]:
            running.remove(sequence)
            self.blocks.free(sequence.key)
            finished[sequence.key] = Generation(
                prompt_token_ids=sequence.request.prompt_token_ids,
                output_token_ids=tuple(sequence.output),
                finish_reason=sequence.finish_reason,
                logits=torch.stack(sequence.logits) if sequence.logits else None,
            )


def check_request(request: Request, config: ModelConfig) -> None:
    """Refuse a request that a model cannot run whatever its cache; raises as `Engine.generate`."""
    vocab, prompt = config.vocab_size, request.prompt_token_ids
    if not prompt:
        raise UsageError(
            "AI-MODEL-032",
            "the prompt has no tokens",
            fix="pass a prompt of at least one token",
        )
    outside = [token for token in prompt if not 0 <= token < vocab]
    if outside:
        raise UsageError(
            "AI-MODEL-032",
            f"prompt token {outside[0]} is outside the vocabulary of {vocab} tokens",
            fix=f"pass token ids from 0 to {vocab - 1}",
        )
    if request.max_new_tokens < 1:
        raise UsageError(
            "AI-CLI-001",
            f"max_new_tokens is {request.max_new_tokens}",
            fix="ask for at least one new token",
        )
    if request.most_tokens > config.max_position:
        raise UsageError(
            "AI-MODEL-031",
            f"a prompt of {len(prompt)} tokens with {request.max_new_tokens} new ones exceeds "
            f"the model's {config.max_position} positions",
            fix="shorten the prompt or lower --max-new-tokens",
        )
