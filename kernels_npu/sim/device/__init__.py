"""A PyTorch device called `npu`, in pure Python: tensors, streams, graphs and kernel launches.

`enable()` gives the process the device; afterwards `torch.randn(4, device="npu")`, `.npu()`,
`torch.npu` and `import torch_npu` work, and compiled TileLang kernels take npu tensors. Needs
torch >= 2.13.
"""

from __future__ import annotations

from kernels_npu.sim.device.setup import configure, enable, is_enabled
from kernels_npu.sim.device.state import StreamOrderFinding, process


def stream_order_findings() -> tuple[StreamOrderFinding, ...]:
    """Unordered accesses seen so far with `configure(stream_order="report")`."""
    return tuple(process.findings)


__all__ = ["StreamOrderFinding", "configure", "enable", "is_enabled", "stream_order_findings"]
