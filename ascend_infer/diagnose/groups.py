"""Errors of one kind at one place, and what is known of all of them together."""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_infer.diagnose.capture import CaptureEvidence
from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.events import LogError

#: Groups that are kept; errors beyond are counted.
_MOST_GROUPS = 2000


@dataclass(kw_only=True, eq=False)
class ErrorGroup:
    """Errors of one kind at one place; the first of them in detail."""

    explanation: Explanation
    place: str
    where: str
    time: str
    text: str
    #: The user's deepest frame of the traceback that led to it, where there is one.
    frame: str | None
    #: The time is the runtime's own.
    timed: bool
    #: The interpreter went on after it.
    ignored: bool = False
    exception: bool = False
    count: int = 1
    #: Something of another kind failed before it in its log.
    preceded: bool = False
    #: The code that the text of this exception names below it.
    explained_by: str | None = None

    @property
    def role(self) -> Role:
        """A follower is a cause itself where nothing failed before it."""
        role = self.explanation.role
        if self.explained_by or self.ignored:
            return Role.SYMPTOM
        if role is Role.FOLLOWER:
            return Role.SYMPTOM if self.preceded else Role.CAUSE
        return role

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "key": self.explanation.key,
            "meaning": self.explanation.meaning,
            "fix": self.explanation.fix,
            "source": self.explanation.source,
            "role": self.role.value,
            "where": self.where,
            "place": self.place,
            "time": self.time,
            "text": self.text,
            "frame": self.frame,
            "count": self.count,
        }


def _empty() -> ErrorGroup:
    return ErrorGroup(
        explanation=Explanation(key="", meaning="", fix=""),
        place="",
        where="",
        time="",
        text="",
        frame=None,
        timed=False,
        count=0,
    )


@dataclass(kw_only=True)
class Groups:
    """All groups by kind and place."""

    captures: CaptureEvidence = field(default_factory=CaptureEvidence)
    #: Errors of kinds beyond those that are kept: only their number counts.
    rest: ErrorGroup = field(default_factory=_empty)
    _groups: dict[tuple[str, str], ErrorGroup] = field(default_factory=dict)
    _all: frozenset[tuple[str, str]] | None = None

    def add(
        self,
        error: LogError,
        *,
        file: str,
        number: int,
        time: str,
        frame: str | None,
        ignored: bool = False,
    ) -> ErrorGroup:
        """Count an error; its group, which is `rest` where no further one is kept."""
        key = (error.explanation.key, error.place)
        where = f"{file}:{number}"
        group = self._groups.get(key)
        if group is not None:
            group.count += 1
            group.ignored = group.ignored and ignored
            if time and (not group.time or time < group.time):
                group.time, group.where, group.text = time, where, error.text
                group.frame = frame or group.frame
            return group
        if len(self._groups) >= _MOST_GROUPS:
            self.rest.count += 1
            return self.rest
        group = ErrorGroup(
            explanation=error.explanation,
            place=error.place,
            where=where,
            time=time,
            text=error.text,
            frame=frame,
            timed=error.plog,
            exception=error.exception,
            ignored=ignored,
        )
        self._groups[key] = group
        return group

    def count_later(self, kind: tuple[str, str], time: str) -> bool:
        """Count an error that is not the first of its kind; False where it is, or may be."""
        group = self._groups.get(kind)
        if group is None:
            if len(self._groups) < _MOST_GROUPS:
                return False
            group = self.rest
        elif not group.time or time < group.time:
            return False
        group.count += 1
        return True

    @property
    def all_kinds(self) -> frozenset[tuple[str, str]] | None:
        """The kinds that are kept, once no other will be; None before."""
        if self._all is None and len(self._groups) >= _MOST_GROUPS:
            self._all = frozenset(self._groups)
        return self._all

    def count(self, kind: tuple[str, str], number: int) -> None:
        """Count further errors of a kind that was added."""
        self._groups.get(kind, self.rest).count += number

    def in_order(self) -> list[ErrorGroup]:
        """By the time of their first error; those that no time is near to come last."""
        groups = list(self._groups.values())
        # The log that shows most knows best whether something came before an error of this kind.
        preceded = {group.explanation.key for group in groups if group.preceded}
        for group in groups:
            group.preceded = group.explanation.key in preceded
        # A screen's time has no fraction: within its second it comes after the runtime's own.
        return sorted(groups, key=lambda group: group.time + ("" if group.timed else "~"))
