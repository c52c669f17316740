"""The version files of CANN, driver and firmware: `key=value` lines, read with suspicion."""

from __future__ import annotations

import re
from pathlib import Path

#: No version file is longer; a longer one is something else.
_LIMIT = 1 << 20
_PRINTABLE = re.compile(r"[\x20-\x7e]+")


def read_keys(file: Path) -> dict[str, str]:
    """Its keys in small letters; empty when it has none, because it is binary, for example.

    Raises:
        OSError: when it cannot be read.
    """
    with file.open("rb") as stream:
        text = stream.read(_LIMIT).decode("utf-8", errors="replace")
    keys = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        name, value = name.strip().lower(), value.strip()
        if equals and re.fullmatch(r"[a-z][\w.-]*", name) and _PRINTABLE.fullmatch(value):
            keys[name] = value
    return keys


def reason(error: OSError) -> str:
    """Why a file could not be read, without its name."""
    return error.strerror or type(error).__name__
