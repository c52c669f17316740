"""What an error code means, and whether it can be the first cause of a failure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """How an error relates to the cause of a failure."""

    CAUSE = "cause"
    #: A cause only where nothing failed before it in the same log.
    FOLLOWER = "follower"
    #: A wrapper around, or a consequence of, another error.
    SYMPTOM = "symptom"
    #: An error that no table explains.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One kind of error: `key` is its code, or the name of a recognised text.

    source: where code or text are defined, or were reported.
    """

    key: str
    meaning: str
    fix: str
    role: Role = Role.CAUSE
    source: str = ""
