"""The DLPack exchange table of `torch.Tensor`, read with ctypes.

A TVM-FFI kernel never sees a Python stream object. When a tensor is passed to it, tvm-ffi looks at
`type(tensor).__dlpack_c_exchange_api__`, a capsule around a table of C functions, and asks the last
of them for the stream that the tensor's framework works on. If that answer is wrong, the kernel
runs on another stream than everything around it, and nobody is told.

Layout from DLPack's header: a version of two uint32, a pointer to an older table, five functions.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from kernels_npu.errors import EnvironmentProblem

ATTRIBUTE = "__dlpack_c_exchange_api__"
#: A capsule refers to its name for as long as it lives.
CAPSULE_NAME = b"dlpack_exchange_api"
MAJOR = 1

#: `int current_work_stream(DLDeviceType, int32_t device_id, void **out)`, called with the GIL held.
CURRENT_WORK_STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Layout(ctypes.Structure):
    """`DLPackExchangeAPI` of DLPack 1.x, 56 bytes."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


#: Functions without which a table is none; the one into a borrowed DLTensor is optional.
_REQUIRED = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "current_work_stream",
)


@dataclass(frozen=True, kw_only=True)
class ExchangeTable:
    """A table in memory. address: where. version: of DLPack, (major, minor). capsule: around it."""

    address: int
    version: tuple[int, int]
    capsule: Any

    @property
    def layout(self) -> Layout:
        """The table itself: what is written here, C reads."""
        return Layout.from_address(self.address)

    def ask(self, device_type: int, index: int) -> int:
        """Which stream the table names for a device; 0 for none.

        Raises:
            LookupError: the function failed without saying why.
            Exception: what the function raised.
        """
        answer = ctypes.c_void_p()
        function = CURRENT_WORK_STREAM(self.layout.current_work_stream)
        status = function(device_type, index, ctypes.byref(answer))
        if status != 0:
            raise LookupError(f"current_work_stream returned {status}")
        return answer.value or 0


def table_of(tensor_type: type[torch.Tensor] = torch.Tensor) -> ExchangeTable:
    """The table that tvm-ffi would use for tensors of `tensor_type` that it has not met yet.

    Raises:
        EnvironmentProblem: AI-STREAM-020 when there is none, or none that this code understands.
    """
    capsule = getattr(tensor_type, ATTRIBUTE, None)
    if not _is_valid(capsule, CAPSULE_NAME):
        raise _unusable(f"{tensor_type.__name__}.{ATTRIBUTE} is {capsule!r}")
    address = _get_pointer(capsule, CAPSULE_NAME)
    layout = Layout.from_address(address)
    # Only the version is safe to read before it is known.
    if layout.major != MAJOR:
        raise _unusable(f"the table is of DLPack {layout.major}.{layout.minor}")
    missing = [name for name in _REQUIRED if not getattr(layout, name)]
    if missing:
        raise _unusable(f"the table has no {', '.join(missing)}")
    return ExchangeTable(address=address, version=(layout.major, layout.minor), capsule=capsule)


def _unusable(what: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "AI-STREAM-020",
        f"no DLPack exchange table of version {MAJOR}.x for torch.Tensor: {what}",
        rule="TVM-FFI kernels learn the current stream from this table",
        fix="use torch 2.10 or later, or pip install torch-c-dlpack-ext for an older one",
    )
