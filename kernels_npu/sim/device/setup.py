"""Switching the simulated device on: checks, the name of PrivateUse1, modules and kernels."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import sys

import torch

from kernels_npu.errors import EnvironmentProblem
from kernels_npu.sim.device import torch_npu_shim
from kernels_npu.sim.device.state import create_devices, process

_MINIMUM = (2, 13)
_enabled = False


def enable(device_count: int = 1) -> None:
    """Give this process a PyTorch device `npu` that is simulated.

    Renames PrivateUse1 to `npu`, installs `torch.npu`, `torch_npu`, and the kernels of all aten
    operations. May be called again; a larger `device_count` adds devices. Backward runs in the
    thread that asks for it. PyTorch's C++ code takes a bare `.to("npu")` as `npu:0`, whereas
    `.npu()` and `device="npu"` mean the current device.

    Raises:
        EnvironmentProblem: AI-DEV-001 below torch 2.13, AI-DEV-002 with the real torch_npu in the
            process, AI-DEV-003 when another back end has taken PrivateUse1.
    """
    global _enabled
    _check_torch(torch.__version__)
    _check_torch_npu()
    create_devices(device_count)
    if _enabled:
        return
    _check_key()
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    from kernels_npu.sim.device import (
        accelerator,
        backward,
        collectives,
        dispatch,
        generic_streams,
        npu_module,
        operators,
        pinned,
        rng,
        storages,
    )

    module = npu_module.build()
    _setup_privateuseone_for_python_backend("npu", module)
    dispatch.register()
    operators.register()
    torch.Generator = rng.TorchGenerator  # type: ignore[assignment,misc]
    accelerator.install()
    backward.install()
    collectives.install()
    generic_streams.install()
    pinned.install()
    storages.install()
    torch_npu_shim.install(module)
    if "tilelang" not in sys.modules:
        from kernels_npu.sim.frontend.shims import install_shims

        install_shims()
    _enabled = True


def is_enabled() -> bool:
    """Whether `enable` has been called."""
    return _enabled


def configure(*, stream_order: str | None = None, soc: str | None = None) -> None:
    """Change switches of the device.

    stream_order: `raise` (default) on unordered accesses of two streams, `report` into
    `stream_order_findings`, or `off`. soc: the chip that kernels run on and `torch.npu` describes,
    in all threads.
    """
    if stream_order is not None:
        if stream_order not in ("raise", "report", "off"):
            raise ValueError(f"stream_order must be raise, report or off, not {stream_order!r}")
        process.settings.stream_order = stream_order
    if soc is not None:
        from kernels_npu.sim.config import current_config, set_default_config
        from kernels_npu.sim.soc import get_soc

        set_default_config(dataclasses.replace(current_config(), soc=get_soc(soc).name))


def _check_torch(version: str) -> None:
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if numbers < _MINIMUM:
        raise EnvironmentProblem(
            "AI-DEV-001",
            f"torch {version} is installed; the simulated NPU needs torch >= 2.13",
            rule="a device in pure Python needs hooks that PyTorch has from 2.13 on",
            fix="pip install 'torch>=2.13', or use --device cpu",
        )


def _check_torch_npu() -> None:
    module = sys.modules.get("torch_npu")
    if module is None or torch_npu_shim.is_shim(module):
        return
    try:
        version = importlib.metadata.version("torch_npu")
    except importlib.metadata.PackageNotFoundError:
        version = getattr(module, "__version__", "of unknown version")
    raise EnvironmentProblem(
        "AI-DEV-002",
        f"torch_npu {version} is loaded in this process",
        rule="the simulated device and torch_npu both are PrivateUse1 and cannot share a process",
        fix="start the process with TORCH_DEVICE_BACKEND_AUTOLOAD=0 and do not import torch_npu, "
        "or use --device npu",
    )


def _check_key() -> None:
    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        raise EnvironmentProblem(
            "AI-DEV-003",
            f"PrivateUse1 is already called {name!r} in this process",
            rule="PyTorch has one PrivateUse1 device per process",
            fix="run the simulated NPU in a process that does not load that back end",
        )
