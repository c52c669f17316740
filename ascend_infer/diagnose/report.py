"""Reads logs once, groups their errors and names the first cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ascend_infer.diagnose.capture import CaptureEvidence
from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.groups import ErrorGroup, Groups
from ascend_infer.diagnose.reader import line_blocks, log_files, total_size
from ascend_infer.diagnose.scan import FileScan
from ascend_infer.diagnose.workers import Workers
from ascend_infer.progress import Reporter, Silent
from kernels_npu.errors import UsageError


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
        """The first error that explains itself or is an exception; else what is left, by role."""
        for group in self.groups:
            if group.role is Role.CAUSE or (group.role is Role.UNKNOWN and group.exception):
                return group
        for role in (Role.UNKNOWN, Role.SYMPTOM):
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
    paths: Iterable[str], reporter: Reporter | None = None, *, workers: int = 1
) -> LogDiagnosis:
    """Read files, folders and `-` (standard input), in memory that their size does not change.

    reporter: told the MiB that were read, of how many. workers: processes for large logs; more
    than one only from a program that may be imported again, as `multiprocessing` asks.
    Raises UsageError where a path does not exist, or there is nothing that can be read.
    """
    diagnosis, groups = LogDiagnosis(), Groups()
    files = log_files(list(paths), diagnosis.unreadable)
    shown = reporter or Silent()
    total = total_size(files)
    shown.stage("MiB read", None if total is None else max(1, total >> 20))
    read = 0

    def advance(size: int) -> None:
        nonlocal read
        read += size
        shown.step(read >> 20)

    with Workers(workers) as condensing:
        for file in files:
            before = len(diagnosis.unreadable)
            scan = FileScan(file, groups)
            blocks = line_blocks(file, diagnosis.unreadable, advance)
            for first, digest in condensing.condense(blocks, groups):
                scan.take(first, digest)
            diagnosis.files += len(diagnosis.unreadable) == before
    if not diagnosis.files and diagnosis.unreadable:
        raise UsageError(
            "AI-CLI-004", "; ".join(diagnosis.unreadable[:5]), fix="make the logs readable"
        )
    diagnosis.groups = groups.in_order()
    diagnosis.captures, diagnosis.dropped = groups.captures, groups.rest.count
    return diagnosis
