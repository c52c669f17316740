"""One key for all spellings of a column: `Block Num` is `Block Dim`, `mac` is `cube`."""

from __future__ import annotations

import re
from functools import cache

#: Units in brackets become suffixes, so that `Time(us)` and `Time (us)` are one.
_UNITS = {"us": "us", "%": "pct", "gb/s": "gbps", "kb": "kb", "mb": "mb", "ms": "ms", "ns": "ns"}
_BRACKETS = re.compile(r"\(([^()]*)\)")
_SEPARATORS = re.compile(r"[\s_]+")

#: The same figure under another name: (pattern of the key, key); all are tried.
SPELLINGS = (
    # msprof renamed Block Dim in January 2026; msopprof keeps it
    (re.compile(r"^(mix_)?block_num$"), r"\1block_dim"),
    # the whole-application tool names the cube after its multiplier, and the core in full
    (re.compile(r"^(ai[cv])_mac_"), r"\1_cube_"),
    (re.compile(r"^aicore_time_us$"), "aic_time_us"),
    (re.compile(r"^deviceid$"), "device_id"),
    (re.compile(r"^stepid$"), "step_id"),
)


@cache
def key_of(name: str) -> str:
    """The key of a column's name."""
    key = _BRACKETS.sub(_unit, name.strip().lower())
    key = _SEPARATORS.sub("_", key).strip("_")
    for pattern, replacement in SPELLINGS:
        key = pattern.sub(replacement, key)
    return key


def _unit(match: re.Match[str]) -> str:
    inside = match[1].strip()
    return "_" + _UNITS.get(inside, inside)
