"""Operators with host parameters inside a captured step: updated between replays where they must.

Some operators take what changes between steps from the host: a list of lengths that enters tiling,
a scalar argument of a kernel. A graph repeats the values of its capture. On an NPU such launches go
into task groups, and before a replay those whose values differ are launched again with the new
ones, which replaces the captured launch. CUDA has nothing of the kind: there, and for every
operator that can, the value belongs into a device tensor, which needs no update. The attention of
this project reads lengths and block tables from device memory and does without.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphs.batch import DecodeBatch
from graphs.device_api import DeviceApi
from graphs.errors import GraphError

Operator = Callable[..., object]
HostFn = Callable[[DecodeBatch], Mapping[str, Any]]


@dataclass(kw_only=True)
class _Launch:
    """A captured launch. `values`: what the graph would use now, None after a failed update."""

    handle: Any
    operator: Operator
    host: HostFn
    values: Mapping[str, Any] | None


@dataclass(kw_only=True)
class _Step:
    """The step that is being computed; `launches`, by name, collects those of a capture."""

    batch: DecodeBatch
    launches: dict[str, _Launch] = field(default_factory=dict)


class HostUpdates:
    """The host parameters of one runner's step. Give the same object to the step and the runner.

    updates = HostUpdates(api)

    def step(batch):
        ...
        updates.launch(
            "layers.0.attention",
            lambda lengths: attention(query, key_cache, lengths, out=output),
            lambda rows: {"lengths": rows.seq_lens.tolist()},
        )

    runner = DecodeGraphRunner(step, buffers, plan, api, updates=updates)

    Tensors that `operator` refers to are held until the next capture: an update launches it again
    on the same memory. It must write its results into memory that is given to it.
    """

    def __init__(self, api: DeviceApi) -> None:
        self._api = api
        self._groups = api.task_groups()
        self._current = threading.local()
        self._captured: dict[int, dict[str, _Launch]] = {}
        self._stream: Any = None
        self.updated = 0

    def launch(self, name: str, operator: Operator, host: HostFn) -> None:
        """Call `operator(**host(batch))` inside a step, where `batch` is the step's host batch.

        Args:
            name: unique in the step.
            operator: launches the same operations every time, with the given values.
            host: from the rows of a step, as many as the bucket has, to numbers, texts and lists;
                called again for every later replay. Rows of padding look as `PADDING` says.

        Raises:
            GraphError: AI-GRAPH-029 outside of a runner's step, for a name used twice, or for
                tensors among the values; AI-GRAPH-030 while capturing on a device that cannot
                update captured launches.
        """
        step: _Step | None = getattr(self._current, "step", None)
        if step is None:
            raise _misused(
                f"{name} is launched outside of a step", "make the runner with updates=updates"
            )
        values = _values(name, host, step.batch)
        if not self._api.is_capturing():
            operator(**values)
            return
        if self._groups is None:
            raise GraphError(
                "AI-GRAPH-030",
                f"{name} takes host parameters {sorted(values)} and is being captured on "
                f"{self._api.device}",
                rule="only an NPU can update a captured launch; elsewhere a graph would repeat "
                "these values at every replay",
                fix="let the operator read them from a device tensor of the batch",
            )
        if name in step.launches:
            raise _misused(f"two launches of one step are called {name}", "use one name per launch")
        handles: list[Any] = []
        with self._groups.group(self._api.current_stream(), handles):
            operator(**values)
        step.launches[name] = _Launch(
            handle=handles[0], operator=operator, host=host, values=values
        )

    @contextlib.contextmanager
    def computing(self, batch: DecodeBatch, *, bucket: int | None = None) -> Iterator[None]:
        """The runner computes `batch` in the body; with `bucket` it captures that bucket."""
        self._current.step = step = _Step(batch=batch)
        try:
            yield
            if bucket is not None:
                self._captured[bucket] = step.launches
        finally:
            self._current.step = None

    def apply(self, bucket: int, batch: DecodeBatch) -> None:
        """Before a replay of `bucket`: update the launches whose values for `batch` are new.

        In stream order: after everything enqueued so far, the last replay included, because it may
        still be executing these launches; and before whatever is enqueued next.
        """
        changed = []
        for name, launch in self._captured[bucket].items():
            values = _values(name, launch.host, batch)
            if values != launch.values:
                changed.append((launch, values))
        if not changed or self._groups is None:
            return
        current = self._api.current_stream()
        if self._stream is None:
            self._stream = self._api.new_stream()
        self._stream.wait_stream(current)
        with self._api.use_stream(self._stream):
            for launch, values in changed:
                launch.values = None
                with self._groups.update(self._stream, launch.handle):
                    launch.operator(**values)
                launch.values = values
                self.updated += 1
        current.wait_stream(self._stream)

    def clear(self) -> None:
        """Forget all captured launches, and with them the tensors that they hold."""
        self._captured.clear()


def _values(name: str, host: HostFn, batch: DecodeBatch) -> Mapping[str, Any]:
    # A copy: whoever returns the same list each time would otherwise look unchanged.
    values = copy.deepcopy(dict(host(batch)))
    tensors = [key for key, value in values.items() if isinstance(value, torch.Tensor)]
    if tensors:
        raise _misused(
            f"{name}: {', '.join(tensors)} among the host parameters is a tensor",
            "pass numbers or lists, and let the operator refer to device tensors itself",
        )
    return values


def _misused(what: str, fix: str) -> GraphError:
    return GraphError(
        "AI-GRAPH-029",
        what,
        rule="host parameters are values of one named launch inside the step of one runner",
        fix=fix,
    )
