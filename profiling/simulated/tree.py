"""A folder of launches in the layout of `msprof op`: `<kernel>/<n>/<kind>.csv`."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling.manifest import Manifest
from profiling.records.kernel import OpProfile
from profiling.records.quantity import Value
from profiling.records.table import Table


class Tree:
    """The folder under construction: it gets its name when it is complete.

    Args:
        folder: must not exist yet, or be empty.

    Raises:
        UsageError: AI-CLI-004 when it cannot be made; nothing has run then.
    """

    def __init__(self, folder: Path) -> None:
        # The process may change its working directory before the folder is complete.
        self.folder = folder.absolute()
        self.half = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.tmp")
        try:
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise FileExistsError("it is there and not an empty folder")
            self.half.mkdir()
        except OSError as error:
            raise self._not_writable(error) from error

    def complete(self, kernels: Iterable[OpProfile], manifest: Manifest) -> None:
        """Write the launches' tables and the manifest, and give the folder its name.

        Raises:
            UsageError: AI-CLI-004; what was written is left in the temporary folder.
        """
        try:
            for kernel in kernels:
                for table in kernel.tables.values():
                    _write(table, self.half / table.file)
            manifest.write(self.half)
            os.replace(self.half, self.folder)
        except OSError as error:
            raise self._not_writable(error, f"; what there is lies in {self.half}") from error

    def discard(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.half, ignore_errors=True)

    def _not_writable(self, error: OSError, kept: str = "") -> UsageError:
        return UsageError(
            "AI-CLI-004",
            f"cannot write the profile {self.folder}: {error.strerror or error}{kept}",
            rule="a profile is a new folder, so that launches of two runs cannot mix",
            fix="name a folder that does not exist, inside one that you may write to",
        )


def _write(table: Table, file: Path) -> None:
    """As the profiler does: names, then rows, each line with a comma at its end."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, lineterminator=",\n")
        lines.writerow([column.name for column in table.columns])
        lines.writerows([_text(cell) for cell in row.cells] for row in table.rows)


def _text(cell: Value) -> str:
    return "NA" if cell is None else str(cell)
