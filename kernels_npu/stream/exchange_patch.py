"""Giving `torch.Tensor`'s exchange table a function that names torch_npu's current stream.

Needed where torch's own answers nothing for an NPU: with torch_npu 2.12 and older. tvm-ffi keeps
the address of a table in every thread that has met a tensor, so a patched copy lives for ever, and
removing the patch also gives that copy the original function back.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

from kernels_npu.errors import EnvironmentProblem
from kernels_npu.stream.current import current_raw_stream
from kernels_npu.stream.devices import KINDS
from kernels_npu.stream.exchange_table import (
    ATTRIBUTE,
    CAPSULE_NAME,
    CURRENT_WORK_STREAM,
    ExchangeTable,
    Layout,
    table_of,
)

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _LastError(threading.local):
    """What the callback of this thread caught last; C cannot carry it."""

    error: BaseException | None = None


_last = _LastError()


def take_error() -> BaseException | None:
    """The exception behind the callback's latest failure in this thread, handed out once."""
    error, _last.error = _last.error, None
    return error


class _PatchedTable:
    """A copy of a table whose answer for the NPU is torch_npu's current stream."""

    def __init__(self, original: ExchangeTable) -> None:
        self.original = original
        self._layout = Layout()
        ctypes.memmove(ctypes.byref(self._layout), original.address, ctypes.sizeof(Layout))
        self.capsule = _new_capsule(ctypes.addressof(self._layout), CAPSULE_NAME, None)
        others = CURRENT_WORK_STREAM(original.layout.current_work_stream)

        def current_work_stream(device_type: int, index: int, out: Any) -> int:
            # An exception that leaves a ctypes callback is printed, and C sees a success.
            try:
                if device_type != KINDS["npu"].dlpack_type:
                    return int(others(device_type, index, out))
                out[0] = current_raw_stream(torch.device("npu", index))
            except BaseException as error:  # noqa: BLE001 - raised again by who called into C
                _last.error = error
                return -1
            return 0

        self._callback = CURRENT_WORK_STREAM(current_work_stream)
        self.active = False

    def switch(self, on: bool) -> None:
        """Answer with torch_npu's streams, or with whatever the original answers."""
        function = ctypes.cast(self._callback, ctypes.c_void_p).value
        original = self.original.layout.current_work_stream
        self._layout.current_work_stream = function if on else original
        self.active = on

    @property
    def in_place(self) -> bool:
        """Whether `torch.Tensor` refers to this table."""
        return getattr(torch.Tensor, ATTRIBUTE, None) is self.capsule


#: Original's address -> patched copy. Never emptied: C code may hold the addresses of the copies.
_tables: dict[int, _PatchedTable] = {}
#: Held while the table is changed, and from a look at it to the change that follows.
lock = threading.RLock()
_changes = 0


def changes() -> int:
    """How often a patch has been put on or taken off in this process."""
    return _changes


def is_installed() -> bool:
    """Whether `torch.Tensor` has a patched table now."""
    return any(table.active and table.in_place for table in _tables.values())


def install() -> None:
    """Put a patched table on `torch.Tensor`. Threads that have met a tensor keep the old one.

    Raises:
        EnvironmentProblem: AI-STREAM-020 without a table, AI-STREAM-025 when it is installed
            already, AI-STREAM-026 when it was and someone has replaced it since.
    """
    with lock:
        require_own()
        if is_installed():
            raise EnvironmentProblem(
                "AI-STREAM-025",
                "torch.Tensor has the patched exchange table already",
                rule="the table is patched once per process",
                fix="call kernels_npu.stream.ensure(device), which installs only what is missing",
            )
        original = table_of()
        table = _tables.get(original.address)
        if table is None:
            table = _tables[original.address] = _PatchedTable(original)
        _switch(table, on=True)


def undo() -> None:
    """Give `torch.Tensor` its own table back; does nothing when no patch is installed.

    Raises:
        EnvironmentProblem: AI-STREAM-026 when someone has replaced the table since; nothing is
            changed then.
    """
    with lock:
        require_own()
        for table in _tables.values():
            if table.active:
                _switch(table, on=False)


def _switch(table: _PatchedTable, *, on: bool) -> None:
    global _changes
    table.switch(on)
    setattr(torch.Tensor, ATTRIBUTE, table.capsule if on else table.original.capsule)
    _changes += 1


def require_own() -> None:
    """Refuse to go on when another table has taken the place of an installed patch.

    Raises:
        EnvironmentProblem: AI-STREAM-026.
    """
    if any(table.active and not table.in_place for table in _tables.values()):
        raise EnvironmentProblem(
            "AI-STREAM-026",
            f"torch.Tensor.{ATTRIBUTE} is {getattr(torch.Tensor, ATTRIBUTE, None)!r}, "
            "not the patched table that was installed",
            rule="of several libraries in a process only one may patch the exchange table",
            fix="find who else does it (mainline tilelang at its first NPU kernel) "
            "and let one of them",
        )
