"""`msprof op`: one kernel at a time, on a device.

Source: Ascend/msopprof, csrc/op_profiling (interface/ms_op_prof.cpp, argparser/arg_checker.cpp,
common/prof_args.h) of August 2026. Which version
brought an option is known for `--custom-input` alone.
"""

from __future__ import annotations

from profiling.collect.families import A2_A3, A5, SPLIT
from profiling.collect.options import Condition, Excludes, Mode, Needs, Option
from profiling.collect.values import File, Names, Numbers, Text, WholeNumber, Words, names, switch

#: Of `--output`, in characters.
LONGEST_OUTPUT = 200
KERNEL_NAME = Words(characters="A-Za-z0-9_*", most=1022)
CORES = Numbers(low=0, high=49)
LAUNCHES = WholeNumber(low=1, high=5000, digits=4)

METRICS = names(
    "Default",
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "L2Cache",
    "ResourceConflictRatio",
    "BasicInfo",
    "Roofline",
    KernelScale=SPLIT,
    Occupancy=SPLIT,
    TimelineDetail=SPLIT,
    Source=SPLIT,
    MemoryDetail=SPLIT,
    PipeTimeline=A5,
    InstrTimeline=A5,
    PCSampling=A5,
)

#: Which kernels; also of the simulator.
SELECTION = (
    Option(
        name="kernel-name",
        value=KERNEL_NAME,
        meaning="kernels to collect, by the beginnings of their names or with *",
        default="the first kernel that is launched, and no other",
    ),
    Option(
        name="launch-count",
        value=LAUNCHES,
        meaning="most launches to collect, of those that --kernel-name and --mstx leave",
        default="1",
    ),
    Option(
        name="mstx",
        value=switch(),
        meaning="collect only between mstxRangeStartA and mstxRangeEnd",
        default="off",
    ),
    Option(
        name="mstx-include",
        value=Words(characters="A-Za-z0-9_"),
        meaning="only ranges with these messages",
        default="all",
    ),
)
MSTX_RULE = Needs(
    given=Condition(option="mstx-include"), other=Condition(option="mstx", value="on")
)
CONFIG = Option(
    name="config",
    value=File(),
    meaning="JSON file that names a kernel's binary to launch in place of an application",
)

OPTIONS = (
    *SELECTION,
    Option(
        name="application",
        value=Text(pattern=".+", rule="a command as one text", metavar="COMMAND"),
        meaning="not taken",
        refused="msprof takes the text apart by itself, and will drop the option",
        instead="write the application at the end of the line, behind --",
    ),
    Option(
        name="launch-skip-before-match",
        value=WholeNumber(low=0, high=1000),
        meaning="launches to leave out first, of whatever name",
        default="0",
    ),
    Option(
        name="aic-metrics",
        value=Names(chips=METRICS, separator=",", any_case=True, most=200),
        meaning="what to collect",
        default="Default: the seven tables of metrics",
    ),
    Option(
        name="replay-mode",
        value=Names(chips=names("kernel", "application", range=SPLIT)),
        meaning="what is run again for further counters",
        default="kernel",
    ),
    Option(
        name="kill",
        value=switch(),
        meaning="end the application once --launch-count is reached",
        default="off",
    ),
    Option(
        name="warm-up",
        value=WholeNumber(low=0, high=500),
        meaning="replays before measuring, for the clock to rise",
        default="5",
    ),
    Option(
        name="dump",
        value=switch(),
        meaning="keep what the timeline is made of",
        default="off",
        chips=A2_A3,
    ),
    Option(
        name="core-id",
        value=CORES,
        meaning="cores of the timeline",
        default="all",
        chips=SPLIT,
    ),
    Option(
        name="custom-input",
        value=File(),
        meaning="JSON file with labels for ticks (descid_display, enable_block_time)",
        since="26.1.0",
    ),
    Option(
        name="instr-timeline-pipe",
        value=Names(
            chips=names("cube", "fixp", "vector", "mte1", "mte2", "mte3"),
            separator="|",
        ),
        meaning="pipes of the instruction timeline",
        chips=A5,
    ),
    CONFIG,
)


def _metric(name: str) -> Condition:
    return Condition(option="aic-metrics", value=name)


def _replay(mode: str) -> Condition:
    return Condition(option="replay-mode", value=mode)


RULES: tuple[Needs | Excludes, ...] = (
    MSTX_RULE,
    Needs(given=_replay("range"), other=Condition(option="mstx", value="on")),
    Excludes(given=_replay("range"), other=Condition(option="warm-up", value="0")),
    Excludes(given=_metric("TimelineDetail"), other=_replay("application")),
    *(
        Excludes(given=_metric(metric), other=_replay("range"))
        for metric in ("Source", "MemoryDetail", "TimelineDetail")
    ),
    Excludes(given=_metric("PipeTimeline"), other=_metric("InstrTimeline")),
    Needs(given=Condition(option="dump"), other=_metric("TimelineDetail")),
    Needs(given=Condition(option="core-id"), other=_metric("TimelineDetail")),
    Needs(given=Condition(option="instr-timeline-pipe"), other=_metric("InstrTimeline")),
    # The kernel of a binary is the only one there is.
    Excludes(given=Condition(option="kernel-name"), other=Condition(option="config")),
)

OP = Mode(
    name="op",
    tools=(("msprof", "op"), ("msopprof",)),
    options=OPTIONS,
    rules=RULES,
    inputs=("config",),
)
