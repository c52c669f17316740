"""The folder of one collection: new, and nobody else's to write."""

from __future__ import annotations

import datetime
import os
import stat
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling.collect.op_options import LONGEST_OUTPUT

#: Owner and group of the folders that are made here; msprof warns of others who may write.
_SHARED, _OWN = 0o750, 0o700
#: Collections that may begin in one second.
_MOST_NUMBERS = 100


def run_folder(output: Path, mode: str) -> tuple[Path, list[str]]:
    """A new folder below `output`, and what msprof will warn of.

    Raises:
        UsageError: AI-CLI-004 when it cannot be made or written to, AI-PROF-034 when its path is
            too long.
    """
    try:
        _make(output)
        warnings = _warnings(output)
        return _new(output, mode), warnings
    except OSError as error:
        raise unwritable(output, error) from error


def unwritable(folder: Path, error: OSError) -> UsageError:
    """Why nothing can be put into a folder."""
    return UsageError(
        "AI-CLI-004",
        f"--output {folder}: {error.strerror}",
        rule="msprof writes into a folder",
        fix="name a folder that can be written to, such as --output msprof",
    )


def check_length(output: Path) -> None:
    """Refuse a path that msprof refuses for its length.

    Raises:
        UsageError: AI-PROF-034.
    """
    length = len(str(output))
    if length > LONGEST_OUTPUT:
        raise UsageError(
            "AI-PROF-034",
            f"--output={output}: it has {length} characters",
            rule=f"--output takes a path of at most {LONGEST_OUTPUT} characters",
            fix="name a folder with a shorter path, or a relative one",
        )


def _make(folder: Path) -> None:
    """`mkdir -p` whose mode also counts for the folders above."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make(folder.parent)
    folder.mkdir(mode=_SHARED, exist_ok=True)


def _new(output: Path, mode: str) -> Path:
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    for number in range(1, _MOST_NUMBERS):
        folder = output / (f"{mode}_{when}" + (f"_{number}" if number > 1 else ""))
        check_length(folder)
        try:
            folder.mkdir(mode=_OWN)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(17, f"{_MOST_NUMBERS} collections of one second")


def _warnings(output: Path) -> list[str]:
    """What msprof demands of the folder above its own: it warns, and goes on."""
    status = output.stat()
    warnings = []
    if output.is_symlink():
        warnings.append(f"{output} is a link, of which msprof warns")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        warnings.append(
            f"{output} may be written by others ({stat.filemode(status.st_mode)}), of which msprof "
            f"warns: chmod go-w {output}"
        )
    if status.st_uid != os.geteuid():
        warnings.append(f"{output} belongs to another user, who can replace what is collected")
    return warnings
