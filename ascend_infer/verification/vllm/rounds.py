"""Which prompts are decoded together, so that batches move between the sizes of captured graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

#: Prompts on both sides of a block of 128 tokens, and of more than one block.
LENGTHS = (1, 5, 17, 127, 128, 129, 140, 300)


def random_prompts(lengths: Sequence[int], vocabulary: int, seed: int = 0) -> list[list[int]]:
    """A prompt of random token ids per length, the same for the same seed."""
    source = random.Random(seed)
    return [[source.randrange(vocabulary) for _ in range(length)] for length in lengths]


def rounds(prompts: Sequence[list[int]], batch: int) -> list[list[list[int]]]:
    """All prompts at once, then batches that grow up to `batch` sequences and shrink again.

    Each round begins one prompt further than the one before it: the same prompt is decoded in
    batches of different sizes and companions, and from its second time on its blocks may be found
    in the prefix cache.
    """
    growing = sorted({size for size in (1, 2, 3, batch // 2, batch) if 1 <= size <= batch})
    sizes = [*growing, *reversed(growing[:-1])]
    count = len(prompts)
    moved = [[prompts[(first + i) % count] for i in range(n)] for first, n in enumerate(sizes)]
    return [list(prompts), *moved]
