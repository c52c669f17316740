"""`msprof op simulator`: kernels on the vendor's simulator, which knows instructions and cycles.

Source: as for `msprof op`. Options of the device mode that are missing here (`--warm-up`, `--kill`,
`--replay-mode`, `--launch-skip-before-match`) are errors of the tool's parser.
"""

from __future__ import annotations

from kernels_npu.evidence import Evidence
from profiling.collect.families import A2_A3
from profiling.collect.op_options import CONFIG, CORES, MSTX_RULE, SELECTION
from profiling.collect.options import Condition, Excludes, Mode, Option
from profiling.collect.values import File, Names, Text, WholeNumber, names, switch

OPTIONS = (
    *SELECTION,
    Option(
        name="aic-metrics",
        value=Names(
            chips=names("PipeUtilization", "ResourceConflictRatio", "PMSampling", Overhead=A2_A3),
            separator=",",
            any_case=True,
            most=200,
            required="PipeUtilization",
        ),
        meaning="what to collect",
        default="PipeUtilization",
    ),
    Option(
        name="soc-version",
        value=Text(pattern=r"Ascend\w[\w-]*", rule="a folder of $ASCEND_HOME_PATH/tools/simulator"),
        meaning="chip to simulate",
        default="the simulator on LD_LIBRARY_PATH, or Ascend910B1",
    ),
    Option(name="core-id", value=CORES, meaning="cores to keep", default="all"),
    Option(
        name="timeout",
        value=WholeNumber(low=1, high=2880, metavar="MINUTES"),
        meaning="minutes after which the tool ends the simulation and keeps what there is",
        default="none",
    ),
    Option(
        name="dump",
        value=switch(),
        meaning="keep the simulator's own files",
        default="off",
        chips=A2_A3,
    ),
    CONFIG,
    Option(
        name="export",
        value=File(folder=True, metavar="FOLDER"),
        meaning="files of an earlier simulation to analyse in place of an application",
    ),
)

SIMULATOR = Mode(
    name="simulator",
    tools=(("msprof", "op", "simulator"), ("msopprof", "simulator")),
    options=OPTIONS,
    rules=(
        MSTX_RULE,
        Excludes(given=Condition(option="soc-version"), other=Condition(option="config")),
    ),
    inputs=("config", "export"),
    evidence=Evidence.MODELLED,
    counts="cores",
)
