"""One log file, from the digests of its blocks: which error is whose, and when it was."""

from __future__ import annotations

from ascend_infer.diagnose.catalogue import explains_exceptions
from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.digest import TEXT, Digest, Notable
from ascend_infer.diagnose.events import LogError, ReadLine, python_frame, read_line
from ascend_infer.diagnose.groups import ErrorGroup, Groups
from ascend_infer.diagnose.tracebacks import Tracebacks

#: Characters of a time without a fraction of a second, as a screen has it.
_SECOND = len("2026-03-10-16:49:31")


class FileScan:
    """Takes the digests of one file in their order; a line without a time has the last one's."""

    def __init__(self, file: str, groups: Groups) -> None:
        self._file = file
        self._groups = groups
        self._tracebacks = Tracebacks()
        self._time = ""
        #: The time of the last error whose own time has no fraction.
        self._second = ""
        #: The kinds of errors in this file, in the order of their first.
        self._kinds: dict[str, None] = {}
        #: An unexplained exception and its line, until a line of its own text explains it.
        self._unexplained: tuple[ErrorGroup, str, int] | None = None
        self._without_time: list[ErrorGroup] = []
        #: The line of the last exception that was only counted.
        self._raised_at = 0
        #: The end of a process, until the frames below it are read.
        self._ended: ErrorGroup | None = None

    def take(self, first: int, digest: Digest) -> None:
        """Look at the events of the next block, whose first line has the number `first`."""
        for event in digest.events:
            if event.raised >= 0:
                self._raised_at = first + event.raised
            self._look_at(event, first + event.at)
        for kind, count in digest.more.items():
            self._groups.count(kind, count)
        self._groups.rest.count += digest.rest
        if digest.raised >= 0:
            self._raised_at = first + digest.raised
        self._groups.captures.merge(digest.captures)
        self._time = digest.time or self._time

    def _look_at(self, event: Notable, number: int) -> None:
        if event.kind and event.kind[0] in self._kinds:
            if self._groups.count_later(event.kind, event.time):
                return
        line = read_line(event.line)
        if line.context:
            self._context(line, number)
            return
        error = line.error
        if error is None:  # a condenser has seen one in it
            return
        time = self._time_of(error, event)
        if time and self._without_time:
            for early in self._without_time:  # what came before the first time is not after it
                early.time = early.time or time
            self._without_time.clear()
        frame, ignored = self._frame(error, line.prefix, number)
        group = self._groups.add(
            error, file=self._file, number=number, time=time, frame=frame, ignored=ignored
        )
        if not time and not group.time:
            self._without_time.append(group)
        if error.text.startswith("Fatal Python error"):
            self._ended = group
        self._relate(error, group, line.prefix, number)

    def _context(self, line: ReadLine, number: int) -> None:
        frame = python_frame(line.text)
        if frame is None:
            self._tracebacks.begin(line.prefix, number, line.text)
            return
        self._tracebacks.frame(line.prefix, *frame, number)
        if self._ended is not None:
            self._ended.frame = self._tracebacks.newest(line.prefix) or self._ended.frame

    def _time_of(self, error: LogError, event: Notable) -> str:
        if error.time:
            if len(error.time) == _SECOND:
                self._second = error.time
            return error.time
        self._time = event.time or self._time
        # Not before an error of the same second that this file has above it.
        return self._second if self._time[:_SECOND] == self._second else self._time

    def _frame(self, error: LogError, prefix: str, number: int) -> tuple[str | None, bool]:
        """The frame that led to the error, and whether the interpreter ignored it."""
        if error.plog:
            return None, False
        self._tracebacks.forget_before(self._raised_at)
        if error.exception:
            return self._tracebacks.raised(prefix, number)
        return self._tracebacks.continued(prefix, number), False

    def _relate(self, error: LogError, group: ErrorGroup, prefix: str, number: int) -> None:
        """What this error says of the ones before it in this file."""
        key, role = error.explanation.key, error.explanation.role
        if error.exception:
            unexplained = role is Role.UNKNOWN and group.count == 1
            self._unexplained = (group, prefix, number) if unexplained else None
        elif self._unexplained and not error.plog and explains_exceptions(error.explanation):
            raised, its_prefix, line = self._unexplained
            if its_prefix == prefix and self._raised_at < line and number - line <= TEXT:
                raised.explained_by = key
                self._kinds.pop(raised.explanation.key, None)
            self._unexplained = None
        if key in self._kinds:
            return
        group.preceded = group.preceded or bool(self._kinds)
        if role is not Role.SYMPTOM and not group.ignored:
            self._kinds[key] = None
