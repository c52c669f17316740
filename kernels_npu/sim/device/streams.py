"""`torch.npu.Stream` and `torch.npu.Event`, and the current stream of each device and thread."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Any, ClassVar

import torch

from kernels_npu.sim.device.capture import CaptureSession, forbid
from kernels_npu.sim.device.errors import CaptureError, DeviceError, acl_text
from kernels_npu.sim.device.ordering import host_waits_for, join, stream_clock
from kernels_npu.sim.device.stalls import refuse_waiting
from kernels_npu.sim.device.state import (
    DeviceState,
    StreamState,
    current,
    device_state,
    drain,
    process,
)
from kernels_npu.sim.no_time import NoTime

DeviceLike = torch.device | str | int | None
#: torch_npu hands out this many streams per device and priority, round robin.
POOL_SIZE = 32
PRIVATE_USE = int(torch._C._autograd.DeviceType.PrivateUse1)  # type: ignore[call-overload]


def index_of(device: DeviceLike) -> int:
    """The device index that `device` (an index, `npu:1`, a `torch.device` or None) means."""
    if device is None or isinstance(device, int):
        return device_state(device).index
    parsed = torch.device(device)
    if parsed.type != "npu":
        raise DeviceError(
            "AI-DEV-006",
            f"Expected a npu device, but got: {parsed}",
            fix="pass an npu device or its index",
        )
    return device_state(parsed.index).index


class Stream(torch.Stream):
    """A queue of work on one device, unordered against the other queues."""

    _pools: ClassVar[dict[tuple[int, int], itertools.cycle[StreamState]]] = {}
    _state: StreamState

    def __new__(
        cls,
        device: DeviceLike = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> Stream:
        if stream_id is not None:
            return cls._of(device_state(device_index).streams[stream_id])
        owner = device_state(index_of(device))
        key = (owner.index, -1 if priority < 0 else 0)
        pool = cls._pools.get(key)
        if pool is None:
            states = [owner.new_stream() for _ in range(POOL_SIZE)]
            pool = cls._pools[key] = itertools.cycle(states)
        return cls._of(next(pool))

    @classmethod
    def _of(cls, state: StreamState) -> Stream:
        stream: Stream = super().__new__(
            cls,
            stream_id=state.id,
            device_index=state.device.index,
            device_type=PRIVATE_USE,
        )
        stream._state = state
        return stream

    @property
    def npu_stream(self) -> int:
        """The raw handle, never 0. Reading it drains torch_npu's host task queue."""
        drain(self._state.device)
        return self._state.handle

    @property
    def _as_parameter_(self) -> int:
        return self.npu_stream

    def query(self) -> bool:
        """Whether all work is done; the simulated device never lags. Illegal during capture.

        Who was told so may rely on it as if he had waited.
        """
        forbid("aclrtStreamQuery")
        host_waits_for(stream_clock(self._state))
        return True

    def synchronize(self) -> None:
        """Wait for all work of this stream."""
        forbid("aclrtSynchronizeStreamWithTimeout")
        refuse_waiting(self._state.device, self._state)
        drain(self._state.device)
        host_waits_for(stream_clock(self._state))

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
        """Record `event` (a new one for None) behind the work enqueued so far."""
        event = Event() if event is None else _require_event(event)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:  # type: ignore[override]
        """Order later work of this stream after `event`."""
        _require_event(event).wait(self)

    def wait_stream(self, stream: Stream) -> None:  # type: ignore[override]
        """Order later work of this stream after everything enqueued on `stream` so far."""
        self.wait_event(_require(stream).record_event())

    def __enter__(self) -> Stream:
        self._previous = set_stream(self._state)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_stream(self._previous)

    def __repr__(self) -> str:
        return f"torch.npu.Stream device=npu:{self._state.device.index} stream_id={self._state.id}"


