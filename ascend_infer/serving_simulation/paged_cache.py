"""The KV cache of the simulated server: what sequences are given, share, and give back."""

from __future__ import annotations

from ascend_infer.serving_simulation.kv_blocks import BlockPool, Growth
from ascend_infer.serving_simulation.scheduler import CacheRules
from ascend_infer.serving_simulation.sequence import Sequence


class PagedCache:
    """The rules of `CacheRules`, kept with counts of blocks.

    wanted_tokens: that admissions wanted in the cache, those after a preemption included.
    hit_tokens: of them, those that were there. lost_tokens: that preempted sequences had there,
    shared prefixes left out.
    """

    def __init__(self, rules: CacheRules) -> None:
        self.wanted_tokens = self.hit_tokens = self.lost_tokens = 0
        self._rules = rules
        self._pool = BlockPool(rules.blocks)
        self._growth = Growth(rules.block_size)
        self._watermark = int(rules.watermark * self._pool.capacity)

    @property
    def used(self) -> int:
        """Blocks that some sequence needs."""
        return self._pool.used

    def could_hold(self, prompt: int, target: int) -> bool:
        """Whether a request fits at all; its last token is never cached."""
        return self._blocks_for(prompt + target - 1) <= self._pool.capacity

    def is_short(self, step: int) -> bool:
        """Whether the next decode step needs more blocks than can be had."""
        return self._growth.blocks(step, 1) > self._pool.available

    def affordable(self, step: int, steps: int) -> int:
        """The most decode steps, up to `steps`, that the cache has blocks for."""
        return self._growth.affordable(step, steps, self._pool.available)

    def grow(self, step: int, steps: int) -> int:
        """Give out the blocks of `steps` decode steps; returns how many."""
        new = self._growth.blocks(step, steps)
        if new:
            self._pool.take(new)
        return new

    def admit(self, sequence: Sequence, step: int, *, alone: bool) -> bool:
        """Give a sequence its blocks, if there are enough beside those of the next decode step.

        alone: nothing else runs, so the watermark has nobody to protect.
        """
        pool, rules = self._pool, self._rules
        shared = pool.cached(sequence.prefix)
        tokens = sequence.goal
        if rules.reserve_output:
            tokens = sequence.prompt + sequence.target - 1
        blocks = self._blocks_for(tokens) - shared
        spare = self._growth.blocks(step, 1) + (0 if alone else self._watermark)
        if blocks + spare > pool.room_beside(sequence.prefix):
            return False
        if shared:
            pool.join(sequence.prefix)
        pool.take(blocks)
        sequence.blocks, sequence.shared = blocks, shared
        # At least one token is computed: its logits are wanted.
        sequence.computed = min(shared * rules.block_size, sequence.goal - 1)
        self.wanted_tokens += sequence.goal
        self.hit_tokens += sequence.computed
        return True

    def begin(self, sequence: Sequence, step: int) -> None:
        """Its prompt is computed: others may find the prefix, and it grows from now on."""
        whole = sequence.prefix_blocks
        if sequence.prefix >= 0 and whole and not sequence.shared:
            if not self._pool.cached(sequence.prefix):
                self._pool.share(sequence.prefix, whole)
                sequence.blocks -= whole
                sequence.shared = whole
        if not self._rules.reserve_output:
            sequence.remainder = self._growth.add(step, sequence.goal)

    def end(self, sequence: Sequence, context: int) -> None:
        """It has stopped decoding, with so many tokens in the cache."""
        if not self._rules.reserve_output:
            self._growth.remove(sequence.remainder)
            sequence.blocks = self._blocks_for(context) - sequence.shared
        self.release(sequence)

    def release(self, sequence: Sequence) -> None:
        """Take back what it has."""
        self._pool.give(sequence.blocks)
        if sequence.shared:
            self._pool.leave(sequence.prefix)
            sequence.shared = 0

    def lose(self, sequence: Sequence, cached: int) -> None:
        """Count what a preempted sequence, still holding its blocks, will have to compute anew."""
        self.lost_tokens += max(cached - sequence.shared * self._rules.block_size, 0)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._rules.block_size)
