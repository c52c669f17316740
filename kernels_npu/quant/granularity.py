"""Which elements share a scale: all, those of one index of an axis, or runs along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Granularity:
    """`axis` None: one scale for the tensor. Without `group_size`: one per index of `axis`. With
    it: one per `group_size` neighbours along `axis`; the last group may be shorter.

    Scales of groups have the rank of the tensor, as in ONNX's blocked quantisation: the same shape
    with `ceil(size / group_size)` along `axis`. Scales per index are one-dimensional.
    """

    axis: int | None = None
    group_size: int | None = None

    def __post_init__(self) -> None:
        size = self.group_size
        if (size is not None and (size < 1 or self.axis is None)) or isinstance(size, bool):
            raise UsageError(
                "AI-QUANT-004",
                f"groups of {size} along axis {self.axis}",
                rule="a group is at least one element along an axis",
                fix="for example Granularity.per_group(axis=-1, size=128)",
            )

    @classmethod
    def per_tensor(cls) -> Granularity:
        """One scale."""
        return cls()

    @classmethod
    def per_channel(cls, axis: int) -> Granularity:
        """A scale for each index of `axis`."""
        return cls(axis=axis)

    @classmethod
    def per_group(cls, *, axis: int, size: int) -> Granularity:
        """A scale for each `size` neighbours along `axis`, and each index of the other axes."""
        return cls(axis=axis, group_size=size)

    def on(self, shape: tuple[int, ...]) -> Granularity:
        """The same with an axis counted from the front.

        Raises:
            UsageError: AI-QUANT-004 when a tensor of this shape has no such axis.
        """
        if self.axis is None:
            return self
        if not -len(shape) <= self.axis < len(shape):
            raise UsageError(
                "AI-QUANT-004",
                f"axis {self.axis} of a tensor of shape {list(shape)}",
                rule="the axis of a granularity is one of the tensor",
                fix=f"take an axis below {len(shape)}",
            )
        return Granularity(axis=self.axis % len(shape), group_size=self.group_size)

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that scales of a tensor of `shape` have."""
        here = self.on(shape)
        if here.axis is None:
            return ()
        if here.group_size is None:
            return (shape[here.axis],)
        groups = -(-shape[here.axis] // here.group_size)
        return (*shape[: here.axis], groups, *shape[here.axis + 1 :])

    def expand(self, parameters: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Scales or zero points so that they broadcast against a tensor of `shape`.

        Raises:
            UsageError: AI-QUANT-004 when there are more or fewer than groups.
        """
        here = self.on(shape)
        wanted = here.scale_shape(shape)
        if parameters.shape != wanted:
            raise UsageError(
                "AI-QUANT-004",
                f"parameters of shape {list(parameters.shape)} for a tensor of shape "
                f"{list(shape)}, which has groups {list(wanted)}",
                rule="every group has one scale and one zero point",
                fix="transpose and cut the parameters together with the codes",
            )
        if here.axis is None:
            return parameters
        if here.group_size is None:
            return parameters.reshape([-1 if d == here.axis else 1 for d in range(len(shape))])
        repeated = np.repeat(parameters, here.group_size, axis=here.axis)
        return np.take(repeated, range(shape[here.axis]), axis=here.axis)

    def transposed(self, axes: tuple[int, ...]) -> Granularity:
        """Of a tensor whose axes are put into the order `axes`; counted from the front."""
        if self.axis is None:
            return self
        axis = axes.index(self.axis % len(axes))
        return Granularity(axis=axis, group_size=self.group_size)

    def reduce(self, values: NDArray[Any], function: np.ufunc) -> NDArray[Any]:
        """`function` (such as np.maximum) over the elements of each group, in `scale_shape`."""
        here = self.on(values.shape)
        if here.axis is None:
            return np.asarray(function.reduce(values, axis=None))
        if here.group_size is None:
            others = tuple(d for d in range(values.ndim) if d != here.axis)
            return np.asarray(function.reduce(values, axis=others))
        starts = np.arange(0, values.shape[here.axis], here.group_size)
        return np.asarray(function.reduceat(values, starts, axis=here.axis))
