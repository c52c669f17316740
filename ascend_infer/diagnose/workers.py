"""Condenses the blocks of large logs in several processes; their order stays."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from types import TracebackType

from ascend_infer.diagnose.condense import Condenser
from ascend_infer.diagnose.digest import Digest, Kind
from ascend_infer.diagnose.groups import Groups

#: Blocks before further processes are worth their start.
_ALONE = 48
#: Blocks per process that wait for one or for us.
_AHEAD = 2


class Workers:
    """A context in which blocks are condensed, by up to `count` processes besides this one.

    Raises nothing for processes that cannot be started or that end: what they had is done here.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._condenser = Condenser()
        self._done = 0
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def condense(
        self, blocks: Iterable[tuple[int, bytes]], groups: Groups
    ) -> Iterator[tuple[int, Digest]]:
        """The digest of each block with the number of its first line, in the blocks' order.

        groups: where they go; kinds that it will not keep are only counted.
        """
        waiting: deque[tuple[int, bytes, Future[Digest] | None]] = deque()
        for first, block in blocks:
            waiting.append((first, block, self._submitted(block, groups)))
            if self._pool is None or len(waiting) > _AHEAD * self._count:
                yield self._result(*waiting.popleft(), groups)
        while waiting:
            yield self._result(*waiting.popleft(), groups)

    def _submitted(self, block: bytes, groups: Groups) -> Future[Digest] | None:
        self._done += 1
        try:
            if self._pool is None and self._count > 1 and self._done > _ALONE:
                self._pool = ProcessPoolExecutor(
                    self._count,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_begin,
                )
            with _uninterrupted():  # processes are started when they are needed
                if self._pool is None:
                    return None
                return self._pool.submit(_condense, block, groups.all_kinds)
        except (OSError, RuntimeError):  # no further process, or the ones there were have ended
            self._count = 0
            return None

    def _result(
        self, first: int, block: bytes, future: Future[Digest] | None, groups: Groups
    ) -> tuple[int, Digest]:
        if future is not None:
            try:
                return first, future.result()
            except BrokenExecutor:
                self._count = 0
        return first, self._condenser.condense(block, groups.all_kinds)


_CONDENSER = Condenser()


def _condense(block: bytes, kept: frozenset[Kind] | None) -> Digest:
    return _CONDENSER.condense(block, kept)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """What is started inside never sees Ctrl-C, from its first moment; we see it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """A process ends with the one that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
