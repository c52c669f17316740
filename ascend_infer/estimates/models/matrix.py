"""A weight matrix, and what one of several ranks holds of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Ranks that share a model.

    tensor: ranks that divide heads, MLP widths and the vocabulary. expert: ranks that divide the
    routed experts; 1 divides each expert's width by `tensor` instead.
    """

    tensor: int = 1
    expert: int = 1

    def __post_init__(self) -> None:
        for name, ranks in vars(self).items():
            if ranks < 1:
                raise UsageError(
                    "AI-EST-003",
                    f"{name} parallelism over {ranks} ranks",
                    rule="there is at least one rank",
                    fix="give a whole number of ranks from 1 on",
                )


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A weight that a product reads, with `outputs` rows of `inputs` elements.

    operator: the launch that uses it; q, k and v are one.
    copies: experts that have one each, of which a token visits some; 1 for all else.
    bias: whether it adds a vector of `outputs` elements.
    split: what ranks divide: the outputs, the inputs, the experts, or nothing.
    units: indivisible parts along the split, such as heads; with fewer units than ranks each rank
        holds one, so that units exist more than once.
    quantised: whether weight quantisation covers it. Embedding, head and routers stay as they are.
    """

    name: str
    operator: str
    outputs: int
    inputs: int
    copies: int = 1
    routed: bool = False
    bias: bool = False
    split: Literal["outputs", "inputs", "experts", ""] = ""
    units: int = 1
    quantised: bool = True

    @property
    def elements(self) -> int:
        """Elements of the matrix, in all copies."""
        return self.copies * self.outputs * self.inputs

    @property
    def bias_elements(self) -> int:
        """Elements of its bias, in all copies."""
        return self.copies * self.outputs if self.bias else 0

    def on_rank(self, parallel: Parallel) -> Matrix:
        """What one rank holds of it."""
        if self.routed and parallel.expert > 1:
            return replace(self, copies=-(-self.copies // parallel.expert))
        if not self.split:
            return self
        units = -(-self.units // parallel.tensor)
        size = getattr(self, self.split) * units // self.units
        return replace(self, units=units, **{self.split: size})
