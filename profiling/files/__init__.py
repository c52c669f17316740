"""Readers of the profilers' files: every kind by its columns' names, damage noted and survived."""

from __future__ import annotations

from profiling.files.reading import read_profile

__all__ = ["read_profile"]
