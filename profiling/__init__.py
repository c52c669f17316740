"""Profiler files: what msprof and torch_npu's profiler wrote, as typed records with their origin.

profile = read_profile("OPPROF_20260605155158_TIDPSIUYBGPWXXNW")
profile.kernels[0].info.task_duration_us
"""

from __future__ import annotations

from profiling.files import read_profile
from profiling.records import FileKind, OpProfile, Profile

__all__ = ["FileKind", "OpProfile", "Profile", "read_profile"]
