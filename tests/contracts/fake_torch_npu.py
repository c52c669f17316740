"""A `torch_npu` generated from a snapshot: real signatures, no behaviour of its own.

Calling a stand-in with arguments that the release would not take raises TypeError; a name that the
snapshot does not have raises AttributeError.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from contract_suite.snapshot import read_snapshot
from contract_suite.surface import Definition

SNAPSHOTS = sorted(Path(__file__).parent.glob("torch_npu-*.json"))


class FakeTorchNpu:
    """The module of one snapshot. `results` are what functions return, by their dotted name."""

    def __init__(self, snapshot: Path, results: Mapping[str, Any] | None = None) -> None:
        self._names = read_snapshot(snapshot)
        self._results = dict(results or {})
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.__version__ = snapshot.stem.partition("-")[2]
        self.npu = self._members("torch.npu")
        self._C = self._members("torch_npu._C")

    def _members(self, owner: str) -> Any:
        start = f"{owner}."
        own = [name for name in self._names if name.startswith(start)]
        return SimpleNamespace(
            **{
                name[len(start) :]: self._stand_in(name, self._names[name])
                for name in own
                if "." not in name[len(start) :]
            }
        )

    def _stand_in(self, name: str, definition: Definition) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            signature = definition.signature
            if signature is None:  # a native function, known by name only
                self.calls.append((name, dict(enumerate(args)) | kwargs))  # type: ignore[arg-type]
            else:
                bound = signature.bind(*args, **kwargs)
                self.calls.append((name, dict(bound.arguments)))
            if name in self._results:
                return self._results[name]
            if definition.kind == "class" and name.rpartition(".")[2][0].isupper():
                return self._members(name)
            return _nothing()

        call.__signature__ = definition.signature  # type: ignore[attr-defined]
        return call

    def called(self, name: str) -> list[dict[str, Any]]:
        """Arguments of all calls of `name`, by parameter."""
        return [arguments for seen, arguments in self.calls if seen == name]

    def signature(self, name: str) -> inspect.Signature:
        """The signature of `name` in the release."""
        found = self._names[name].signature
        assert found is not None
        return found


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield
