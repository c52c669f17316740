"""The one place that knows on which stream a kernel is launched.

Kernels of the adapter dialect take the stream as an argument: `current_raw_stream`. TVM-FFI kernels
look it up in the DLPack exchange table of `torch.Tensor`: `examine` says whether that works in this
thread, `ensure` makes it work or refuses, `call` does so before a kernel, `undo` takes a patch off.
"""

from __future__ import annotations

from kernels_npu.stream.calling import call, device_of
from kernels_npu.stream.checks import Asked, Check
from kernels_npu.stream.current import current_raw_stream, raw_accessor
from kernels_npu.stream.exchange_patch import install, is_installed, undo
from kernels_npu.stream.report import StreamReport, ensure, examine

__all__ = [
    "Asked",
    "Check",
    "StreamReport",
    "call",
    "current_raw_stream",
    "device_of",
    "ensure",
    "examine",
    "install",
    "is_installed",
    "raw_accessor",
    "undo",
]
