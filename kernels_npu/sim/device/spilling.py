"""Results of host operations that memory does not hold go to a temporary file.

A device has 64 GB, the host that simulates it often less. Only operations whose result can be
written straight into given memory take part: products, elementwise operations, softmax, copies.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernels_npu.sim.device import host_calls
from kernels_npu.sim.device.arguments import Operands
from kernels_npu.sim.device.errors import CaptureError, DeviceError
from kernels_npu.sim.device.recording import evaluate_shapes
from kernels_npu.sim.device.schemas import OpInfo, out_overload

Tensor = torch.Tensor

#: Smaller results are always in memory.
LARGE = 1 << 30
#: The part of the memory still available that one result may take.
_SHARE = 0.5
#: What is left free on the disk.
_SPARE = 1 << 30

_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


def call_for(
    info: OpInfo, operands: Operands, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[..., Any]:
    """What runs an operation on large operands: its host call, or one whose result is in a file.

    Raises:
        DeviceError: AI-DEV-013 when neither memory nor the disk holds the result.
    """
    available = available_memory()
    if info.waits or available is None:
        return info.host_call
    try:
        result = evaluate_shapes(info, operands, list(args), kwargs)
    except CaptureError:  # no shape function
        return info.host_call
    if not isinstance(result, Tensor):
        return info.host_call
    nbytes = result.untyped_storage().nbytes()
    if nbytes < LARGE or nbytes <= available * _SHARE:
        return info.host_call
    write = _writer(info, result, args)
    if write is None:
        return info.host_call
    folder = _folder()
    usage = os.statvfs(folder)
    if usage.f_bavail * usage.f_frsize < nbytes + _SPARE:
        if nbytes <= available:
            return info.host_call
        raise DeviceError(
            "AI-DEV-013",
            f"the result of {info.name}, {nbytes / 1e9:.1f} GB, is more than the host has: "
            f"{available / 1e9:.1f} GB of memory and too little space in {folder}",
            rule="the simulated device's memory is the host's memory and its temporary folder",
            fix="use smaller inputs, or set TMPDIR to a folder with more space",
        )
    out = _in_file(folder, nbytes, result)

    def call(*args: Any, **kwargs: Any) -> Tensor:
        write(out, *args, **kwargs)
        return out

    return call


@cache
def _native_out(op: Any) -> tuple[Any, str] | None:
    """The overload that writes its single result without a copy of its own, and its argument."""
    found = out_overload(op)
    if found is None or len(found[1]) != 1:
        return None
    name = str(found[0].name())
    return (found[0], found[1][0]) if _has_kernel(name, "CPU") else None


def _writer(info: OpInfo, result: Tensor, args: Sequence[Any]) -> Callable[..., Any] | None:
    """A call that writes the operation's result into its first argument; None without one."""
    if info.name == "clone":
        return lambda out, source, **_: out.copy_(source)
    native = _native_out(info.op)
    if native is not None:
        op, name = native
        accepted = {a.name for a in op._schema.arguments}
        into = host_calls.host_call(op)

        def write(out: Tensor, *args: Any, **kwargs: Any) -> None:
            into(*args, **{k: v for k, v in kwargs.items() if k in accepted}, **{name: out})

        return write
    packet, _, overload = info.name.partition(".")
    changing = getattr(getattr(torch.ops.aten, packet + "_", None), overload or "default", None)
    source = args[0] if args else None
    if changing is None or torch.Tag.pointwise not in info.op.tags:
        return None
    if not isinstance(source, Tensor) or (source.shape, source.dtype) != (
        result.shape,
        result.dtype,
    ):
        return None
    change = host_calls.host_call(changing)
    return lambda out, source, *rest, **kwargs: change(out.copy_(source), *rest, **kwargs)


def available_memory() -> int | None:
    """Bytes that the host could still give to this process; None where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    amounts = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
    return int(amounts["MemAvailable"]) * 1024 if "MemAvailable" in amounts else None


def _folder() -> str:
    """`TMPDIR`, or the temporary folder that is on a disk on most hosts."""
    chosen = os.environ.get("TMPDIR")
    persistent = "/var/tmp"
    if chosen is None and os.access(persistent, os.W_OK):
        return persistent
    return tempfile.gettempdir()


def _in_file(folder: str, nbytes: int, like: Tensor) -> Tensor:
    """A tensor with the geometry of `like` in a file that goes when the tensor does."""
    number, path = tempfile.mkstemp(prefix="ascend-infer-", dir=folder)
    try:
        os.posix_fallocate(number, 0, nbytes)  # a full disk is an error here, not a signal later
        storage: Any = torch.UntypedStorage.from_file(path, True, nbytes)
    finally:
        os.close(number)
        os.unlink(path)
    empty = torch.empty(0, dtype=like.dtype, device="cpu")
    return empty.set_(storage, 0, like.shape, like.stride())
