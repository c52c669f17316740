"""torch as installed, and the simulated NPU on top of it."""

from __future__ import annotations

from typing import Any


def build() -> dict[str, Any]:
    """Version, build and threads."""
    import torch

    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cuda_available": bool(torch.cuda.is_available()),
        "threads": torch.get_num_threads(),
    }


def simulator() -> dict[str, Any]:
    """A whole round trip: enable, copy to the device, compute there, copy back."""
    import torch

    from kernels_npu.errors import AscendInferError

    try:
        from kernels_npu.sim import device

        device.enable()
        total = torch.arange(4, dtype=torch.float32).to("npu").add(1).cpu().sum().item()
    except AscendInferError as error:
        return {"usable": False, "why": str(error), "fix": error.fix}
    return {"usable": total == 10.0, "why": f"1+2+3+4 gave {total}", "fix": ""}
