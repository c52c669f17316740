"""One thread at a time, and streams in order: for a runner, a memory pool and the one capture.

A second thread is refused, not queued. `run` returns a view of static memory, and a step that had
waited for its turn would overwrite that view before the first thread has read it. Streams are put
in order instead: work of the next turn on another stream waits, on the device, for the last turn's.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from graphs.errors import GraphError


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The refusal that the second thread gets."""

    code: str
    subject: str
    rule: str
    fix: str


RUNNER = Rule(
    code="AI-GRAPH-020",
    subject="the runner, or one with the same static buffers, is in use",
    rule="static buffers and logits exist once, so one thread at a time uses them",
    fix="give each thread a runner of its own, or hold a lock from run() until the logits are read",
)
POOL = Rule(
    code="AI-GRAPH-021",
    subject="the memory pool that this runner shares is in use",
    rule="graphs that share a pool overwrite each other's intermediate results, "
    "so at most one of them runs at any moment",
    fix="leave out pool= so that each runner has a pool of its own, or run them from one thread",
)
CAPTURE = Rule(
    code="AI-GRAPH-022",
    subject="a graph is being captured",
    rule="one capture at a time in a process, and no step meanwhile: allocations and "
    "synchronisations of other threads invalidate a capture",
    fix="capture all runners before serving, or hold a lock around capture() and run()",
)


class Turn:
    """What one thread at a time may have."""

    __slots__ = ("__weakref__", "_lock", "_rule", "_stream", "_thread")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stream: Any = None

    def take(self, stream: Any = None) -> None:
        """Take the turn; work enqueued on `stream` from now on comes after the last turn's.

        Raises:
            GraphError: with the rule's code while a thread has it, the calling one included.
        """
        if not self._lock.acquire(blocking=False):
            raise self._refusal()
        self._thread = threading.current_thread()
        last = self._stream
        if stream is None:
            return
        try:
            if last is not None and stream != last:
                stream.wait_stream(last)
        except BaseException:
            self.give_back()
            raise
        self._stream = stream

    def give_back(self) -> None:
        """End the turn; only who took it may call this."""
        self._thread = None
        self._lock.release()

    @contextlib.contextmanager
    def held(self, stream: Any = None) -> Iterator[None]:
        """`take` before and `give_back` after the body."""
        self.take(stream)
        try:
            yield
        finally:
            self.give_back()

    def refuse_while_taken(self) -> None:
        """Raise what a second thread gets, without taking the turn."""
        if self._lock.locked():
            raise self._refusal()

    def _refusal(self) -> GraphError:
        holder, here = self._thread, threading.current_thread()
        if holder is here:
            who = "by this same thread"
        else:
            name = "another thread" if holder is None else f"thread {holder.name!r}"
            who = f"by {name}, and called from thread {here.name!r}"
        rule = self._rule
        return GraphError(rule.code, f"{rule.subject} {who}", rule=rule.rule, fix=rule.fix)


#: Of the process: capture is, even if the devices differ.
capture_turn = Turn(CAPTURE)

_pool_turns: WeakValueDictionary[tuple[str, Hashable], Turn] = WeakValueDictionary()


def pool_turn(device: str, handle: Hashable) -> Turn:
    """The turn of a memory pool: the same one for every runner that was given this handle."""
    return _pool_turns.setdefault((device, handle), Turn(POOL))
