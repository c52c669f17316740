"""Definitions of names as data, with their origin, for tests without the package."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contract_suite.packages import Origin
from contract_suite.surface import Definition, Surface

#: Where torch_npu's wheels carry CANN's header of the runtime's error codes.
_CODES = "torch_npu/include/third_party/acl/inc/acl/error_codes/rt_error_codes.h"
_DEFINE = re.compile(r"#define\s+(ACL_ERROR_\w+)\s+(\d+)")


def write_snapshot(path: Path, origin: Origin, surface: Surface, names: Iterable[str]) -> None:
    """Write what `surface` says of `names`, and error codes; complete or not at all."""
    found = {name: surface.find(name) for name in sorted(set(names))}
    entries = [
        f" {json.dumps(name)}: {json.dumps(_entry(definition))}"
        for name, definition in found.items()
        if definition is not None
    ]
    header = surface.package.text(_CODES)
    codes = {code: name for name, code in _DEFINE.findall(header or "")}
    head = json.dumps(dataclasses.asdict(origin), indent=1).removesuffix("\n}")
    tail = f',\n"codes": {json.dumps(codes)}' if codes else ""
    body = ",\n ".join(entries)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(
        f'{{\n"origin": {head}\n}},\n"names": {{\n {body}\n}}{tail}\n}}\n', encoding="utf-8"
    )
    json.loads(temporary.read_text(encoding="utf-8"))
    os.replace(temporary, path)


def read_snapshot(path: Path) -> dict[str, Definition]:
    """The definitions of a snapshot by name."""
    names = json.loads(path.read_text(encoding="utf-8"))["names"]
    return {name: _definition(entry) for name, entry in names.items()}


def read_codes(path: Path) -> dict[str, str]:
    """The runtime's error codes of a snapshot, code to name."""
    codes: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["codes"]
    return codes


def _entry(definition: Definition) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": definition.kind, "where": definition.where}
    if definition.exported is not None:
        entry["exported"] = definition.exported
    if definition.signatures:
        entry["signatures"] = [
            [
                [p.name, p.kind.name, *([] if p.default is p.empty else [p.default])]
                for p in signature.parameters.values()
            ]
            for signature in definition.signatures
        ]
    return entry


def _definition(entry: dict[str, Any]) -> Definition:
    return Definition(
        kind=entry["kind"],
        where=entry["where"],
        exported=entry.get("exported"),
        signatures=tuple(
            inspect.Signature(
                [
                    inspect.Parameter(
                        name,
                        getattr(inspect.Parameter, kind),
                        default=default[0] if default else inspect.Parameter.empty,
                    )
                    for name, kind, *default in parameters
                ]
            )
            for parameters in entry.get("signatures", ())
        ),
    )
