"""Asynchronous copies from page-locked host memory: the source must stay as it is until they end.

The simulated device copies at once, a real one when it gets to it: what the host writes into the
source in between is what arrives, or half of it. So each copy remembers what it was given, and the
source is compared when the host waits for the copy, or gives the same memory to another one.
"""

from __future__ import annotations

import threading

import torch

from kernels_npu.sim.device.ordering import caller, on_host_wait, unordered
from kernels_npu.sim.device.pinned import is_pinned
from kernels_npu.sim.device.state import StreamState, process

#: Larger sources are not kept; a change is then seen by the tensor's version, not by its bytes, and
#: not at all where the tensor was made in inference mode, which counts no versions.
_KEPT_BYTES = 1 << 20
#: A program that never waits: the oldest copies are judged and forgotten.
_MOST = 256


class Flight:
    """A copy that was enqueued and not waited for."""

    __slots__ = ("content", "seq", "source", "start", "stop", "stream", "version", "where")

    def __init__(self, stream: StreamState, seq: int, source: torch.Tensor) -> None:
        self.stream = stream
        self.seq = seq
        self.source = source
        self.where = caller()
        self.version = _version(source)
        self.start = source.data_ptr()
        reach = sum((n - 1) * s for n, s in zip(source.shape, source.stride()))
        self.stop = self.start + (reach + 1) * source.element_size()
        small = self.stop - self.start <= _KEPT_BYTES
        self.content = _clone(source).view(torch.uint8) if small else None

    def changed(self) -> bool:
        """Whether the source is no longer what was to be copied."""
        if self.content is None:
            return _version(self.source) != self.version
        now = _clone(self.source).view(torch.uint8)
        return not torch.equal(now, self.content)


_flights: list[Flight] = []
#: Held until a copy that was taken off the list is judged: another thread that waits for the same
#: copy may write its source as soon as its own wait returns.
_judging = threading.Lock()
_clone_op = torch.ops.aten.clone.default._op


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    copied: torch.Tensor = _clone_op(tensor, memory_format=torch.contiguous_format)
    return copied.reshape(-1)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def depart(stream: StreamState, seq: int, source: torch.Tensor) -> None:
    """Note operation `seq` of `stream`, which copies from the host tensor `source`.

    Pageable memory is copied before the call returns, so only page-locked sources are noted.
    """
    if process.settings.stream_order == "off" or not source.numel() or not is_pinned(source):
        return
    flight = Flight(stream, seq, source)
    with _judging:
        # One that overlaps is judged now and forgotten: this copy has seen the change as well.
        for old in [f for f in _flights if f.start < flight.stop and flight.start < f.stop]:
            _flights.remove(old)
            _judge(old)
        _flights.append(flight)
        if len(_flights) > _MOST:
            _judge(_flights.pop(0))


def arrive(clock: dict[int, int]) -> None:
    """The host waits for `clock`: copies before it end here and were in flight until now."""
    with _judging:
        ended = [f for f in _flights if clock.get(f.stream.uid, 0) >= f.seq]
        for flight in ended:
            _flights.remove(flight)
        for flight in ended:
            _judge(flight)


def _judge(flight: Flight) -> None:
    if not flight.changed():
        return
    at = f" ({flight.where})" if flight.where else ""
    unordered(
        "AI-STREAM-006",
        f"page-locked host memory of {tuple(flight.source.shape)} {flight.source.dtype} was "
        f"written while the asynchronous copy from it on {flight.stream.describe()}{at} was in "
        "flight",
        rule="a non_blocking copy reads its source when the device gets to it, "
        "not when the call returns",
        fix="record an event after the copy and synchronize it before writing the memory again, "
        "or use several buffers in turn",
        streams=(flight.stream.uid, flight.stream.uid),
        operations=("copy from host", "host write"),
    )


on_host_wait.append(arrive)
