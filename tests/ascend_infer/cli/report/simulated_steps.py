"""Profiles of simulated launches of our own kernels, as `sim run --opprof` leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernels_npu.spec import Workload, all_specs
from profiling.simulated import profile_simulated

#: One layer of a small model: what its kernels are launched with.
LAYER: dict[str, dict[str, Any]] = {
    "rms_norm": {"rows": 5, "hidden": 96},
    "add_rms_norm": {"rows": 3, "hidden": 128},
    "silu_and_mul": {"rows": 4, "inter": 160},
}


def profile(folder: Path, layer: dict[str, dict[str, Any]] = LAYER) -> Path:
    """The launches of a layer, profiled into `folder`."""
    from kernels_npu import ops
    from kernels_npu.sim import device

    device.enable()
    specs = all_specs()
    with profile_simulated(folder, command=["python", "step.py"]):
        for name, dims in layer.items():
            inputs = specs[name].make_inputs(
                Workload(name="test", dims=dims),
                torch.float16,
                "cpu",
                torch.Generator().manual_seed(1),
            )
            getattr(ops, name)(
                **{k: v.to("npu") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
            )
    return folder
