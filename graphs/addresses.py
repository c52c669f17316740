"""The numbers inside captured graphs: where static tensors were when they were captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from graphs.buffers import TENSOR_NAMES, DecodeBuffers
from graphs.errors import moved

Locate = Callable[[torch.Tensor], int]


class Addresses:
    """Addresses at capture time. A tensor that is elsewhere now would be ignored by every replay.

    Args:
        locate: `DeviceApi.address`. watched: further tensors that the graphs hold, by name.
    """

    __slots__ = ("_locate", "_static", "_watched")

    def __init__(
        self, locate: Locate, buffers: DecodeBuffers, watched: Mapping[str, torch.Tensor]
    ) -> None:
        self._locate = locate
        self._static = tuple(locate(tensor) for tensor in buffers.tensors())
        self._watched = {name: locate(tensor) for name, tensor in watched.items()}

    def check(self, buffers: DecodeBuffers) -> None:
        """Compare the static buffers; this is on the path of every replay.

        Raises:
            GraphError: AI-GRAPH-006 naming the tensor that moved.
        """
        locate = self._locate
        now = tuple([locate(tensor) for tensor in buffers.tensors()])
        if now != self._static:
            index = next(i for i, at in enumerate(now) if at != self._static[i])
            raise moved(TENSOR_NAMES[index], self._static[index], now[index])

    def check_watched(self, watched: Mapping[str, torch.Tensor]) -> None:
        """Compare the further tensors; `watched` is where their names lead now.

        Raises:
            GraphError: AI-GRAPH-006 naming the tensor that moved or is gone.
        """
        for name, captured in self._watched.items():
            tensor = watched.get(name)
            now = None if tensor is None else self._locate(tensor)
            if now != captured:
                raise moved(name, captured, now)
