"""A stand-in for `import torch_npu`: the names that scripts of the adapter dialect use, no more."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from kernels_npu.sim.device.errors import NotSimulatedError

#: The release whose API the device follows.
VERSION = "2.13.0+simulated"
#: ACL_FORMAT_ND.
FORMAT_ND = 2


def _operators() -> frozenset[str]:
    from kernels_npu.sim.device import operators

    return operators.names()


class _Shim(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _operators():
            return getattr(torch.ops.npu, name)
        if name.startswith(("npu_", "_npu_")):
            return _refused(name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"AI-DEV-008: torch_npu.{name} is not simulated; use a plain PyTorch operation"
        )


def _format_of(tensor: torch.Tensor) -> int:
    """`torch_npu.get_npu_format`: plain row-major order is all that the simulated device stores."""
    return FORMAT_ND


def _refused(name: str) -> Callable[..., NoReturn]:
    """An operator of torch_npu: libraries import them by name long before they need them."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotSimulatedError(
            "AI-DEV-008",
            f"the operator torch_npu.{name} is not simulated",
            fix="use plain PyTorch operations, or a kernel of kernels_npu.ops",
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class _Loader(importlib.abc.Loader):
    """Gives the modules that exist already, so that `importlib.reload` and friends work on them."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return sys.modules.get(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: `install` has filled the module."""


class _Finder(importlib.abc.MetaPathFinder):
    """Says of a submodule of torch_npu that it is not simulated, rather than that there is none."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("torch_npu."):
            return None
        raise ModuleNotFoundError(
            f"AI-DEV-008: {fullname} is not simulated; "
            "the stand-in has torch_npu and torch_npu.npu",
            name=fullname,
        )


def install(npu: types.ModuleType) -> None:
    """Put `torch_npu` and `torch_npu.npu` into `sys.modules`, findable like installed packages."""
    shim = _Shim("torch_npu", "torch_npu as far as the simulated device has it")
    loader = _Loader()
    for module, name in ((shim, "torch_npu"), (npu, "torch_npu.npu")):
        spec = importlib.machinery.ModuleSpec(name, loader, origin="simulated", is_package=True)
        module.__spec__, module.__loader__, module.__path__ = spec, loader, []
        sys.modules[name] = module
    shim.__version__ = VERSION  # type: ignore[attr-defined]
    shim.npu = npu  # type: ignore[attr-defined]
    shim.simulated = True  # type: ignore[attr-defined]
    shim.get_npu_format = _format_of  # type: ignore[attr-defined]
    sys.meta_path.append(_Finder())


def is_shim(module: types.ModuleType) -> bool:
    """Whether `module` is this stand-in and not the real torch_npu."""
    return isinstance(module, _Shim)
