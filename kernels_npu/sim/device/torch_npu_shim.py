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


def _operator(name: str) -> Any:
    from kernels_npu.sim.device import operators

    return operators.find(name)


class _Shim(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        operator = _operator(name)
        if operator is not None:
            return operator
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
            f"the stand-in has {', '.join(m for m in sys.modules if m.startswith('torch_npu'))}",
            name=fullname,
        )


class _Part(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"AI-DEV-008: {self.__name__}.{name} is not simulated")


def install(npu: types.ModuleType) -> None:
    """Put `torch_npu` and its submodules into `sys.modules`, findable like installed packages."""
    from kernels_npu.sim.device.submodules import SUBMODULES

    shim = _Shim("torch_npu", "torch_npu as far as the simulated device has it")
    modules: dict[str, types.ModuleType] = {"torch_npu": shim, "torch_npu.npu": npu}
    for name, members in SUBMODULES.items():
        modules[name] = part = _Part(name, f"{name} as far as the simulated device has it")
        vars(part).update(members)
    loader = _Loader()
    for name, module in modules.items():
        spec = importlib.machinery.ModuleSpec(name, loader, origin="simulated", is_package=True)
        module.__spec__, module.__loader__, module.__path__ = spec, loader, []
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(modules[parent], leaf, module)
    shim.__version__ = VERSION  # type: ignore[attr-defined]
    shim.simulated = True  # type: ignore[attr-defined]
    shim.get_npu_format = _format_of  # type: ignore[attr-defined]
    sys.meta_path.append(_Finder())


def is_shim(module: types.ModuleType) -> bool:
    """Whether `module` is this stand-in and not the real torch_npu."""
    return isinstance(module, _Shim)
