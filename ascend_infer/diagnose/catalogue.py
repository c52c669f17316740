"""The explanation of a code, from the tables."""

from __future__ import annotations

import dataclasses
import functools

from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.runtime_codes import RUNTIME_CODES
from ascend_infer.diagnose.text_codes import FAMILIES, TEXT_CODES

#: All codes with a row of their own.
CODES = {**RUNTIME_CODES, **TEXT_CODES}


def explains_exceptions(explanation: Explanation) -> bool:
    """Whether an error that stands below an exception no table knows is what it was raised for.

    Codes with letters stand in the texts of exceptions. A number that follows others is another
    call's, mostly that of the end of the capture in which the exception was raised.
    """
    role = explanation.role
    return role is Role.CAUSE or (role is Role.FOLLOWER and explanation.key in TEXT_CODES)


@functools.lru_cache(maxsize=4096)
def explain(code: str) -> Explanation:
    """The code's row, its family's, or an explanation that says that it is unknown."""
    row = CODES.get(code)
    if row is not None:
        return row
    for family in sorted(FAMILIES, key=lambda family: -len(family.key)):
        if code.startswith(family.key) and code[len(family.key) :][:1].isdecimal():
            return dataclasses.replace(family, key=code)
    return Explanation(
        key=code, meaning="not in the table", fix="read the line itself", role=Role.UNKNOWN
    )
