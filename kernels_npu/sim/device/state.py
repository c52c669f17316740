"""Process-wide state of the simulated device: devices, streams, what is current in a thread."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernels_npu.sim.device.errors import DeviceError

if TYPE_CHECKING:
    from kernels_npu.sim.device.capture import CaptureSession
    from kernels_npu.sim.device.stalls import StalledWork

#: Raw handles look like addresses: never 0, unique in the process, far from small integers.
_HANDLE_BASE = 0x5EED_0000_0000
_stream_ids = itertools.count(1)
#: Streams that a device of A2, A3 and A5 has, over all processes; graphs occupy them too.
STREAMS_PER_DEVICE = 1984


class StreamState:
    """One stream of a device: a counter of enqueued work and what that work is ordered after.

    id: torch's number, 0 for the default stream of each device; uid is unique in the process.
    seq: number of the newest operation. known: stream id -> the newest operation of that
    stream which everything enqueued from now on comes after. session: the capture that this
    stream is part of, or the update of a task group on it. stalled: work that waits for an
    external event.
    """

    __slots__ = ("device", "external", "id", "known", "seq", "session", "stalled", "uid")

    def __init__(self, device: DeviceState, stream_id: int, *, external: bool = False) -> None:
        self.device = device
        self.id = stream_id
        self.uid = device.index << 32 | stream_id
        self.seq = 0
        self.known: dict[int, int] = {}
        self.session: CaptureSession | None = None
        self.stalled: StalledWork | None = None
        self.external = external

    @property
    def handle(self) -> int:
        """The integer that a raw launch takes (`Stream.npu_stream`)."""
        return _HANDLE_BASE + 0x40 * (self.id + 4096 * self.device.index)

    def describe(self) -> str:
        """The stream for error messages."""
        kind = "default stream" if self is self.device.default_stream else "stream"
        return f"{kind} {self.id} of npu:{self.device.index}"


class DeviceState:
    """One simulated device.

    single_stream: no stream but the default one has been used yet, so order needs no checking.
    queued: torch operations put into the host's task queue so far. drained: how many of them
    had been handed to the device when a raw stream handle was read, or the host waited, for
    the last time. graph_streams: how many streams captured graphs occupy.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.single_stream = True
        self.queued = 0
        self.drained = 0
        self.default_stream = StreamState(self, 0)
        self.streams: dict[int, StreamState] = {0: self.default_stream}
        self.allocated = 0
        self.allocations = 0
        self.peak = 0
        self.reserved = 0
        self.graph_streams = 0

    @property
    def free_streams(self) -> int:
        """Streams that are left for graphs and for new `torch.npu.Stream`s."""
        return STREAMS_PER_DEVICE - len(self.streams) - self.graph_streams

    def new_stream(self, *, external: bool = False) -> StreamState:
        """A stream that nothing orders against the others yet."""
        stream = StreamState(self, next(_stream_ids), external=external)
        self.streams[stream.id] = stream
        return stream


@dataclass
class Settings:
    """Switches of the device; see `kernels_npu.sim.device.configure`."""

    stream_order: str = "raise"


@dataclass
class Process:
    """Everything there is one of.

    host_known: stream id -> the newest operation that the host has waited for.
    findings: stream order violations when `stream_order` is `report`.
    session: the capture in progress, if any.
    """

    devices: list[DeviceState] = field(default_factory=list)
    host_known: dict[int, int] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    findings: list[StreamOrderFinding] = field(default_factory=list)
    session: CaptureSession | None = None


@dataclass(frozen=True, kw_only=True)
class StreamOrderFinding:
    """An unordered pair of accesses, in words and as fields."""

    code: str
    message: str
    first_stream: int
    second_stream: int
    first_op: str
    second_op: str


process = Process()


class _Streams(dict[int, StreamState]):
    """Current streams by device; devices may be added after a thread has started."""

    def __missing__(self, index: int) -> StreamState:
        stream = self[index] = process.devices[index].default_stream
        return stream


class _Current(threading.local):
    """The current device and, per device, the current stream of this thread."""

    def __init__(self) -> None:
        self.device = 0
        self.streams = _Streams()


current = _Current()


def device_state(index: int | None) -> DeviceState:
    """The device `index`, or the current one for None.

    Raises:
        DeviceError: AI-DEV-006 when there is no such device.
    """
    wanted = current.device if index is None or index == -1 else index
    if not 0 <= wanted < len(process.devices):
        raise DeviceError(
            "AI-DEV-006",
            f"npu:{wanted} does not exist; {len(process.devices)} device(s) are simulated",
            rule="invalid device ordinal (error code 107001)",
            fix=f"enable(device_count={wanted + 1}) at the start of the process, or use npu:0",
        )
    return process.devices[wanted]


def create_devices(count: int) -> None:
    """Make devices 0 .. count-1; called once by `enable`."""
    for index in range(len(process.devices), count):
        device = DeviceState(index)
        process.devices.append(device)


def drain(device: DeviceState) -> None:
    """The host task queue is empty: everything in it is with the device now."""
    device.drained = device.queued
