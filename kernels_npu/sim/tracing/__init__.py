"""Traces of simulated launches for Perfetto, on an axis of modelled cycles."""

from __future__ import annotations

from kernels_npu.sim.tracing.recorder import TraceRecorder, active_recorder, trace

__all__ = ["TraceRecorder", "active_recorder", "trace"]
