"""How files came to be: one JSON file beside them, so that figures keep their origin.

    Manifest(evidence=Evidence.SIMULATED, made_by="simulated NPU").write(folder)

The manifest counts for the folder that it lies in and everything below, down to the next manifest.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling.whole_files import write_whole

#: A name that no profiler gives a file of its own.
FILE_NAME = "ascend_infer_manifest.json"
_REQUIRED = ("evidence", "made_by")
_TEXTS = ("made_by", "started", "ended", "outcome")
_TABLES = ("versions", "environment", "git", "settings")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The origin of a folder's files.

    Args:
        evidence: how their figures came to be known.
        made_by: what wrote them: `msprof op`, `simulated NPU`.
        command: what was run, as an argument list.
        started, ended: UTC, ISO 8601; empty when unknown.
        exit_status: of the command, negative for a signal; None when it did not end by itself.
        outcome: the code of what went wrong; empty when nothing did.
        versions: of tools and packages, by name.
        environment: variables that change what is run or measured, as they were set.
        git: `commit`, `branch` and `changes` of the folder in which the command ran.
        settings: all else that a reader needs to repeat the run.
    """

    evidence: Evidence
    made_by: str
    command: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    exit_status: int | None = None
    outcome: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        tables = {name: dict(fields[name]) for name in _TABLES}
        return fields | tables | {"evidence": str(self.evidence), "command": list(self.command)}

    def write(self, folder: Path) -> Path:
        """Put the manifest into `folder`, whole or not at all; returns the file.

        Raises:
            UsageError: AI-CLI-004 when it cannot be written there.
        """
        file = folder / FILE_NAME
        # Arguments and variables may hold bytes that are no text: escapes keep them.
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        write_whole(file, text.encode("ascii"), "manifest")
        return file


def read(path: Path) -> Manifest:
    """The manifest at `path`, a file or the folder that holds it.

    Raises:
        UsageError: AI-PROF-033 when there is none, or it is damaged.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise _unusable(str(file), error.strerror or str(error)) from error
    return parse(data, str(file))


def covering(folder: Path) -> Manifest | None:
    """The nearest manifest in `folder` or above it; None when there is none.

    Raises:
        UsageError: AI-PROF-033 when it is damaged.
    """
    start = Path(os.path.abspath(folder))
    for place in (start, *start.parents):
        if os.path.lexists(place / FILE_NAME):
            return read(place / FILE_NAME)
    return None


def parse(data: bytes, name: str) -> Manifest:
    """The manifest that a file called `name` holds; fields of later versions are left out.

    Raises:
        UsageError: AI-PROF-033 when it is none.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unusable(name, str(error)) from error
    faults = _faults(fields) if isinstance(fields, dict) else ["it is not a JSON object"]
    if faults:
        raise _unusable(name, "; ".join(faults))
    known = {f.name: fields[f.name] for f in dataclasses.fields(Manifest) if f.name in fields}
    known |= {"evidence": Evidence(known["evidence"]), "command": tuple(known.get("command", ()))}
    return Manifest(**known)


def _faults(fields: dict[str, Any]) -> list[str]:
    """What keeps the fields from being a manifest's."""
    faults = [f"{name!r} is missing" for name in _REQUIRED if name not in fields]
    for name, value in fields.items():
        if not _fits(name, value):
            faults.append(f"{name!r} is {value!r}"[:120])
    return faults


def _fits(name: str, value: Any) -> bool:
    if name == "evidence":
        return value in [level.value for level in Evidence]
    if name == "exit_status":
        return value is None or type(value) is int
    if name == "command":
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if name in _TABLES:
        return isinstance(value, dict) and all(isinstance(cell, str) for cell in value.values())
    return isinstance(value, str) or name not in _TEXTS


def _unusable(name: str, why: str) -> UsageError:
    return UsageError(
        "AI-PROF-033",
        f"{name}: {why}",
        rule=f"{FILE_NAME} says where the figures below its folder come from",
        fix="restore the file, or collect again; without it the figures have no known origin",
    )
