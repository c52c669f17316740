"""Collecting with msprof: a command that is checked before it starts, its run, and what it left.

    request = Request(mode=MODES["op"], values={"kernel-name": "main*"}, application=("./app",))
    collection = collect(request)
    collection.error, collection.profile, collection.folder

`collect` is in `profiling.collect.collection`: it reads what was collected, which needs NumPy.
"""

from __future__ import annotations

from profiling.collect.command import argument_list, printed
from profiling.collect.families import Family, family_of
from profiling.collect.modes import MODES
from profiling.collect.options import Mode, Option
from profiling.collect.request import Request, check
from profiling.collect.tool import words_of

__all__ = [
    "MODES",
    "Family",
    "Mode",
    "Option",
    "Request",
    "argument_list",
    "check",
    "family_of",
    "printed",
    "words_of",
]
