"""Profiler files: what msprof and torch_npu's profiler wrote, as typed records with their origin.

profile = read_profile("OPPROF_20260605155158_TIDPSIUYBGPWXXNW")
profile.kernels[0].info.task_duration_us
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiling.files import read_profile
    from profiling.records import FileKind, OpProfile, Profile

__all__ = ["FileKind", "OpProfile", "Profile", "read_profile"]


def __getattr__(name: str) -> Any:
    """Readers and records need NumPy, for which the help of a command does not wait."""
    if name in __all__:
        module = "profiling.files" if name == "read_profile" else "profiling.records"
        return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
