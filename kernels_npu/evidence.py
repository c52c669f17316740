"""Evidence levels: how a number shown to a user came to be known."""

from __future__ import annotations

import enum


class Evidence(str, enum.Enum):
    """The origin of a figure, weakest first; every figure shown to a user carries one.

    Simulated counters (bytes, instructions, modelled cycles) are `SIMULATED` or `MODELLED`; they
    are never converted to time. Times come only from a profiler's file or a clock on a real device.
    """

    STATIC_CHECK = "static-check"
    CPU_VERIFIED = "cpu-verified"
    SIMULATED = "simulated"
    MODELLED = "modelled"
    VENDOR_REPORTED = "vendor-reported"
    GPU_MEASURED = "gpu-measured"
    NPU_MEASURED = "npu-measured"

    def __str__(self) -> str:
        return self.value
