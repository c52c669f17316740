"""Stream order: two accesses to the same bytes, one of them a write, must be ordered.

Operations execute at once, in program order; on a device they would not. Every operation gets a
number on its stream, every stream knows (a vector clock) up to which operation of the others it
comes after, and every memory block remembers its newest accesses. Events, waits and
synchronisations move the clocks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FrameType

import torch

from kernels_npu.sim.device.errors import StreamOrderError
from kernels_npu.sim.device.memory import Block
from kernels_npu.sim.device.state import StreamOrderFinding, StreamState, process

_LIBRARY = (torch.__path__[0], __file__.rpartition("/")[0], "<")


@dataclass(frozen=True, slots=True)
class Access:
    """A byte range [start, stop) of a block, touched by operation `seq` of stream `stream`."""

    stream: int
    seq: int
    start: int
    stop: int
    write: bool
    op: str
    where: str


@dataclass(frozen=True, slots=True)
class Touch:
    """The bytes [start, stop) of `block` that an operation reads or writes."""

    block: Block
    start: int
    stop: int
    write: bool


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one past the last byte that the strided `tensor` can reach in its storage."""
    size = tensor.element_size()
    start = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return start, start
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return start, start + (reach + 1) * size


def touches(blocks: Sequence[Block], tensors: Sequence[torch.Tensor], written: int) -> list[Touch]:
    """Touches of parallel `blocks` and host `tensors`; bit i of `written`: i is written."""
    found = []
    for i, (block, tensor) in enumerate(zip(blocks, tensors)):
        start, stop = extent(tensor)
        found.append(Touch(block, start, stop, bool(written >> i & 1)))
    return found


def enqueue(stream: StreamState, accessed: Iterable[Touch], op: str) -> int:
    """Check and record one operation of a device that uses several streams; returns its number."""
    where = caller()
    seq = stream.seq + 1
    for touch in accessed:
        _record(stream, _accesses(touch.block), touch, seq, op, where)
    stream.seq = seq
    return seq


def enqueue_recorded(
    stream: StreamState,
    table: dict[int, list[Access]],
    accessed: Iterable[Touch],
    op: str,
) -> int:
    """The same inside a capture, whose order is a world of its own kept in `table` by address."""
    where = caller()
    seq = stream.seq + 1
    for touch in accessed:
        accesses = table.setdefault(touch.block.base.data_ptr(), [])
        _record(stream, accesses, touch, seq, op, where)
    stream.seq = seq
    return seq


def _accesses(block: Block) -> list[Access]:
    """The block's newest accesses; those of the one-stream time become whole-block entries."""
    if block.accesses is None:
        block.accesses = accesses = []
        default = block.device.default_stream.uid
        for seq, write, stream in ((block.write, True, block.stream), (block.read, False, default)):
            if seq:
                op = block.writer if write else "an earlier operation"
                accesses.append(Access(stream, seq, 0, block.nbytes, write, op, ""))
    found: list[Access] = block.accesses
    return found


def _record(
    stream: StreamState, accesses: list[Access], touch: Touch, seq: int, op: str, where: str
) -> None:
    start, stop, write = touch.start, touch.stop, touch.write
    kept = []
    for old in accesses:
        ordered = (
            old.stream == stream.uid
            or stream.known.get(old.stream, 0) >= old.seq
            or process.host_known.get(old.stream, 0) >= old.seq
        )
        if not ordered and (write or old.write) and old.start < stop and start < old.stop:
            _report(stream, old, touch, seq, op, where)
        superseded = ordered and (write or not old.write) and start <= old.start <= old.stop <= stop
        if not superseded:
            kept.append(old)
    kept.append(Access(stream.uid, seq, start, stop, write, op, where))
    accesses[:] = kept


def _report(stream: StreamState, old: Access, touch: Touch, seq: int, op: str, where: str) -> None:
    if process.settings.stream_order == "off":
        return
    kind = {(True, False): "read-after-write", (False, True): "write-after-read"}.get(
        (old.write, touch.write), "write-after-write"
    )
    low, high = max(old.start, touch.start), min(old.stop, touch.stop)
    what = (
        f"{kind}: {op} on {stream.describe()}{_at(where)} and {old.op} on stream {old.stream}"
        f"{_at(old.where)} touch the same {high - low} bytes and nothing orders them"
    )
    unordered(
        "AI-STREAM-001",
        what,
        rule="streams are asynchronous: work on two streams is ordered only by an event, "
        "wait_stream or a synchronisation",
        fix=f"record an event after {old.op} and let the other stream wait for it: "
        "second.wait_stream(first)",
        streams=(old.stream, stream.uid),
        operations=(old.op, op),
    )


def unordered(
    code: str,
    what: str,
    *,
    rule: str,
    fix: str,
    streams: tuple[int, int],
    operations: tuple[str, str],
) -> None:
    """Raise, or note as a finding, or neither: as `configure(stream_order=...)` says.

    Raises:
        StreamOrderError: `code`, when the mode is "raise".
    """
    mode = process.settings.stream_order
    if mode == "raise":
        raise StreamOrderError(code, what, rule=rule, fix=fix)
    if mode == "report":
        process.findings.append(
            StreamOrderFinding(
                code=code,
                message=what,
                first_stream=streams[0],
                second_stream=streams[1],
                first_op=operations[0],
                second_op=operations[1],
            )
        )


def _at(where: str) -> str:
    return f" ({where})" if where else ""


def caller() -> str:
    """`file:line` of the innermost frame outside PyTorch and this package, or an empty string."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARY):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def join(known: dict[int, int], other: dict[int, int]) -> None:
    """Extend the clock `known` by everything that `other` knows."""
    for stream, seq in other.items():
        if seq > known.get(stream, 0):
            known[stream] = seq


def stream_clock(stream: StreamState) -> dict[int, int]:
    """What holds once everything enqueued on `stream` so far is done."""
    return {**stream.known, stream.uid: stream.seq}


#: Called with the clock that the host waits for, see `in_flight`.
on_host_wait: list[Callable[[dict[int, int]], None]] = []


def host_waits_for(clock: dict[int, int]) -> None:
    """The host has waited: whatever is enqueued later, on any stream, comes after `clock`."""
    join(process.host_known, clock)
    for notify in on_host_wait:
        notify(clock)
