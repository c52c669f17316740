"""Quantised tensors: codes that keep their scales and zero points when axes move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kernels_npu.errors import UsageError
from kernels_npu.quant.affine import (
    CodeRange,
    Floats,
    Integers,
    as_floats,
    require_scales,
    require_zero_points,
    to_codes,
)
from kernels_npu.quant.granularity import Granularity


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedTensor:
    """Codes, one per item, with what they mean.

    scales, zero_points: in the shape of `granularity.scale_shape(codes.shape)`. A zero point may be
    one above the codes, which GPTQ's first format can hold.

    Raises:
        UsageError: AI-QUANT-003 for a scale that is not positive; AI-QUANT-004 for parameters that
            do not fit the groups; AI-QUANT-005 for zero points outside the range; AI-QUANT-006 for
            codes outside it.
    """

    codes: Integers
    scales: Floats
    zero_points: Integers
    code_range: CodeRange
    granularity: Granularity

    def __post_init__(self) -> None:
        require_codes(self.codes, self.code_range)
        require_scales(self.scales)
        self.granularity.expand(self.scales, self.codes.shape)
        self.granularity.expand(self.zero_points, self.codes.shape)
        require_zero_points(self.zero_points, self.code_range, beyond=1)

    def dequantise(self, dtype: DTypeLike = np.float32) -> Floats:
        """`s * (q - z)`, formed in float64 and rounded once to `dtype`."""
        shape = self.codes.shape
        zeros = self.granularity.expand(self.zero_points, shape).astype(np.int64)
        scales = self.granularity.expand(self.scales, shape).astype(np.float64)
        values: Floats = (scales * (self.codes - zeros)).astype(dtype)
        return values

    def transpose(self, axes: Sequence[int] | None = None) -> QuantisedTensor:
        """Axes in another order, reversed unless given; every element keeps its scale.

        Raises:
            UsageError: AI-QUANT-004 for axes that are no order of the tensor's.
        """
        rank = self.codes.ndim
        order = tuple(range(rank))[::-1] if axes is None else tuple(a % rank for a in axes)
        if sorted(order) != list(range(rank)):
            raise UsageError(
                "AI-QUANT-004",
                f"axes {list(axes or ())} of a tensor with {rank} axes",
                rule="a transposition names every axis once",
                fix=f"give an order of 0 to {rank - 1}",
            )
        grouped = self.granularity.group_size is not None
        return QuantisedTensor(
            codes=self.codes.transpose(order),
            scales=self.scales.transpose(order) if grouped else self.scales,
            zero_points=self.zero_points.transpose(order) if grouped else self.zero_points,
            code_range=self.code_range,
            granularity=self.granularity.transposed(order),
        )


def require_codes(codes: NDArray[Any], code_range: CodeRange) -> None:
    """Refuse codes that are no integers of the range (AI-QUANT-006)."""
    if not codes.size:
        return
    whole = np.issubdtype(codes.dtype, np.integer)
    if whole and codes.min() >= code_range.low and codes.max() <= code_range.high:
        return
    numbers = np.issubdtype(codes.dtype, np.number)
    found = f" in {codes.min()}..{codes.max()}" if numbers else ""
    raise UsageError(
        "AI-QUANT-006",
        f"codes of dtype {codes.dtype}{found} for {code_range.name}, "
        f"{code_range.low}..{code_range.high}",
        rule="codes are integers of their range; nothing is cut off silently",
        fix="quantise() saturates; codes of another encoding are moved by 8 for 4 bits",
    )


def quantise(
    values: ArrayLike,
    code_range: CodeRange,
    granularity: Granularity | None = None,
    *,
    scales: ArrayLike | None = None,
    zero_points: ArrayLike | None = None,
    symmetric: bool = True,
    rounding: str = "half-even",
) -> QuantisedTensor:
    """Codes for `values`, with the given parameters or those of `choose_parameters`.

    Args:
        values: floating-point numbers of any shape; infinities saturate.
        granularity: per tensor unless given.
        scales, zero_points: in the granularity's shape, or one number for all; zero points are 0
            unless given. Without scales both are chosen from the values.
        symmetric: for the choice.
        rounding: one of `ROUNDINGS`.

    Raises:
        UsageError: AI-QUANT-002 to AI-QUANT-005.
    """
    array = as_floats(values)
    groups = (granularity or Granularity.per_tensor()).on(array.shape)
    shape = groups.scale_shape(array.shape)
    if scales is None:
        if zero_points is not None:
            raise UsageError(
                "AI-QUANT-005",
                "zero points are given without scales",
                rule="a zero point belongs to a scale",
                fix="give both, or neither",
            )
        factors, zeros = choose_parameters(array, code_range, groups, symmetric=symmetric)
    else:
        factors = _filled(as_floats(scales), shape)
        zeros = _filled(np.asarray(0 if zero_points is None else zero_points), shape)
    require_scales(factors)
    require_zero_points(zeros, code_range)
    with np.errstate(over="ignore"):  # infinite quotients saturate like any that are too large
        quotients = array / groups.expand(factors, array.shape)
    codes = to_codes(quotients, groups.expand(zeros, array.shape), code_range, rounding)
    return QuantisedTensor(
        codes=codes, scales=factors, zero_points=zeros, code_range=code_range, granularity=groups
    )


def _filled(parameters: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return np.full(shape, parameters) if parameters.ndim == 0 else parameters


def choose_parameters(
    values: ArrayLike,
    code_range: CodeRange,
    granularity: Granularity,
    *,
    symmetric: bool = True,
    scale_dtype: DTypeLike = np.float32,
) -> tuple[Floats, Integers]:
    """The scales that cover each group, rounded to `scale_dtype`, and zero points.

    Symmetric: zero point 0 (the middle of an unsigned range), and the extremes of a group within
    the codes. Otherwise the range from the smallest to the largest value, widened to hold 0, is
    spread over all codes. A group of zeros has scale 1.

    Raises:
        UsageError: AI-QUANT-003 when values are not finite or too large for `scale_dtype`.
    """
    array = as_floats(values)
    if not np.isfinite(array).all():
        raise UsageError(
            "AI-QUANT-003",
            f"{int((~np.isfinite(array)).sum())} of {array.size} values are not finite",
            rule="a scale is chosen from the extremes of a group",
            fix="give scales, or remove infinities and NaN first",
        )
    groups = granularity.on(array.shape)
    low = np.minimum(groups.reduce(array, np.minimum), 0.0) if array.size else _none(groups, array)
    high = np.maximum(groups.reduce(array, np.maximum), 0.0) if array.size else _none(groups, array)
    middle = 0 if code_range.signed else (code_range.low + code_range.high + 1) // 2
    if symmetric:
        below, above = middle - code_range.low, code_range.high - middle
        exact = np.maximum(-low / below, high / above)
    else:
        exact = (high - low) / (code_range.high - code_range.low)
    scales = _as_stored(exact, np.dtype(scale_dtype))
    if symmetric:
        zeros = np.full(scales.shape, middle, dtype=np.int32)
    else:
        spread = np.rint(code_range.low - low / scales)
        zeros = np.clip(spread, code_range.low, code_range.high).astype(np.int32)
    return scales, zeros


def _none(groups: Granularity, array: NDArray[Any]) -> Floats:
    return np.zeros(groups.scale_shape(array.shape))


def _as_stored(exact: Floats, dtype: np.dtype[Any]) -> Floats:
    """Rounded to a dtype; 1 for 0, and never 0 by underflow."""
    with np.errstate(over="ignore", under="ignore"):
        stored = exact.astype(dtype)
    smallest = ml_dtypes.finfo(dtype).smallest_subnormal  # type: ignore[no-untyped-call]
    stored = np.where(exact == 0, dtype.type(1), np.maximum(stored, smallest))
    require_scales(stored)
    return np.asarray(stored, dtype=dtype)
