"""torch_npu, the streams that launches would use, and the streams that are left."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any


def _installed(package: str = "torch_npu") -> bool:
    return importlib.util.find_spec(package) is not None


def package() -> dict[str, Any]:
    """Whether torch_npu can be imported and what it sees."""
    if not _installed():
        return {"installed": False}
    import torch_npu

    available = bool(torch_npu.npu.is_available())
    count = int(torch_npu.npu.device_count())
    return {
        "installed": True,
        "version": str(torch_npu.__version__),
        "available": available,
        "count": count,
        "names": [str(torch_npu.npu.get_device_name(i)) for i in range(count)] if available else [],
    }


def stream() -> dict[str, Any]:
    """The handle that a launch on the first NPU would get, and how it is read."""
    if not _installed():
        return {"installed": False}
    import torch
    import torch_npu

    from kernels_npu.errors import AscendInferError
    from kernels_npu.stream import current_raw_stream, raw_accessor

    if not torch_npu.npu.is_available():
        return {"installed": False}
    torch_npu.npu.set_device(0)  # as the first tensor would
    try:
        handle = current_raw_stream(torch.device("npu:0"))
    except AscendInferError as error:
        return {"installed": True, "handle": 0, "why": error.what, "fix": error.fix}
    cheap = raw_accessor(torch_npu) is not None
    accessor = "_C._npu_getCurrentRawStream" if cheap else "Stream.npu_stream"
    return {"installed": True, "handle": handle, "accessor": accessor}


def free_streams() -> dict[str, Any]:
    """How many streams the runtime can still make on the first NPU, over all processes."""
    if not _installed():
        return {"installed": False}
    import torch_npu

    if not torch_npu.npu.is_available():
        return {"installed": False}
    torch_npu.npu.set_device(0)
    count = ctypes.c_uint32()
    code = ctypes.CDLL("libascendcl.so").aclrtGetStreamAvailableNum(ctypes.byref(count))
    return {"installed": True, "code": code, "free": count.value}


def tvm_ffi() -> dict[str, Any]:
    """Whether TVM-FFI kernels on the first NPU follow the current stream, patched if need be."""
    if not (_installed() and _installed("tvm_ffi")):
        return {"installed": False}
    import torch_npu

    from kernels_npu import stream

    if not torch_npu.npu.is_available():
        return {"installed": False}
    torch_npu.npu.set_device(0)
    report = stream.examine("npu:0", patch=True)
    return {
        "installed": True,
        "follows": report.launches_follow,
        "patched": report.patched,
        "problems": [problem.to_dict() for problem in report.problems],
    }
