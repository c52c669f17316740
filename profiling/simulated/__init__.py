"""Launches of the simulated NPU as a profile: the records and files of `msprof op`, without time.

    with profile_simulated("OPPROF_sim") as run:
        kernel(x)
    run.kernels[0].rows(FileKind.MEMORY)      # and the folder OPPROF_sim holds the same

Bytes, instructions and operations are `simulated`, cycles and what follows from them `modelled`.
Columns of time are NA.
"""

from __future__ import annotations

from profiling.simulated.run import SimulatedRun, profile_simulated
from profiling.simulated.tables import kernel_of

__all__ = ["SimulatedRun", "kernel_of", "profile_simulated"]
