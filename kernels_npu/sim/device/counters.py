"""What ran on the simulated device: launches per kernel and operations, eager and replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Counts since the last `reset`.

    captures, replays: of whole graphs. eager_launches, replayed_launches: kernel name ->
    launches of TileLang kernels. eager_ops, replayed_ops: PyTorch operation -> executions on the
    device. empty_launches: kernel name -> launches left out because the grid was empty or no
    byte was there. compilations: kernels made ready for their first launch. task_groups: groups
    captured. task_updates: updates of a group.
    """

    captures: int
    replays: int
    eager_launches: Mapping[str, int]
    replayed_launches: Mapping[str, int]
    eager_ops: Mapping[str, int]
    replayed_ops: Mapping[str, int]
    empty_launches: Mapping[str, int]
    compilations: int
    task_groups: int
    task_updates: int

    @property
    def launches(self) -> dict[str, int]:
        """Kernel name -> launches, eager and replayed together."""
        return dict(Counter(self.eager_launches) + Counter(self.replayed_launches))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v if isinstance(v, int) else dict(v) for k, v in values.items()}


class _Counters:
    def __init__(self) -> None:
        self.captures = 0
        self.replays = 0
        self.compilations = 0
        self.task_groups = 0
        self.task_updates = 0
        self.eager_launches: Counter[str] = Counter()
        self.replayed_launches: Counter[str] = Counter()
        self.eager_ops: Counter[str] = Counter()
        self.replayed_ops: Counter[str] = Counter()
        self.empty_launches: Counter[str] = Counter()


live = _Counters()


def snapshot() -> Snapshot:
    """The counts now; later work does not change the returned object."""
    return Snapshot(
        captures=live.captures,
        replays=live.replays,
        eager_launches=MappingProxyType(dict(live.eager_launches)),
        replayed_launches=MappingProxyType(dict(live.replayed_launches)),
        eager_ops=MappingProxyType(dict(live.eager_ops)),
        replayed_ops=MappingProxyType(dict(live.replayed_ops)),
        empty_launches=MappingProxyType(dict(live.empty_launches)),
        compilations=live.compilations,
        task_groups=live.task_groups,
        task_updates=live.task_updates,
    )


def reset() -> None:
    """Start counting from zero."""
    live.captures = live.replays = live.compilations = 0
    live.task_groups = live.task_updates = 0
    for counter in (
        live.eager_launches,
        live.replayed_launches,
        live.eager_ops,
        live.replayed_ops,
        live.empty_launches,
    ):
        counter.clear()
