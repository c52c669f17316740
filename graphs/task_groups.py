"""torch.npu's task groups: captured launches that are given other arguments between replays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from graphs.device_types import TorchNamespace


class TaskGroups:
    """The four functions of a `torch.npu` namespace as two contexts.

    Handles come from `group` and stay valid until the graph is reset.
    """

    def __init__(self, namespace: TorchNamespace) -> None:
        self._namespace = namespace

    @contextlib.contextmanager
    def group(self, stream: Any, handles: list[Any]) -> Iterator[None]:
        """Bracket launches on the captured `stream`; appends the handle to `handles`."""
        self._namespace.graph_task_group_begin(stream)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one that matters
                self._namespace.graph_task_group_end(stream)
            raise
        handles.append(self._namespace.graph_task_group_end(stream))

    @contextlib.contextmanager
    def update(self, stream: Any, handle: Any) -> Iterator[None]:
        """Launches on `stream` in the body replace those of the group instead of executing."""
        self._namespace.graph_task_update_begin(stream, handle)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self._namespace.graph_task_update_end(stream)
            raise
        self._namespace.graph_task_update_end(stream)
