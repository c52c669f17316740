"""`torch.npu.ExternalEvent`: a flag that captured work waits for and any stream may set."""

from __future__ import annotations

from typing import Any

from kernels_npu.sim.device.errors import CaptureError
from kernels_npu.sim.device.ordering import join, stream_clock
from kernels_npu.sim.device.stalls import Marker, StalledWork
from kernels_npu.sim.device.state import StreamState, current, process
from kernels_npu.sim.device.streams import Stream, _require


class ExternalEvent:
    """A flag between a graph and the streams outside of it.

    The order of use is wait, reset, record, or record, wait, reset: a wait holds its stream until
    the flag is set, a reset lowers it for the next round. Inside a capture all three are recorded
    and take effect at each replay.
    """

    def __new__(cls) -> ExternalEvent:
        return super().__new__(cls)

    def __init__(self) -> None:
        self._clock: dict[int, int] | None = None
        self._waiting: list[StalledWork] = []

    def record(self, stream: Stream | None = None) -> None:
        """Set the flag once what `stream` has been given so far is done."""
        _submit(stream, _Record(self), "ExternalEvent.record")

    def wait(self, stream: Stream | None = None) -> None:
        """Hold later work of `stream` until the flag is set."""
        _submit(stream, _Wait(self), "ExternalEvent.wait")

    def reset(self, stream: Stream | None = None) -> None:
        """Lower the flag."""
        _submit(stream, _Reset(self), "ExternalEvent.reset")

    def _set(self, clock: dict[int, int]) -> None:
        self._clock = clock
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work.go()

    def __repr__(self) -> str:
        return f"torch.npu.ExternalEvent({'not ' * (self._clock is None)}recorded)"


class _EventMarker(Marker):
    def __init__(self, event: ExternalEvent) -> None:
        self.event = event


class _Record(_EventMarker):
    def reach(self, stream: StreamState, work: StalledWork) -> bool:
        self.event._set(stream_clock(stream))
        return True


class _Wait(_EventMarker):
    def reach(self, stream: StreamState, work: StalledWork) -> bool:
        if self.event._clock is None:
            if work not in self.event._waiting:
                self.event._waiting.append(work)
            return False
        join(stream.known, self.event._clock)
        return True


class _Reset(_EventMarker):
    def reach(self, stream: StreamState, work: StalledWork) -> bool:
        self.event._clock = None
        return True


def managed_stream(stream: Any, call: str) -> StreamState:
    """The state of `stream`, the current one for None; external streams cannot take part.

    Raises:
        CaptureError: AI-CAP-017.
    """
    state = current.streams[current.device] if stream is None else _require(stream)._state
    if state.external:
        raise CaptureError(
            "AI-CAP-017",
            f"External NPU stream is not supported in {call}. "
            "This path requires a torch_npu-managed stream.",
            fix="use a torch.npu.Stream",
        )
    return state


def _submit(stream: Stream | None, marker: _EventMarker, call: str) -> None:
    state = managed_stream(stream, call)
    if state.session is not None and state.session is process.session:
        state.session.mark(state, marker, call)
    elif state.stalled is not None:
        state.stalled.add(marker)
    else:
        StalledWork(state, [marker]).go()
