"""Counts of KV blocks: free, in use, kept for prefixes; and when growing sequences need more.

No block has a number here. What a scheduler decides depends on how many there are.
"""

from __future__ import annotations

from collections import OrderedDict

#: Stands for a cache that is never full.
_ENOUGH = 1 << 60


class BlockPool:
    """Blocks are free, in use by sequences, or hold a prefix that may be in use by several.

    A prefix that nobody uses stays until its room is needed, oldest first and as a whole.
    """

    def __init__(self, capacity: int | None) -> None:
        self.capacity = _ENOUGH if capacity is None else capacity
        self._free = self.capacity
        self._blocks: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self._idle: OrderedDict[int, int] = OrderedDict()
        #: Blocks that can be had: free ones and those of prefixes that nobody uses.
        self.available = self.capacity

    @property
    def used(self) -> int:
        """Blocks that some sequence needs."""
        return self.capacity - self.available

    def cached(self, prefix: int) -> int:
        """Blocks that hold this prefix, 0 when it is not in the cache."""
        return self._blocks.get(prefix, 0)

    def room_beside(self, prefix: int) -> int:
        """Blocks that can be had while this prefix is kept."""
        return self.available - self._idle.get(prefix, 0)

    def take(self, count: int) -> None:
        """Put blocks to use; the caller has looked at `available`."""
        while count > self._free:
            prefix, blocks = self._idle.popitem(last=False)
            del self._blocks[prefix], self._users[prefix]
            self._free += blocks
        self._free -= count
        self.available -= count

    def give(self, count: int) -> None:
        """Return blocks of a sequence."""
        self._free += count
        self.available += count

    def join(self, prefix: int) -> None:
        """One more sequence uses a cached prefix."""
        self._users[prefix] += 1
        self.available -= self._idle.pop(prefix, 0)

    def leave(self, prefix: int) -> None:
        """One sequence less uses a cached prefix."""
        self._users[prefix] -= 1
        if not self._users[prefix]:
            self._idle[prefix] = self._blocks[prefix]
            self.available += self._blocks[prefix]

    def share(self, prefix: int, blocks: int) -> None:
        """Blocks in use by one sequence become those of a prefix, which it goes on using."""
        self._blocks[prefix] = blocks
        self._users[prefix] = 1


class Growth:
    """When decoding sequences need a new block: each at every `block_size`-th step.

    A sequence with `context` cached tokens at step counter `step` writes into a new block at the
    steps that leave the remainder `(step - context) % block_size`, so one count per remainder
    tells the need of any number of steps without looking at sequences.
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._due = [0] * block_size
        self._growing = 0

    def add(self, step: int, context: int) -> int:
        """A sequence begins to decode; returns what `remove` takes."""
        remainder = (step - context) % self.block_size
        self._due[remainder] += 1
        self._growing += 1
        return remainder

    def remove(self, remainder: int) -> None:
        """A sequence stops."""
        self._due[remainder] -= 1
        self._growing -= 1

    def blocks(self, step: int, steps: int) -> int:
        """New blocks for `steps` steps from counter `step` on."""
        cycles, rest = divmod(steps, self.block_size)
        start = step % self.block_size
        end = start + rest
        due = self._due
        part = sum(due[start:end])
        if end > self.block_size:
            part += sum(due[: end - self.block_size])
        return cycles * self._growing + part

    def affordable(self, step: int, steps: int, available: int) -> int:
        """The most steps, up to `steps`, whose new blocks are available."""
        if (steps // self.block_size + 1) * self._growing <= available:
            return steps
        low, high = 0, steps
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks(step, middle) <= available:
                low = middle
            else:
                high = middle - 1
        return low
