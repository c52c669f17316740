"""Device memory: PrivateUse1 tensors whose storage is host memory, and the way between the two.

An npu tensor is an ordinary `torch.Tensor` with dispatch key PrivateUse1; views, autograd and
in-place operations treat it like one of a compiled back end. Its storage points into a CPU tensor
that the storage owns. `wrap` makes the npu tensor of a CPU tensor and `host` the CPU alias of an
npu tensor; neither copies.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kernels_npu.sim.device.errors import DeviceError
from kernels_npu.sim.device.state import current, device_state, process

CPU = torch.device("cpu")
#: Bytes of memory that nothing has written: a NaN in every float format, -1 in every integer.
POISON = 0xFF
#: Aliases kept per storage before they are dropped; a cache sliced at ever new offsets stays small.
_MAX_ALIASES = 64

# The parsers behind `torch.empty` and so on, which cost half of a call through `torch.ops`.
_functions: Any = torch._C._VariableFunctions
_as_strided = _functions.as_strided
_empty = _functions.empty
_empty_strided = _functions.empty_strided
_clone = _functions.clone
_set_geometry = torch.ops.aten.set_.source_Storage_storage_offset.redispatch
_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_to_dlpack = torch._C._to_dlpack
_from_dlpack = torch._C._from_dlpack

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_device_field = ctypes.c_int64.from_address
#: DLTensor starts with the data pointer, then {int32 device_type, int32 device_id}.
_DEVICE_OFFSET = 8
#: kDLExtDev, which PyTorch maps to PrivateUse1; the index sits in the upper half.
_EXTENSION_DEVICE = 12
_HOST_DEVICE = 1

AliasKey = tuple[torch.dtype, torch.Size, tuple[int, ...], int]


class Block:
    """The memory of one npu storage.

    base: a CPU tensor at the start of the memory; it owns the bytes. aliases: CPU views by
    geometry. read, write: numbers of the newest operation that did so on the default stream, as
    long as the device has used no other; `write` of a new storage is a number on the stream with
    uid `stream`. queued: the newest operation of torch's task queue. accesses: see `ordering`.
    freed: the storage that the memory was allocated for is gone, and with it the memory on a
    device; graphs and weak references that still name it must not use it. watched: there are weak
    references.
    """

    __slots__ = (
        "__weakref__",
        "accesses",
        "aliases",
        "base",
        "device",
        "freed",
        "index",
        "nbytes",
        "owner",
        "queued",
        "raw",
        "read",
        "stream",
        "watched",
        "write",
        "writer",
    )

    def __init__(self, base: torch.Tensor, index: int, nbytes: int, owner: Any = None) -> None:
        self.base = base
        self.index = index
        self.nbytes = nbytes
        self.aliases: dict[AliasKey, torch.Tensor] = {}
        self.raw: npt.NDArray[np.uint8] | None = None
        self.read = self.write = self.queued = 0
        self.writer = "allocation"
        self.accesses: list[Any] | None = None
        self.owner = owner
        self.freed = self.watched = False
        self.device = device = process.devices[index]
        self.stream = device.default_stream.uid
        device.allocated += nbytes
        device.allocations += 1
        if device.allocated > device.peak:
            device.peak = device.allocated

    def free(self) -> None:
        """The memory is no longer anybody's; memory of a graph's pool stays with the pool."""
        self.device.allocated -= self.nbytes
        if self.owner is not None:
            self.owner.release(self)
            return
        self.freed = True
        if self.watched:
            ctypes.memset(self.base.data_ptr(), POISON, self.nbytes)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All bytes of the storage as a NumPy view."""
        if self.raw is None:
            self.raw = self._typed(torch.uint8).numpy()
        return self.raw

    def alias(self, key: AliasKey) -> torch.Tensor:
        """The CPU view with this geometry."""
        dtype, shape, stride, offset = key
        base = self.base if self.base.dtype is dtype else self._typed(dtype)
        view: torch.Tensor = _as_strided(base, shape, stride, offset)
        if len(self.aliases) >= _MAX_ALIASES:
            self.aliases.clear()
        self.aliases[key] = view
        return view

    def _typed(self, dtype: torch.dtype) -> torch.Tensor:
        typed: torch.Tensor = _empty((0,), dtype=dtype, device=CPU)
        return typed.set_(self.base.untyped_storage())


