"""What `--device` means: which torch device serves it, and what must happen before it can.

The simulated NPU and torch_npu cannot share a process, because both are torch's device "npu". The
command line therefore starts `--device sim` again with torch_npu's automatic loading switched off
when torch_npu is installed (`restart_environment`); a library caller gets the coded error instead.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels_npu.errors import EnvironmentProblem, UsageError
from kernels_npu.evidence import Evidence

if TYPE_CHECKING:
    import torch

    from graphs.device_types import TorchNamespace

DEVICES = ("auto", "npu", "sim", "cpu", "cuda")
#: Of which a host may have several: `cuda:1`.
NUMBERED = ("npu", "sim", "cuda")
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
#: torch release from which the simulated NPU can be a torch device.
_SIMULATOR_TORCH = (2, 13)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that is ready for use.

    name: `npu`, `sim`, `cpu` or `cuda`, never `auto`.
    reason: why `auto` chose it, or that it was asked for.
    """

    name: str
    reason: str
    torch_device: torch.device

    @property
    def evidence(self) -> Evidence:
        """How what is computed on this device is known."""
        return {
            "npu": Evidence.NPU_MEASURED,
            "sim": Evidence.SIMULATED,
            "cuda": Evidence.GPU_MEASURED,
            "cpu": Evidence.CPU_VERIFIED,
        }[self.name]


def torch_npu_installed() -> bool:
    """Whether the real torch_npu is installed, without importing it; the shim does not count."""
    shim = sys.modules.get("torch_npu")
    if shim is not None:
        return getattr(shim, "__file__", None) is not None
    return importlib.util.find_spec("torch_npu") is not None


def restart_environment(device: str) -> Mapping[str, str] | None:
    """The environment in which this command has to be started again, or None to go on here."""
    simulated = device.partition(":")[0] == "sim"
    if not simulated or os.environ.get(_AUTOLOAD) == "0" or not torch_npu_installed():
        return None
    return {**os.environ, _AUTOLOAD: "0"}


def parse_device(text: str) -> tuple[str, int]:
    """Name and number of a device: `auto`, `cpu`, `cuda` (which is number 0), `cuda:1`, `sim:1`.

    Raises:
        UsageError: AI-CLI-001 for anything else.
    """
    name, colon, number = text.partition(":")
    if name in DEVICES and not colon:
        return name, 0
    if name in NUMBERED and number.isdecimal():
        return name, int(number)
    raise UsageError(
        "AI-CLI-001",
        f"the device {text!r} is unknown",
        rule=f"devices are {', '.join(DEVICES)}; {', '.join(NUMBERED)} may have a number",
        fix="pass for example --device cuda:1",
    )


def open_device(text: str) -> Device:
    """Make the device called `text` ready, and the current one of its type on a host.

    Raises:
        UsageError: AI-CLI-001 for a name that `parse_device` refuses.
        EnvironmentProblem: AI-CLI-002 when this installation does not have it, AI-CLI-005 without
            torch; AI-DEV-001/002 from the simulated device itself.
    """
    require_torch()
    name, number = parse_device(text)
    if name != "auto":
        return _open(name, number, "asked for")
    if torch_npu_installed() and os.environ.get(_AUTOLOAD) != "0":
        return _open("npu", 0, "torch_npu is installed")
    if _torch_release() >= _SIMULATOR_TORCH:
        return _open("sim", 0, "no torch_npu in this process, and torch is new enough")
    release = ".".join(map(str, _torch_release()))
    return _open("cpu", 0, f"no torch_npu, and torch {release} is too old for the simulated NPU")


def _open(name: str, number: int, reason: str) -> Device:
    import torch

    if name == "sim":
        from kernels_npu.sim import device as simulated

        simulated.enable(device_count=number + 1)
        _use_one_thread()
        return Device(name=name, reason=reason, torch_device=torch.device("npu", number))
    if name == "npu":
        _require_real_npu()
        return _numbered(name, number, reason)
    if name == "cuda":
        if not torch.cuda.is_available():
            raise EnvironmentProblem(
                "AI-CLI-002",
                f"torch {torch.__version__} sees no CUDA device",
                fix="choose --device cpu or sim, or install a CUDA build of torch on a GPU host",
            )
        return _numbered(name, number, reason)
    return Device(name=name, reason=reason, torch_device=torch.device("cpu"))


def _numbered(kind: str, number: int, reason: str) -> Device:
    """Device `number` of a host. It becomes current: not every kernel launcher asks its tensors."""
    import torch

    namespace: TorchNamespace = getattr(torch, kind)
    count = int(namespace.device_count())
    if number >= count:
        raise EnvironmentProblem(
            "AI-CLI-002",
            f"{kind}:{number} does not exist, this host shows {count}",
            fix=f"choose a number below {count}",
        )
    namespace.set_device(number)
    return Device(name=kind, reason=reason, torch_device=torch.device(kind, number))


def _use_one_thread() -> None:
    """One thread for torch's matrix products, unless OMP_NUM_THREADS asks for more.

    A simulated decode step is hundreds of short operations: waking and joining threads for each
    costs more than they save, and several times the step when other processes use the cores.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def require_torch() -> None:
    """Refuse to go on without torch, AI-CLI-005; called before importing what needs torch."""
    try:
        import torch  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        raise EnvironmentProblem(
            "AI-CLI-005",
            f"torch cannot be imported: {error}",
            fix="pip install 'ascend-infer[sim]'; `ascend-infer doctor` says what is wrong",
        ) from error


def _require_real_npu() -> None:
    if not torch_npu_installed():
        raise EnvironmentProblem(
            "AI-CLI-002",
            "--device npu needs torch_npu, which is not installed",
            rule="npu is a real Ascend device; sim is the simulated one",
            fix="choose --device sim, or install torch_npu on an Ascend host",
        )
    try:
        import torch_npu

        available, why = bool(torch_npu.npu.is_available()), "it sees no NPU"
    except (ImportError, OSError, RuntimeError) as error:
        available, why = False, f"it cannot be loaded: {error}"
    if not available:
        raise EnvironmentProblem(
            "AI-CLI-002",
            f"torch_npu is installed but {why}",
            fix="source CANN's set_env.sh and check `npu-smi info`; or choose --device sim",
        )


def _torch_release() -> tuple[int, int]:
    import torch

    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    return int(major), int(minor)
