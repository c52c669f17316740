"""A stand-in for `import torch_npu`: the names that scripts of the adapter dialect use, no more."""

from __future__ import annotations

import sys
import types
from typing import Any

#: The release whose API the device follows.
VERSION = "2.13.0+simulated"


class _Shim(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"AI-DEV-008: torch_npu.{name} is not simulated; use a plain PyTorch operation"
        )


def install(npu: types.ModuleType) -> None:
    """Put `torch_npu` and `torch_npu.npu` into `sys.modules`."""
    shim = _Shim("torch_npu", "torch_npu as far as the simulated device has it")
    shim.__version__ = VERSION  # type: ignore[attr-defined]
    shim.__path__ = []
    shim.npu = npu  # type: ignore[attr-defined]
    shim.simulated = True  # type: ignore[attr-defined]
    sys.modules["torch_npu"] = shim
    sys.modules["torch_npu.npu"] = npu


def is_shim(module: types.ModuleType) -> bool:
    """Whether `module` is this stand-in and not the real torch_npu."""
    return isinstance(module, _Shim)
