"""Streams that stand still: work behind a wait for an external event that is not recorded yet.

The simulated device does everything at once, so a graph that waits in its middle is run up to
there, and on from there when the event is recorded. Whatever else is enqueued on that stream in
the meantime would have to wait too; that is refused, and so is a host that waits for the stream,
which on a device never comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from kernels_npu.sim.device.errors import DeviceError

if TYPE_CHECKING:
    from kernels_npu.sim.device.state import DeviceState, StreamState


class Marker:
    """A recorded step that concerns the order of streams and not data."""

    def reach(self, stream: StreamState, work: StalledWork) -> bool:
        """Take effect on `stream`; False when it stays here, and `work.go()` comes later."""
        raise NotImplementedError

    def __call__(self) -> None:
        raise RuntimeError("a marker is reached by a stream, not called")


class StalledWork:
    """A sequence of calls and markers on one stream, and how far it has got."""

    def __init__(self, stream: StreamState, calls: Sequence[Callable[[], Any]]) -> None:
        self.stream = stream
        self._calls = calls
        self._behind: list[Marker] = []
        self._position = 0

    def go(self) -> None:
        """Run on to the end or to the next event that is not recorded."""
        if self.stream.stalled not in (None, self):
            return
        with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowADInplaceOrView():
            while self._position < len(self._calls) + len(self._behind):
                call = self._call()
                if not isinstance(call, Marker):
                    call()
                elif not call.reach(self.stream, self):
                    self.stream.stalled = self
                    return
                self._position += 1
        self.stream.stalled = None

    def _call(self) -> Callable[[], Any]:
        beyond = self._position - len(self._calls)
        return self._calls[self._position] if beyond < 0 else self._behind[beyond]

    def add(self, marker: Marker) -> None:
        """Let `marker` come behind everything so far."""
        self._behind.append(marker)

    def abandon(self) -> None:
        """Forget the rest."""
        if self.stream.stalled is self:
            self.stream.stalled = None


def refuse_behind(stream: StreamState, what: str) -> None:
    """Refuse work on a stream that stands still.

    Raises:
        DeviceError: AI-CAP-025.
    """
    if stream.stalled is not None:
        raise _standing_still(
            stream,
            f"{what} comes behind",
            "the simulated device does not hold back other work of a stream that stands still",
        )


def refuse_waiting(device: DeviceState, stream: StreamState | None = None) -> None:
    """Refuse a host that waits for streams that stand still: `stream`, or all of the device.

    Raises:
        DeviceError: AI-CAP-025.
    """
    for candidate in device.streams.values() if stream is None else (stream,):
        if candidate.stalled is not None:
            raise _standing_still(
                candidate, "the host waits for", "on a device this wait never ends"
            )


def _standing_still(stream: StreamState, what: str, rule: str) -> DeviceError:
    return DeviceError(
        "AI-CAP-025",
        f"{what} work on {stream.describe()} that waits for an ExternalEvent "
        "which nobody has recorded",
        rule=rule,
        fix="record the event, behind the task update, before the replay or right after it: "
        "event.record(update_stream)",
    )
