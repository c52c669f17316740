"""Bitwise comparison of tensors, and the first mismatch described so that it can be acted on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far replay may be from eager, for a step that declares itself non-deterministic.

    `|actual - expected| <= atol + rtol * |expected|`, NaN equal to NaN. `reason` says which
    operator is non-deterministic and why; it is repeated in the report.
    """

    atol: float
    rtol: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Where two tensors differ first, in row-major order, and how much they differ in all.

    ulps: steps between the two values in their own dtype; None for integers and NaN.
    max_abs_diff: largest finite absolute difference; inf when only one side is finite.
    """

    tensor: str
    index: tuple[int, ...]
    expected: float
    actual: float
    ulps: int | None
    mismatched: int
    total: int
    max_abs_diff: float

    def __str__(self) -> str:
        index = ", ".join(str(i) for i in self.index)
        distance = "" if self.ulps is None else f", {self.ulps} ulp apart"
        return (
            f"{self.tensor}[{index}]: expected {self.expected!r}, got {self.actual!r}{distance}; "
            f"{self.mismatched} of {self.total} values differ, at most by {self.max_abs_diff:.6g}"
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "tensor": self.tensor,
            "index": list(self.index),
            "expected": json_number(self.expected),
            "actual": json_number(self.actual),
            "ulps": self.ulps,
            "mismatched": self.mismatched,
            "total": self.total,
            "max_abs_diff": json_number(self.max_abs_diff),
        }


def json_number(value: float) -> float | str:
    """The value, or its name where JSON has no number for it (`nan`, `inf`)."""
    return value if math.isfinite(value) else str(value)


def bit_equal(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """Same shape and the same bits; NaN equals the same NaN and +0 differs from -0."""
    return expected.shape == actual.shape and torch.equal(_bits(expected), _bits(actual))


def find_mismatch(
    name: str,
    expected: torch.Tensor,
    actual: torch.Tensor,
    tolerance: Tolerance | None = None,
    *,
    first_index: int = 0,
) -> Mismatch | None:
    """The first place where two host tensors of one shape and dtype differ; None when they agree.

    Args:
        name: what the tensor is called in the report.
        tolerance: None compares bits.
        first_index: added to the first index, for a tensor that is a cut of a larger one.
    """
    if bit_equal(expected, actual):
        return None
    difference = _abs_difference(expected, actual)
    if tolerance is None:
        differs = _bits(expected) != _bits(actual)
    else:
        allowed = tolerance.atol + tolerance.rtol * expected.double().abs().nan_to_num()
        differs = difference > allowed
    count = int(differs.sum())
    if not count:
        return None
    index = tuple(int(i) for i in differs.nonzero()[0])
    return Mismatch(
        tensor=name,
        index=(index[0] + first_index, *index[1:]) if index else (),
        expected=expected[index].item(),
        actual=actual[index].item(),
        ulps=_ulps(expected[index], actual[index]),
        mismatched=count,
        total=expected.numel(),
        max_abs_diff=float(difference.max()),
    )


def max_abs_diff(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """Largest absolute difference; 0.0 for empty tensors, inf when only one side is finite."""
    return float(_abs_difference(expected, actual).max()) if expected.numel() else 0.0


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(_BITS[tensor.element_size()])


def _abs_difference(expected: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    same = (expected == actual) | (expected.isnan() & actual.isnan())
    difference = (expected.double() - actual.double()).abs()
    return torch.where(same, 0.0, difference.nan_to_num(nan=float("inf"), posinf=float("inf")))


def _ulps(expected: torch.Tensor, actual: torch.Tensor) -> int | None:
    if not expected.is_floating_point() or bool(expected.isnan() | actual.isnan()):
        return None
    return abs(_ordinal(expected) - _ordinal(actual))


def _ordinal(value: torch.Tensor) -> int:
    """Rank among all floats of its dtype: neighbours differ by 1 and both zeros are 0."""
    bits = int(_bits(value).item())
    sign = 1 << (8 * value.element_size() - 1)
    return bits if bits >= 0 else -(bits + sign)
