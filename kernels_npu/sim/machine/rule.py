"""What a rule behind findings says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """check: field of `Checks` that switches it, or `always`. rule, fix: one sentence each."""

    check: str
    rule: str
    fix: str
    sanitizer: str = ""
