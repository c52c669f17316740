"""What a rule behind findings says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """check: field of `Checks` that switches it, or `always`. rule, fix: one sentence each.

    severity: what findings with the code can be. sanitizer: msSanitizer's words for the mistake.
    """

    check: str
    rule: str
    fix: str
    sanitizer: str = ""
    severity: str = "error"
