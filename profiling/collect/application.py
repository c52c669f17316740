"""What is profiled: exactly one thing, written so that the tool cannot misread it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kernels_npu.errors import UsageError
from profiling.collect.options import Mode

#: What a text of several arguments can be taken apart at.
_SPECIAL = re.compile(r"[\s'\"\\]")


def check_application(mode: Mode, options: Iterable[str], application: Sequence[str]) -> None:
    """Refuse no application, two of them, and one that the tool would read as something else.

    options: the names of those that are given.

    Raises:
        UsageError: AI-PROF-039.
    """
    named = [f"--{name}" for name in mode.inputs if name in options]
    if application:
        named.append("an application")
    if len(named) != 1:
        raise _not_one(mode, named)
    if application and application[0].startswith("-"):
        raise UsageError(
            "AI-PROF-039",
            f"the application begins with {application[0]!r}",
            rule="the tool takes all that begins with a dash for its own, up to a program",
            fix="begin with the program, as in -- python script.py",
        )
    for argument in application if mode.application else ():
        if not argument or _SPECIAL.search(argument):
            raise UsageError(
                "AI-PROF-039",
                f"the argument {argument!r} of the application",
                rule="msprof takes the application as one text and splits it at spaces; how it "
                "treats quotes is not documented",
                fix="put the command into a script, and profile that",
            )


def _not_one(mode: Mode, named: Sequence[str]) -> UsageError:
    choices = ["an application at the end of the line", *(f"--{name}" for name in mode.inputs)]
    return UsageError(
        "AI-PROF-039",
        f"there is more than one thing to profile: {', '.join(named)}"
        if named
        else "there is nothing to profile",
        rule=f"exactly one of {', '.join(choices)}" if mode.inputs else f"{choices[0]} is needed",
        fix=f"ascend-infer profile {mode.name} -- python script.py",
    )