class Lifetime:
    """What a storage holds of the block that was allocated for it: it is free when this dies."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block

    def __del__(self) -> None:
        self.block.free()


def block_of(tensor: torch.Tensor) -> Block:
    """The memory behind an npu tensor.

    Raises:
        DeviceError: AI-DEV-007 when there is none
            (`torch._C._acc.create_empty_tensor`, FakeTensor).
    """
    try:
        block: Block = tensor.untyped_storage().npu_block  # type: ignore[attr-defined]
    except (AttributeError, NotImplementedError):
        return _adopt(tensor)
    return block


def _adopt(tensor: torch.Tensor) -> Block:
    """A passing view of memory that PyTorch wrapped itself, as to write a storage to a file."""
    if tensor.numel() and not tensor.data_ptr():
        raise DeviceError(
            "AI-DEV-007",
            f"a tensor of {tuple(tensor.shape)} on {tensor.device} has no simulated memory",
            rule="only tensors that the simulated device allocated can be used on it",
            fix="create it with device='npu' or move it with .npu()",
        )
    block = Block(_relabel(tensor, _HOST_DEVICE), max(tensor.get_device(), 0), 0)
    geometry = (tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()))
    block.aliases[geometry] = block.base
    return block


def _relabel(tensor: torch.Tensor, device: int) -> torch.Tensor:
    """The same memory as a tensor of another DLPack device."""
    capsule = _to_dlpack(tensor)
    field = _device_field(_capsule_pointer(capsule, b"dltensor") + _DEVICE_OFFSET)
    field.value = device
    relabelled: torch.Tensor = _from_dlpack(capsule)
    return relabelled


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU alias of an npu tensor: same bytes, shape, strides and dtype."""
    block = block_of(tensor)
    key = (tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()))
    alias = block.aliases.get(key)
    return block.alias(key) if alias is None else alias


def wrap(
    tensor: torch.Tensor, index: int, seq: int = 0, writer: str = "allocation", owner: Any = None
) -> torch.Tensor:
    """The npu tensor over a CPU tensor's memory, which the caller gives up.

    A CPU tensor that does not start its storage is copied first. `seq` and `writer` name the
    operation that wrote it.
    """
    if tensor.storage_offset():
        tensor = _clone(tensor)
    result = _relabel(tensor, _EXTENSION_DEVICE | index << 32)
    storage = result.untyped_storage()
    block = Block(tensor, index, storage.nbytes(), owner)
    block.aliases[(tensor.dtype, tensor.shape, tensor.stride(), 0)] = tensor
    block.write = seq
    block.writer = writer
    block.queued = block.device.queued if seq else 0
    if seq and not block.device.single_stream:
        block.stream = current.streams[index].uid
    storage.npu_block = block  # type: ignore[attr-defined]
    storage.npu_lifetime = Lifetime(block)  # type: ignore[attr-defined]
    return result


def weak_reference(tensor: torch.Tensor) -> torch.Tensor:
    """Another npu tensor over the memory of `tensor`, which does not keep that memory.

    Once it is free the bytes are poison; those of a graph's pool belong to the pool.
    """
    block = block_of(tensor)
    block.watched = True
    whole = _relabel(block.base, _EXTENSION_DEVICE | block.index << 32)
    storage = whole.untyped_storage()
    storage.npu_block = block  # type: ignore[attr-defined]
    result: torch.Tensor = _empty((0,), dtype=tensor.dtype, device=tensor.device)
    geometry = (tensor.storage_offset(), tensor.shape, tensor.stride())
    _set_geometry(_CPU_KEYS, result, storage, *geometry)
    return result


def poisoned(
    shape: torch.Size | tuple[int, ...] | list[int],
    stride: tuple[int, ...] | list[int] | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """A CPU tensor whose bytes are all `POISON`; contiguous for `stride` None."""
    if stride is None:
        tensor: torch.Tensor = _empty(shape, dtype=dtype, device=CPU)
    else:
        tensor = _empty_strided(shape, stride, dtype=dtype, device=CPU)
    nbytes = tensor.untyped_storage().nbytes()
    if nbytes:
        ctypes.memset(tensor.data_ptr(), POISON, nbytes)
    return tensor


def empty(
    shape: torch.Size | tuple[int, ...],
    dtype: torch.dtype,
    index: int | None = None,
) -> torch.Tensor:
    """An uninitialised (poisoned) contiguous npu tensor."""
    return wrap(poisoned(shape, None, dtype), device_state(index).index)


def device_index(device: torch.device | None) -> int:
    """The index that an npu `torch.device` means now."""
    return device_state(None if device is None else device.index).index
