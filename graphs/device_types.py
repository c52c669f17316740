"""What graphs need of a device's objects, and the figures that a device gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

TorchNamespace: TypeAlias = Any
"""`torch.npu` or `torch.cuda`. `scripts/contracts` collects what such a value is asked for."""


class Graph(Protocol):
    """What the runner needs of `torch.npu.NPUGraph` and `torch.cuda.CUDAGraph`."""

    def replay(self) -> None: ...

    def reset(self) -> None: ...


class Event(Protocol):
    """What host staging needs of a device event."""

    def record(self, stream: Any) -> None: ...

    def synchronize(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class MemoryFigures:
    """Device memory in bytes; None where the device does not say.

    free, total: of the whole device. allocated: held by tensors of this process.
    reserved: held by torch's allocator, graph pools included.
    """

    free: int | None = None
    total: int | None = None
    allocated: int | None = None
    reserved: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayCounters:
    """Replays, and kernels and operations executed by them, since the process started.

    launches: None where only replays are counted.
    """

    replays: int
    launches: int | None
