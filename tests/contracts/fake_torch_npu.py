"""A `torch_npu` generated from a snapshot: real signatures, and no behaviour but what is given.

Calling a stand-in with arguments that the release would not take raises TypeError; a name that the
snapshot does not have raises AttributeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from contract_suite.snapshot import read_snapshot
from contract_suite.surface import Definition

SNAPSHOTS = sorted(Path(__file__).parent.glob("torch_npu-*.json"))
NEWEST = max(SNAPSHOTS, key=lambda path: [int(part) for part in path.stem[10:].split(".")[:2]])


class FakeTorchNpu:
    """The module of one snapshot.

    behaviour: what a name does, by its dotted name: a function of the arguments by parameter, or
    the value that it returns. Without one a function returns a context that does nothing, and a
    class an object with its methods.
    """

    def __init__(self, snapshot: Path = NEWEST, behaviour: Mapping[str, Any] | None = None) -> None:
        self._names = read_snapshot(snapshot)
        self._behaviour = dict(behaviour or {})
        unknown = self._behaviour.keys() - self._names.keys()
        assert not unknown, f"{snapshot.name} does not have {unknown}"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.__version__ = snapshot.stem.partition("-")[2]
        self.npu = self._members("torch.npu")
        self._C = self._members("torch_npu._C")

    def called(self, name: str) -> list[dict[str, Any]]:
        """Arguments of all calls of `name`, by parameter."""
        return [arguments for seen, arguments in self.calls if seen == name]

    def _members(self, owner: str) -> Any:
        start = f"{owner}."
        own = {name[len(start) :]: name for name in self._names if name.startswith(start)}
        members = {
            short: self._stand_in(name, self._names[name])
            for short, name in own.items()
            if "." not in short
        }
        return SimpleNamespace(**members)

    def _stand_in(self, name: str, definition: Definition) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = {f"_{place}": value for place, value in enumerate(args)} | kwargs
            if definition.signatures:  # else a native function, known by name only
                bound = definition.signatures[0].bind(*args, **kwargs).arguments
                arguments = {k: v for k, v in bound.items() if k != "kwargs"}
                arguments |= bound.get("kwargs", {})
            self.calls.append((name, arguments))
            if name in self._behaviour:
                does = self._behaviour[name]
                return does(**arguments) if callable(does) else does
            if definition.kind == "class" and name.rpartition(".")[2][0].isupper():
                return self._members(name)
            return contextlib.nullcontext()

        return call
