"""The rules of a scheduler: who runs, what a step holds, how the cache is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_infer.serving_simulation.step_time import LONGEST_SECONDS
from graphs.buckets import BucketPlan
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Batching:
    """When sequences join a batch, and where prompts are computed.

    static: a batch is formed when the last one is over, and keeps its slots until its longest
    sequence ends. mixed: prompts are computed in the steps of decoding sequences, cut into chunks
    by the token budget; otherwise in steps of their own, which decoding waits for.
    """

    static: bool
    mixed: bool
    means: str


BATCHINGS: Mapping[str, Batching] = {
    "static": Batching(
        static=True, mixed=False, means="a batch ends with its longest sequence, then the next"
    ),
    "continuous": Batching(
        static=False, mixed=False, means="free slots are filled between steps; prefill steps alone"
    ),
    "chunked": Batching(
        static=False, mixed=True, means="as continuous; prompts share the steps of decoding"
    ),
}


@dataclass(frozen=True, kw_only=True)
class CacheRules:
    """The paged KV cache.

    blocks: how many there are; None for enough. block_size: tokens per block.
    watermark: share of the blocks that admission leaves free, for sequences that grow.
    reserve_output: admit a sequence only with blocks for all of its output, so that none is ever
    preempted. share_prefixes: blocks of a shared prefix are computed once and kept until their
    room is needed.

    Raises:
        UsageError: AI-SERVE-004 for sizes that no cache has.
    """

    blocks: int | None = None
    block_size: int = 16
    watermark: float = 0.0
    reserve_output: bool = False
    share_prefixes: bool = True

    def __post_init__(self) -> None:
        if (
            (self.blocks is not None and self.blocks < 1)
            or not 1 <= self.block_size <= 4096
            or not 0 <= self.watermark < 1
        ):
            raise UsageError(
                "AI-SERVE-004",
                f"{self.blocks} blocks of {self.block_size} tokens, watermark {self.watermark}",
                rule="at least one block, 1 to 4096 tokens in it, a watermark from 0 to below 1",
                fix="take the number of blocks that the server logs at start",
            )


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """A server.

    batching: one of `BATCHINGS`. slots: most sequences at a time (max_num_seqs).
    token_budget: most tokens in a mixed step (max_num_batched_tokens).
    max_waiting: requests that may wait; more are turned away. None for any number.
    buckets: batch sizes with a graph; decode steps are padded to the next one. Larger steps and
    those that compute prompts, too, take `eager_seconds` more. None: no graphs, no padding.

    Raises:
        UsageError: AI-SERVE-004 for settings with which no step could be formed.
    """

    batching: str = "continuous"
    slots: int = 8
    token_budget: int = 2048
    max_waiting: int | None = None
    cache: CacheRules = field(default_factory=CacheRules)
    buckets: BucketPlan | None = None
    eager_seconds: float = 0.0

    def __post_init__(self) -> None:
        if (
            self.batching not in BATCHINGS
            or not 1 <= self.slots <= 65536
            or self.token_budget <= self.slots
            or (self.max_waiting is not None and self.max_waiting < 0)
            or not 0 <= self.eager_seconds <= LONGEST_SECONDS
        ):
            raise UsageError(
                "AI-SERVE-004",
                f"batching {self.batching!r}, {self.slots} slots, {self.token_budget} tokens per "
                f"step, {self.max_waiting} waiting, {self.eager_seconds} s for leaving a graph",
                rule=f"batching is one of {', '.join(BATCHINGS)}; 1 to 65536 slots, fewer than "
                "tokens per step, so that a full batch leaves room for a prompt",
                fix="raise --token-budget above --slots",
            )

    @property
    def label(self) -> str:
        """What tells it from others that it is compared with."""
        return f"{self.batching}, {self.slots}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The rules that figures rest on, in sentences."""
        sentences = [
            f"{self.batching}: {BATCHINGS[self.batching].means}",
            "requests are served in the order of their arrival",
            "a prompt's blocks are taken when it is admitted",
            "a preempted sequence is the last admitted one and computes prompt and output anew",
        ]
        if self.buckets is not None:
            sizes = list(self.buckets.sizes)
            sentences.append(f"decode steps are padded to {sizes} rows, mixed ones leave the graph")
        if self.cache.share_prefixes:
            sentences.append("only shared prefixes are cached, each as a whole, oldest out first")
        return tuple(sentences)
