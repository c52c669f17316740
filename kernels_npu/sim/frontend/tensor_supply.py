"""Inputs that the profiler and the tuner make up for a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.diagnostics import fail

if TYPE_CHECKING:
    import torch


class TensorSupplyType(Enum):
    """How the values of an input are drawn."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


@dataclass(frozen=True, kw_only=True)
class KernelParam:
    """One parameter of a kernel as a supply program sees it.

    dtype: torch's. shape: with a symbolic dimension by its name; empty for a scalar.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]

    @classmethod
    def of(cls, param: ir.Buffer | ir.Var) -> KernelParam:
        """The parameter `param` of a prim_func."""
        from kernels_npu.sim.device.launch_plan import TORCH_DTYPES

        shape = param.shape if isinstance(param, ir.Buffer) else ()
        return cls(
            name=param.name,
            dtype=TORCH_DTYPES[param.dtype],
            shape=tuple(d if isinstance(d, int) else _extent(d) for d in shape),
        )


def _extent(dim: ir.Expr) -> int | str:
    if isinstance(dim, ir.Const):
        return int(dim.value)
    return dim.name if isinstance(dim, ir.Var) else str(dim)


def supply(param: KernelParam, kind: TensorSupplyType) -> Any:
    """A tensor on the current npu for `param`.

    Raises:
        KernelSourceError: AI-SRC-036 for a scalar or a symbolic shape: their values mean something.
    """
    import torch

    if not param.shape or any(isinstance(dim, str) for dim in param.shape):
        fail(
            "AI-SRC-036",
            f"no input can be made up for {param.name} of shape {param.shape}",
            rule="inputs are drawn for tensors of static shape only",
            fix="pass input_tensors, or a supply_prog to tilelang.autotune",
        )
    shape = [int(dim) for dim in param.shape]
    if param.dtype is torch.bool:
        return torch.randint(0, 2, shape, device="npu").bool()
    if not param.dtype.is_floating_point and kind in (
        TensorSupplyType.Auto,
        TensorSupplyType.Integer,
    ):
        low = 0 if param.dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -2
        return torch.randint(low, 3, shape, device="npu").to(param.dtype)
    values = {
        TensorSupplyType.Integer: lambda: torch.randint(-2, 3, shape, device="npu").float(),
        TensorSupplyType.Uniform: lambda: torch.rand(shape, device="npu") * 2 - 1,
        TensorSupplyType.Zero: lambda: torch.zeros(shape, device="npu"),
        TensorSupplyType.One: lambda: torch.ones(shape, device="npu"),
    }
    drawn = values.get(kind, lambda: torch.randn(shape, device="npu"))()
    return drawn.to(param.dtype)
