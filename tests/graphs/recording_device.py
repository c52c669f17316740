"""Graphs on the CPU for tests: capture only records ATen calls, replay executes them.

Enough of a device graph's semantics to prove the runner and the verification: addresses are fixed
at capture, values are not, and a capture leaves every tensor that existed before it unchanged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from graphs.device_api import CpuDeviceApi, MemoryFigures, ReplayCounters


class RecordedGraph:
    """A list of ATen calls with the tensors that hold their results."""

    def __init__(self, api: RecordingDeviceApi) -> None:
        self._api = api
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def replay(self) -> None:
        self._api.replays += 1
        self._api.launches += len(self.calls)
        with torch.no_grad():
            for func, args, kwargs, result in self.calls:
                again, _ = tree_flatten(func(*args, **kwargs))
                for target, value in zip(tree_flatten(result)[0], again):
                    if isinstance(target, torch.Tensor) and target is not value:
                        target.copy_(value)

    def reset(self) -> None:
        self.calls.clear()


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("error code is 107027: stream is captured")
        aliases = [a.alias_info for a in func._schema.arguments if a.alias_info is not None]
        if any(alias.is_write for alias in aliases):
            self._graph.calls.append((func, args, kwargs, None))
            return args[0]
        if aliases:
            return func(*args, **kwargs)  # a view: no data moves
        result = func(*args, **kwargs)  # for shapes only: the values are poison until replay
        for tensor in tree_flatten(result)[0]:
            if isinstance(tensor, torch.Tensor):
                tensor.fill_(float("nan") if tensor.is_floating_point() else 0)
        self._graph.calls.append((func, args, kwargs, result))
        return result


class _Stream:
    def wait_stream(self, other: Any) -> None:
        pass


class RecordingDeviceApi(CpuDeviceApi):
    """The CPU as if it had graphs; counts replays and launches as the simulated NPU does."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_graphs = True
        self.replays = self.launches = 0
        self.capturing = False
        self.stream = _Stream()

    def new_graph(self) -> RecordedGraph:
        return RecordedGraph(self)

    def new_pool(self) -> object:
        return object()

    def new_stream(self) -> _Stream:
        return _Stream()

    def current_stream(self) -> _Stream:
        return self.stream

    @contextlib.contextmanager
    def capture(
        self, graph: Any, *, pool: Any, stream: Any, error_mode: str = "global"
    ) -> Iterator[None]:
        self.capturing = True
        broken = False
        try:
            with _Recorder(graph):
                yield
        except Exception:
            broken = True
            raise
        finally:
            self.capturing = False
            if broken:  # as on a device: ending an invalidated capture raises once more
                raise RuntimeError("error code is 507903: the capture is invalidated")

    def is_capturing(self) -> bool:
        return self.capturing

    def replay_counters(self) -> ReplayCounters:
        return ReplayCounters(replays=self.replays, launches=self.launches)

    def memory(self) -> MemoryFigures:
        return MemoryFigures(free=0, total=0, allocated=0, reserved=0)
