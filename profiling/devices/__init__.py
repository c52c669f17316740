"""Chips as data: cores, memories, bandwidths and peaks, each figure with its source and evidence.

chip = get_chip("910B3")
chip.peak("float16").value / chip.memory_bandwidth.value    # FLOP per byte
"""

from __future__ import annotations

from profiling.devices.chip import Chip, ChipFigure
from profiling.devices.lookup import CHIPS, get_chip

__all__ = ["CHIPS", "Chip", "ChipFigure", "get_chip"]
