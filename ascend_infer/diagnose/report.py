"""Reads logs once, groups their errors and names the first cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ascend_infer.diagnose.capture import CaptureEvidence
from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.events import LogError, parse_error, python_frame
from ascend_infer.diagnose.reader import Line, interesting_lines, log_files
from kernels_npu.errors import UsageError

#: Groups that are kept; errors beyond are counted.
_MOST_GROUPS = 2000


@dataclass(kw_only=True)
class ErrorGroup:
    """Errors of one kind at one place; the first of them in detail."""

    explanation: Explanation
    role: Role
    place: str
    where: str
    time: str
    text: str
    #: The innermost frame of the traceback that led to it, where there is one.
    frame: str | None
    count: int = 1

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "key": self.explanation.key,
            "meaning": self.explanation.meaning,
            "fix": self.explanation.fix,
            "role": self.role.value,
            "where": self.where,
            "place": self.place,
            "time": self.time,
            "text": self.text,
            "frame": self.frame,
            "count": self.count,
        }


@dataclass(kw_only=True)
class LogDiagnosis:
    """What the logs say. `groups` are in the order of their first error."""

    groups: list[ErrorGroup] = field(default_factory=list)
    captures: CaptureEvidence = field(default_factory=CaptureEvidence)
    files: int = 0
    unreadable: list[str] = field(default_factory=list)
    #: Errors of kinds beyond those that are kept.
    dropped: int = 0

    @property
    def cause(self) -> ErrorGroup | None:
        """The first error that explains itself; else the first unknown one; else a symptom."""
        for role in (Role.CAUSE, Role.UNKNOWN, Role.FOLLOWER, Role.SYMPTOM):
            for group in self.groups:
                if group.role is role:
                    return group
        return None

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "cause": self.cause.to_dict() if self.cause else None,
            "errors": [group.to_dict() for group in self.groups],
            "captures": self.captures.to_dict(),
            "files": self.files,
            "unreadable": self.unreadable,
            "dropped": self.dropped,
        }


def diagnose_logs(
    paths: Iterable[str], progress: Callable[[int], None] = lambda size: None
) -> LogDiagnosis:
    """Read files, folders and `-` (standard input), in memory that their size does not change.

    progress: told the bytes of every block that was read.
    Raises UsageError where a path does not exist or nothing at all can be read.
    """
    diagnosis = LogDiagnosis()
    groups: dict[tuple[str, str], ErrorGroup] = {}
    for file in log_files(paths, diagnosis.unreadable):
        before = len(diagnosis.unreadable)
        reading = _File(diagnosis, groups)
        for line in interesting_lines(file, diagnosis.unreadable, progress):
            reading.add(line)
        diagnosis.files += len(diagnosis.unreadable) == before
    if not diagnosis.files and diagnosis.unreadable:
        raise UsageError(
            "AI-CLI-004", "; ".join(diagnosis.unreadable[:5]), fix="make the logs readable"
        )
    # Lines without a time come from a screen, which shows an error after the runtime logged it.
    diagnosis.groups = sorted(groups.values(), key=lambda group: group.time or "~")
    return diagnosis


class _File:
    """One file's errors in its order; a line without a time has the last one's."""

    def __init__(self, diagnosis: LogDiagnosis, groups: dict[tuple[str, str], ErrorGroup]) -> None:
        self._diagnosis = diagnosis
        self._groups = groups
        self._time = ""
        self._frame: str | None = None
        #: Something that can have led to a follower has been seen.
        self._failed_before: str | None = None

    def add(self, line: Line) -> None:
        if self._diagnosis.captures.add(line.data):
            return
        text = line.data.decode("utf-8", errors="replace")
        frame = python_frame(text)
        if frame is not None:
            self._frame = frame
            return
        error = parse_error(text)
        if error is not None:
            self._add_error(error, line)

    def _add_error(self, error: LogError, line: Line) -> None:
        self._time = error.time or self._time
        role = self._role_of(error.explanation)
        key = (error.explanation.key, error.place)
        group = self._groups.get(key)
        if group is not None:
            group.count += 1
            if self._time and (not group.time or self._time < group.time):
                group.time, group.where, group.text = (
                    self._time,
                    f"{line.file}:{line.number}",
                    error.text,
                )
            if role is Role.SYMPTOM:
                group.role = role
        elif len(self._groups) < _MOST_GROUPS:
            self._groups[key] = ErrorGroup(
                explanation=error.explanation,
                role=role,
                place=error.place,
                where=f"{line.file}:{line.number}",
                time=self._time,
                text=error.text,
                frame=self._frame,
            )
        else:
            self._diagnosis.dropped += 1
        self._frame = None

    def _role_of(self, explanation: Explanation) -> Role:
        """A follower is a cause itself where nothing but its own kind failed before it."""
        role = explanation.role
        if role is not Role.FOLLOWER:
            if role is not Role.SYMPTOM:
                self._failed_before = self._failed_before or explanation.key
            return role
        if self._failed_before in (None, explanation.key):
            self._failed_before = explanation.key
            return Role.CAUSE
        return Role.SYMPTOM
