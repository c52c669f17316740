"""From the arguments of a dispatched operation to CPU aliases; devices do not mix."""

from __future__ import annotations

from typing import Any

import torch

from kernels_npu.sim.device.errors import DeviceError
from kernels_npu.sim.device.memory import CPU, Block, block_of, host
from kernels_npu.sim.device.state import process

Tensor = torch.Tensor

#: Bytes of an operand from which the size of the result is looked at before there is one.
_LARGE = 1 << 26


class Operands:
    """CPU aliases of one call's tensors, in order, with the blocks behind them.

    blocks and hosts run in parallel and hold npu tensors only. CPU scalars (0-dim)
    pass as they are. large: whether one of them makes a result possible that needs attention.
    """

    __slots__ = ("blocks", "hosts", "index", "large", "op", "strangers")

    def __init__(self, op: str) -> None:
        self.op = op
        self.blocks: list[Block] = []
        self.hosts: list[Tensor] = []
        self.index = -1
        self.strangers = False
        self.large = False

    def convert(self, value: Any) -> Any:
        """`value` with every npu tensor replaced by its CPU alias."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if type(value) is list and value and (value[0] is None or isinstance(value[0], Tensor)):
            return [None if v is None else self._tensor(v) for v in value]
        return value

    def _tensor(self, tensor: Tensor) -> Tensor:
        try:
            block: Block = tensor.untyped_storage().npu_block  # type: ignore[attr-defined]
        except (AttributeError, NotImplementedError):
            return self._foreign(tensor)
        if self.index != block.index:
            if self.index >= 0:
                raise mixed_devices(self.op, f"npu:{self.index}", f"npu:{block.index}")
            self.index = block.index
        key = (tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()))
        alias = block.aliases.get(key)
        if alias is None:
            alias = block.alias(key)
        if block.nbytes > _LARGE:
            self.large = True
        alias = with_bits(tensor, alias)
        self.blocks.append(block)
        self.hosts.append(alias)
        return alias

    def _foreign(self, tensor: Tensor) -> Tensor:
        if tensor.device.type == "npu":
            alias = with_bits(tensor, host(tensor))
            self.blocks.append(block_of(tensor))
            self.hosts.append(alias)
            self.index = max(self.index, tensor.get_device())
            return alias
        if tensor.device != CPU:
            raise mixed_devices(self.op, "npu", str(tensor.device))
        if tensor.dim():
            self.strangers = True
        elif process.session is not None:
            # A host scalar travels by value: a graph keeps the number that it was captured with.
            return tensor.clone()
        return tensor


def with_bits(tensor: Tensor, alias: Tensor) -> Tensor:
    """`alias` with the lazy conjugation and negation of `tensor`, which its memory does not show.

    PyTorch resolves them before most operations; products and linear algebra take them as they are.
    """
    if tensor.is_neg():
        alias = torch._neg_view(alias)
    return torch._conj(alias) if tensor.is_conj() else alias


def mixed_devices(op: str, first: str, second: str) -> DeviceError:
    """The error for operands on two devices, in PyTorch's words."""
    return DeviceError(
        "AI-DEV-004",
        f"Expected all tensors to be on the same device, but found at least two devices, {first} "
        f"and {second}! (in {op})",
        rule="host and device memory are distinct; only 0-dim CPU tensors mix with npu tensors",
        fix="move the tensor first: tensor.npu(), tensor.to('npu') or create it with device='npu'",
    )


__all__ = ["Operands", "host", "mixed_devices"]
