"""`msprof`: all kernels of a whole application, and what the host did meanwhile.

Source: the command that wrote the files which the reader is tested with. It names the options and
one value of each; ranges, chips and conflicts are not known here, so that the tool checks them.
The application is one text there, which the tool takes apart.
"""

from __future__ import annotations

from profiling.collect.options import Mode, Option
from profiling.collect.values import Text, switch

OPTIONS = (
    Option(
        name="ai-core",
        value=switch(),
        meaning="collect counters of the cores",
        given="on",
    ),
    Option(
        name="aic-metrics",
        value=Text(pattern=r"\w+", rule="one name, such as PipeUtilization"),
        meaning="which counters",
        given="PipeUtilization",
    ),
    Option(
        name="task-time",
        value=switch(),
        meaning="collect the times of tasks",
        given="on",
    ),
    Option(
        name="runtime-api",
        value=switch(),
        meaning="collect calls into the runtime",
        given="on",
    ),
)

APP = Mode(
    name="app",
    tools=(("msprof",),),
    options=OPTIONS,
    # What the reader reads: tables as text, of which summaries are CSV.
    fixed=("--type=text", "--summary-format=csv"),
    application="application",
    counts="tasks",
)
