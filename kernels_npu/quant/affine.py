"""The affine map between real numbers and integer codes.

    q = clip(round(x / s) + z, low, high)        x' = s * (q - z),  s > 0

Quotients are formed in float64. For x and s of 24 bits or fewer (float32, float16, bfloat16) and
codes of up to 16 bits, that gives the rounding of the exact quotient: a quotient that is no tie
differs from the nearest tie by more than 2**-42 of it, which float64 resolves. A kernel that
divides in float32 can differ from this in the last code near a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels_npu.errors import UsageError

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class CodeRange:
    """Integers that may be stored: `low..high`, in `bits` bits.

    Raises:
        UsageError: AI-QUANT-001 for a range that the bits cannot hold.
    """

    name: str
    bits: int
    low: int
    high: int

    def __post_init__(self) -> None:
        least, most = (-(1 << (self.bits - 1)), (1 << self.bits) - 1) if self.bits > 0 else (0, 0)
        span = self.high - self.low
        if not (1 <= self.bits <= 16 and least <= self.low < self.high <= most) or (
            span >= 1 << self.bits or (self.low < 0 and self.high >= 1 << (self.bits - 1))
        ):
            raise UsageError(
                "AI-QUANT-001",
                f"{self.name}: codes {self.low}..{self.high} in {self.bits} bits",
                rule="1 to 16 bits hold two's complement or unsigned integers, low < high",
                fix="for example CodeRange(name='int4', bits=4, low=-8, high=7)",
            )

    @property
    def signed(self) -> bool:
        """Whether codes are two's complement."""
        return self.low < 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds one code per item."""
        width = 8 if self.bits <= 8 else 16
        return np.dtype(f"{'int' if self.signed else 'uint'}{width}")


INT4 = CodeRange(name="int4", bits=4, low=-8, high=7)
#: Symmetric about zero, as some symmetric quantisers use it: -8 never occurs.
INT4_NARROW = CodeRange(name="int4-narrow", bits=4, low=-7, high=7)
UINT4 = CodeRange(name="uint4", bits=4, low=0, high=15)
INT8 = CodeRange(name="int8", bits=8, low=-128, high=127)
UINT8 = CodeRange(name="uint8", bits=8, low=0, high=255)
CODE_RANGES: Mapping[str, CodeRange] = {r.name: r for r in (INT4, INT4_NARROW, UINT4, INT8, UINT8)}


def _half_away(values: Floats) -> Floats:
    # Not floor(|v| + 0.5): that sum rounds up for the largest number below one half.
    part, whole = np.modf(values)
    return np.asarray(whole + np.sign(values) * (np.abs(part) >= 0.5), dtype=values.dtype)


#: Rule -> what it does with float64 quotients. ONNX's QuantizeLinear takes half-even.
ROUNDINGS: Mapping[str, Callable[[Floats], Floats]] = {
    "half-even": np.rint,
    "half-away": _half_away,
    "toward-zero": np.trunc,
    "down": np.floor,
}


def to_codes(
    quotients: Floats, zero_points: Integers, code_range: CodeRange, rounding: str = "half-even"
) -> Integers:
    """Round float64 quotients, add zero points (which broadcast), saturate.

    Infinities saturate.

    Raises:
        UsageError: AI-QUANT-002 for an unknown rounding; AI-QUANT-003 for a quotient that is no
            number.
    """
    rule = ROUNDINGS.get(rounding)
    if rule is None:
        raise UsageError(
            "AI-QUANT-002",
            f"rounding {rounding!r}",
            rule=f"the rules are {', '.join(ROUNDINGS)}",
            fix="take half-even, as ONNX does",
        )
    if np.isnan(quotients).any():
        raise UsageError(
            "AI-QUANT-003",
            f"{int(np.isnan(quotients).sum())} of {quotients.size} values are not numbers",
            rule="a code stands for a number; infinities saturate, NaN has no code",
            fix="find where the NaN comes from before quantising",
        )
    rounded = rule(quotients) + zero_points
    codes: Integers = np.clip(rounded, code_range.low, code_range.high).astype(code_range.dtype)
    return codes


def as_floats(values: ArrayLike) -> NDArray[np.float64]:
    """As float64, exactly for all narrower types.

    Raises:
        UsageError: AI-QUANT-003 for what is no array of real numbers.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "AI-QUANT-003",
            f"{str(values)[:60]!r} is no array of numbers ({error})",
            rule="values, scales and multipliers are arrays of real numbers",
            fix="convert to a NumPy array of a floating-point type first",
        ) from error


def requantise(
    accumulator: ArrayLike,
    multiplier: ArrayLike,
    code_range: CodeRange,
    *,
    zero_point: int = 0,
    rounding: str = "half-even",
) -> Integers:
    """Integer sums to codes: `clip(round(multiplier * accumulator) + zero_point)`.

    multiplier: `s_a * s_w / s_y`, broadcast over the sums. The product is formed in float64; a
    device that multiplies in fixed point may round otherwise.

    Raises:
        UsageError: AI-QUANT-003 for a multiplier that is no positive number; AI-QUANT-005 for a
            zero point that is no code.
    """
    factors = as_floats(multiplier)
    require_scales(factors)
    require_zero_points(np.asarray(zero_point), code_range)
    return to_codes(as_floats(accumulator) * factors, np.asarray(zero_point), code_range, rounding)


def require_scales(scales: Floats) -> None:
    """Refuse scales that are not positive finite numbers (AI-QUANT-003)."""
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        wrong = scales[~(np.isfinite(scales) & (scales > 0))]
        raise UsageError(
            "AI-QUANT-003",
            f"{wrong.size} of {scales.size} scales are not positive numbers, such as {wrong[0]}",
            rule="a scale is the distance of neighbouring codes: positive and finite",
            fix="give a group of zeros any positive scale, such as 1.0",
        )


def require_zero_points(
    zero_points: NDArray[Any], code_range: CodeRange, *, beyond: int = 0
) -> None:
    """Refuse zero points that are no codes of the range (AI-QUANT-005).

    beyond: how far above the range they may be.
    """
    whole = np.issubdtype(zero_points.dtype, np.integer)
    top = code_range.high + beyond
    if whole and ((zero_points >= code_range.low) & (zero_points <= top)).all():
        return
    numbers = zero_points.size and np.issubdtype(zero_points.dtype, np.number)
    found = f" in {zero_points.min()}..{zero_points.max()}" if numbers else ""
    raise UsageError(
        "AI-QUANT-005",
        f"zero points of dtype {zero_points.dtype}{found} for {code_range.name} codes "
        f"{code_range.low}..{code_range.high}",
        rule="a zero point is the code that stands for 0.0, so it is one of the codes",
        fix="move codes and zero points together: unsigned 4-bit codes less 8 are signed ones",
    )
