"""Private memory of captured graphs: fixed addresses, reused when a tensor of the capture dies."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kernels_npu.sim.device.memory import CPU, Block, poisoned, wrap
from kernels_npu.sim.device.ordering import caller, unordered
from kernels_npu.sim.device.state import DeviceState, StreamState, process

#: Requests are rounded up to this, as the caching allocator does, so that freed pool
#: memory fits again.
_UNIT = 512
_set_geometry = torch.ops.aten.set_.source_Storage_storage_offset._op
_empty = torch.ops.aten.empty.memory_format._op
_pool_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Output:
    """Memory of the pool that a replay writes, for as long as a tensor looks at it."""

    block: weakref.ref[Block]
    start: int
    stop: int


class GraphPool:
    """Private memory of one or several graphs: kept until the last of them is reset.

    Memory of a tensor that died is given to later requests on the same stream, in this capture or
    in the next one that shares the pool, as on the device.
    """

    def __init__(self, device: DeviceState) -> None:
        self.device = device
        self.id = (0, next(_pool_ids))
        self.graphs = 0
        self.bytes = 0
        self._free: dict[tuple[int, int], list[torch.Tensor]] = {}
        self._replays: dict[int, _Replay] = {}
        self._held: list[torch.Tensor] = []

    def tensor(
        self, stream: StreamState, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """A poisoned npu tensor with a fixed address."""
        count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride))
        size = -(-count * dtype.itemsize // _UNIT) * _UNIT
        key = (stream.uid, size)
        free = self._free.get(key)
        memory = free.pop() if free else self._grow(size)
        typed = _empty([0], dtype=dtype, device=CPU)
        _set_geometry(typed, memory.untyped_storage(), 0, shape, stride)
        return wrap(typed, self.device.index, owner=PoolSlot(self, key, memory))

    def _grow(self, size: int) -> torch.Tensor:
        memory = poisoned((size,), None, torch.uint8)
        self._held.append(memory)
        self.bytes += size
        self.device.reserved += size
        return memory

    def give_back(self, key: tuple[int, int], memory: torch.Tensor) -> bool:
        """Make the memory of a dead tensor available again; False where the pool has gone."""
        if self.graphs:
            self._free.setdefault(key, []).append(memory)
        return bool(self.graphs)

    def enter(self, stream: StreamState, memory: Mapping[int, int]) -> None:
        """The next operation of `stream` is a replay that uses `memory` (address -> bytes).

        Intermediates of a graph are nobody's tensors after its capture, so that the order of
        accesses to tensors does not see two replays in the same memory.

        Raises:
            StreamOrderError: AI-STREAM-007 when a replay that uses some of it is not ordered before
                this one.
        """
        now = _Replay(stream, stream.seq + 1, caller())
        clashes = {
            at: old
            for at in memory
            if (old := self._replays.get(at)) is not None and not now.comes_after(old)
        }
        self._replays.update(dict.fromkeys(memory, now))
        if not clashes:
            return
        old = next(iter(clashes.values()))
        unordered(
            "AI-STREAM-007",
            f"two graph replays, on {old.stream.describe()}{old.at} and on "
            f"{stream.describe()}{now.at}, use the same {sum(memory[at] for at in clashes):,} "
            f"bytes of memory pool {self.id} and nothing orders them",
            rule="graphs that share a pool keep their intermediates in the same memory and must "
            "never run at the same time",
            fix="give graphs that may run at the same time pools of their own, or order the "
            "replays: second.wait_stream(first)",
            streams=(old.stream.uid, stream.uid),
            operations=("graph replay", "graph replay"),
        )

    def attach(self) -> None:
        """One more graph lives in this pool."""
        self.graphs += 1

    def detach(self) -> None:
        """A graph was reset; the last one takes the memory with it."""
        self.graphs -= 1
        if self.graphs == 0:
            self.device.reserved -= self.bytes
            self.bytes = 0
            self._free.clear()
            self._replays.clear()
            self._held.clear()


@dataclass(frozen=True, slots=True)
class _Replay:
    """The newest replay that used a piece of pool memory."""

    stream: StreamState
    seq: int
    where: str

    @property
    def at(self) -> str:
        return f" ({self.where})" if self.where else ""

    def comes_after(self, old: _Replay) -> bool:
        """Whether something orders `old` before this one."""
        uid = old.stream.uid
        known = max(self.stream.known.get(uid, 0), process.host_known.get(uid, 0))
        return old.stream is self.stream or known >= old.seq


class PoolSlot:
    """Returns a block's memory to its pool when the last tensor over it dies."""

    __slots__ = ("key", "memory", "pool")

    def __init__(self, pool: GraphPool, key: tuple[int, int], memory: torch.Tensor) -> None:
        self.pool = pool
        self.key = key
        self.memory = memory

    def release(self, block: Block) -> None:
        block.freed = not self.pool.give_back(self.key, self.memory)
