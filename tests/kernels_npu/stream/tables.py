"""Exchange tables with an answer of one's own, as other versions of torch and torch_npu have."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.stream.exchange_patch import _new_capsule
from kernels_npu.stream.exchange_table import (
    ATTRIBUTE,
    CAPSULE_NAME,
    CURRENT_WORK_STREAM,
    Layout,
    table_of,
)

#: Tables and callbacks that C may still call.
KEPT: list[Any] = []


def make(answer: Callable[[int], int], **fields: int) -> Any:
    """A capsule around a copy of torch's table that names `answer(index)` for every device."""

    def current_work_stream(device_type: int, index: int, out: Any) -> int:
        out[0] = answer(index)
        return 0

    callback = CURRENT_WORK_STREAM(current_work_stream)
    layout = Layout()
    ctypes.memmove(ctypes.byref(layout), table_of().address, ctypes.sizeof(Layout))
    layout.current_work_stream = ctypes.cast(callback, ctypes.c_void_p).value
    for name, value in fields.items():
        setattr(layout, name, value)
    KEPT.append((layout, callback))
    return _new_capsule(ctypes.addressof(layout), CAPSULE_NAME, None)


def put(answer: Callable[[int], int]) -> Any:
    """Give `torch.Tensor` such a table."""
    capsule = make(answer)
    setattr(torch.Tensor, ATTRIBUTE, capsule)
    return capsule


def no_stream(index: int) -> int:
    """What a table says that knows nothing of NPUs: torch_npu 2.12 and older."""
    return 0


def true_stream(index: int) -> int:
    """What torch says together with torch_npu 2.13."""
    return int(torch.npu.current_stream(index).npu_stream)
