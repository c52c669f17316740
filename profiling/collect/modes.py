"""The ways to collect, by their names on the command line."""

from __future__ import annotations

from profiling.collect.app_options import APP
from profiling.collect.op_options import OP
from profiling.collect.simulator_options import SIMULATOR

MODES = {mode.name: mode for mode in (OP, SIMULATOR, APP)}