class ExternalStream(Stream):
    """A stream made elsewhere, known by its raw handle; it cannot be captured."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any) -> ExternalStream:
        owner = device_state(index_of(device))
        known = find_by_handle(stream_ptr)
        stream = cls._of(owner.new_stream(external=True) if known is None else known)
        assert isinstance(stream, ExternalStream)
        return stream


class Event:
    """A point in a stream's work.

    enable_timing: `elapsed_time` may be asked, and gives a NaN: simulated time is not time.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self._timing = enable_timing
        self._clock: dict[int, int] | None = None
        self._session: CaptureSession | None = None
        self._device: DeviceState | None = None

    @property
    def device(self) -> torch.device | None:
        """The device of the stream that recorded this event."""
        return None if self._device is None else torch.device("npu", self._device.index)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of what `stream` (default: the current one) has been given so far."""
        state = current.streams[current.device] if stream is None else _require(stream)._state
        self._clock = stream_clock(state)
        self._session = state.session
        self._device = state.device

    def wait(self, stream: Stream | None = None) -> None:
        """Order later work of `stream` (default: the current one) after this event."""
        state = current.streams[current.device] if stream is None else _require(stream)._state
        if self._clock is None:
            return
        if state.session is not None and self._session is not state.session:
            raise state.session.fail(
                CaptureError(
                    "AI-CAP-012",
                    acl_text("aclrtStreamWaitEvent", 107024, "capture dependency"),
                    acl_error=107024,
                    rule="inside a capture a stream may only wait "
                    "for events recorded in that capture",
                    fix="wait before the capture begins, "
                    "or record the event on the capturing stream",
                )
            )
        if self._session is not None and self._session is process.session:
            self._session.join(state)
        join(state.known, self._clock)

    def query(self) -> bool:
        """Whether the work before this event is done: always. Illegal during capture.

        Who was told so may rely on it as if he had waited.
        """
        forbid("aclrtQueryEventStatus")
        if self._clock is not None:
            host_waits_for(self._clock)
        return True

    def synchronize(self) -> None:
        """Wait for the work before this event."""
        forbid("aclrtSynchronizeEventWithTimeout")
        if self._clock is not None:
            host_waits_for(self._clock)

    def __repr__(self) -> str:
        state = "not recorded" if self._device is None else f"recorded on npu:{self._device.index}"
        return f"torch.npu.Event({state})"

    def elapsed_time(self, end_event: Event) -> NoTime:
        """A NaN that says what it is: there is no time between two simulated events.

        Raises:
            DeviceError: AI-STREAM-003 for events without timing or that were not recorded.
        """
        if not all(event._timing and event._clock is not None for event in (self, end_event)):
            raise DeviceError(
                "AI-STREAM-003",
                "elapsed_time() of an event that takes no time or was not recorded",
                rule="both events are made with enable_timing=True and recorded on a stream",
                fix="torch.npu.Event(enable_timing=True), then record() both",
            )
        return NoTime()


def _require(stream: object) -> Stream:
    if isinstance(stream, Stream):
        return stream
    raise DeviceError(
        "AI-STREAM-005",
        f"{stream!r} is not a stream of the simulated device",
        rule="a raw handle or a stream of another device cannot take its place",
        fix="pass torch.npu.current_stream() or a torch.npu.Stream()",
    )


def _require_event(event: object) -> Event:
    if isinstance(event, Event):
        return event
    raise DeviceError(
        "AI-STREAM-005",
        f"{event!r} is not an event of the simulated device",
        fix="pass a torch.npu.Event()",
    )


def find_by_handle(handle: int) -> StreamState | None:
    """The stream behind a raw handle."""
    for device in process.devices:
        for stream in device.streams.values():
            if stream.handle == handle:
                return stream
    return None


def set_stream(state: StreamState) -> StreamState:
    """Make `state` current on its device in this thread; returns the stream that was."""
    streams = current.streams
    previous = streams[state.device.index]
    streams[state.device.index] = state
    if state is not state.device.default_stream:
        state.device.single_stream = False
    return previous


def current_stream(device: DeviceLike = None) -> Stream:
    """The current stream of a device in this thread."""
    return Stream._of(current.streams[index_of(device)])


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that everything runs on unless told otherwise."""
    return Stream._of(device_state(index_of(device)).default_stream)


class StreamContext:
    """`with torch.npu.stream(s):` makes `s` current; None changes nothing."""

    def __init__(self, stream_ctx: Stream | None) -> None:
        self._stream = None if stream_ctx is None else _require(stream_ctx)
        self._previous: StreamState | None = None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._device = current.device
            self._previous = set_stream(self._stream._state)
            current.device = self._stream._state.device.index

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            set_stream(self._previous)
            current.device = self._device


def stream(stream: Stream | None) -> StreamContext:
    """The context that makes `stream` current."""
    return StreamContext(stream)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all streams of a device."""
    forbid("aclrtSynchronizeDeviceWithTimeout")
    state = device_state(index_of(device))
    refuse_waiting(state)
    drain(state)
    for stream in state.streams.values():
        host_waits_for({stream.uid: stream.seq})
