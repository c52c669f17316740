"""A kernel cache for each dialect.

All of them keep compiled kernels in `~/.tilelang/cache` unless TILELANG_CACHE_DIR says otherwise,
under keys that do not name the dialect.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

VARIABLE = "TILELANG_CACHE_DIR"
_log = logging.getLogger(__name__)


def own_directory(kind: str) -> Path:
    """The cache of one dialect, beside the folder that all of them use by default."""
    return Path(os.path.expanduser("~")) / ".tilelang" / f"cache-{kind}"


def use_own(kind: str, environment: MutableMapping[str, str] = os.environ) -> Path:
    """Point the dialect's cache to a folder of its own, unless the user has chosen one.

    Call it before the dialect is imported: tilelang reads the variable then. The folder is not
    made here.
    """
    if not environment.get(VARIABLE):
        environment[VARIABLE] = str(own_directory(kind))
        if "tilelang" in sys.modules:
            _log.warning(
                "tilelang was imported before kernels_npu.dialect: its compiled kernels stay in "
                "the folder that all dialects share; export %s=%s",
                VARIABLE,
                environment[VARIABLE],
            )
    return Path(environment[VARIABLE])
