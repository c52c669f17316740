"""The affine map: the examples of the literature, exact rounding, saturation, wrong input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.quant import (
    CODE_RANGES,
    INT4,
    INT4_NARROW,
    INT8,
    ROUNDINGS,
    UINT4,
    CodeRange,
    Granularity,
    choose_parameters,
    quantise,
    requantise,
)

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "code", "back"),
    [(-1.0, -4, -1.0), (-0.3, -1, -0.25), (0.2, 1, 0.25), (0.9, 4, 1.0), (2.1, 7, 1.75)],
)
def test_int4_with_a_scale_of_a_quarter(value: float, code: int, back: float) -> None:
    made = quantise(np.float32(value), INT4, scales=0.25)
    assert made.codes == code and made.dequantise() == back


def test_a_code_is_no_number_without_its_scale() -> None:
    made = quantise([-1.0], INT4, scales=0.25)
    assert made.codes.astype(np.float16) == [-4.0]  # a cast of the code
    assert made.dequantise() == [-1.0]  # what the code stands for
    assert 0.25 * (int(made.codes[0]) & 0xF) == 3.0  # the nibble taken for unsigned


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        ("half-even", [2, 2, 2, -2, 0, 0]),
        ("half-away", [2, 2, 3, -3, 1, -1]),
        ("toward-zero", [1, 1, 2, -2, 0, 0]),
        ("down", [1, 1, 2, -3, 0, -1]),
    ],
)
def test_roundings(rule: str, codes: list[int]) -> None:
    values = [1.9, 1.5, 2.5, -2.5, 0.5, -0.5]
    assert quantise(values, INT8, scales=1.0, rounding=rule).codes.tolist() == codes
    assert ROUNDINGS["half-away"](np.array([0.49999999999999994]))[0] == 0


def rounded(quotient: Fraction, rule: str) -> int:
    whole, part = divmod(quotient, 1)
    if rule == "down" or (rule == "toward-zero" and (quotient >= 0 or not part)):
        return int(whole)
    if rule == "toward-zero":
        return int(whole) + 1
    if part == Fraction(1, 2):
        up = whole % 2 == 1 if rule == "half-even" else quotient > 0
    else:
        up = part > Fraction(1, 2)
    return int(whole) + up


@given(
    FLOAT32,
    st.floats(2**-20, 2**20, width=32),
    st.sampled_from(sorted(CODE_RANGES)),
    st.data(),
)
def test_codes_are_those_of_the_exact_quotient(
    value: float, scale: float, name: str, data: st.DataObject
) -> None:
    """Against rational arithmetic: no double rounding, no false tie."""
    code_range = CODE_RANGES[name]
    zero = data.draw(st.integers(code_range.low, code_range.high))
    rule = data.draw(st.sampled_from(sorted(ROUNDINGS)))
    exact = rounded(Fraction(value) / Fraction(scale), rule) + zero
    made = quantise(value, code_range, scales=scale, zero_points=zero, rounding=rule)
    assert made.codes == min(max(exact, code_range.low), code_range.high)


@given(st.integers(-600, 600), st.floats(2**-20, 2**20, width=32), st.integers(-3, 3))
def test_near_ties_fall_on_their_side(halves: int, scale: float, steps: int) -> None:
    """Neighbours of a tie in float32, where a quotient rounded to float32 would be the tie."""
    value = np.float32(halves * 0.5 * scale)
    for _ in range(abs(steps)):
        value = np.nextafter(value, np.float32(np.copysign(np.inf, steps)))
    wide = CodeRange(name="int16", bits=16, low=-(2**15), high=2**15 - 1)
    made = quantise(value, wide, scales=scale)
    assert made.codes == rounded(Fraction(float(value)) / Fraction(scale), "half-even")


def test_ends_of_the_range_and_beyond() -> None:
    values = np.array([-np.inf, -1e30, -8.5, -8.4, 7.4, 7.5, 1e300, np.inf])
    assert quantise(values, INT4, scales=1.0).codes.tolist() == [-8, -8, -8, -8, 7, 7, 7, 7]
    assert quantise(values, INT4_NARROW, scales=1.0).codes.min() == -7
    assert quantise(values, UINT4, scales=1e-30, zero_points=8).codes.tolist()[0] == 0


@given(
    st.lists(FLOAT32, min_size=1, max_size=40), st.booleans(), st.sampled_from(["int8", "uint4"])
)
def test_chosen_parameters_lose_at_most_half_a_step(
    values: list[float], symmetric: bool, name: str
) -> None:
    scales, _ = choose_parameters(
        values, CODE_RANGES[name], Granularity.per_tensor(), symmetric=symmetric
    )
    made = quantise(values, CODE_RANGES[name], symmetric=symmetric)
    # An asymmetric zero point is rounded, which moves the whole range by up to half a step.
    allowed = float(scales) * (0.5001 if symmetric else 1.0001)
    assert np.abs(made.dequantise(np.float64) - np.asarray(values)).max() <= allowed
    zeros = quantise(np.zeros(3), CODE_RANGES[name], symmetric=symmetric)
    assert (zeros.dequantise() == 0).all()


def test_zero_has_a_code_in_every_chosen_range(rng: np.random.Generator) -> None:
    for low, high in ((-3, 5), (2, 9), (-9, -2)):
        values = rng.uniform(low, high, 50)
        made = quantise([*values, 0.0], UINT4, symmetric=False)
        assert made.dequantise()[-1] == 0.0


def test_scales_survive_tiny_and_empty_groups() -> None:
    tiny, zeros = choose_parameters([1e-45, 0.0], INT8, Granularity.per_tensor())
    assert tiny > 0 and zeros == 0
    assert quantise(np.empty((0, 4)), INT4, Granularity.per_channel(1)).codes.shape == (0, 4)


def test_requantisation() -> None:
    sums = np.array([100, -100, 3, 5])
    assert requantise(sums, 0.5, INT8).tolist() == [50, -50, 2, 2]
    assert requantise(sums, 2.0, INT8, zero_point=-1).tolist() == [127, -128, 5, 9]


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("AI-QUANT-001", lambda: CodeRange(name="x", bits=4, low=-8, high=8)),
        ("AI-QUANT-001", lambda: CodeRange(name="x", bits=0, low=0, high=1)),
        ("AI-QUANT-001", lambda: CodeRange(name="x", bits=4, low=3, high=3)),
        ("AI-QUANT-002", lambda: quantise([1.0], INT4, scales=1.0, rounding="nearest")),
        ("AI-QUANT-003", lambda: quantise([np.nan], INT4, scales=1.0)),
        ("AI-QUANT-003", lambda: quantise([np.inf], INT4)),
        ("AI-QUANT-003", lambda: quantise([1.0], INT4, scales=0.0)),
        ("AI-QUANT-003", lambda: quantise([1.0], INT4, scales=-1.0)),
        ("AI-QUANT-003", lambda: quantise([1.0], INT4, scales=np.nan)),
        ("AI-QUANT-003", lambda: requantise([1], 0.0, INT8)),
        ("AI-QUANT-003", lambda: requantise(["a"], 1.0, INT8)),
        ("AI-QUANT-003", lambda: quantise("weights", INT4)),
        ("AI-QUANT-003", lambda: quantise([[1.0], [1.0, 2.0]], INT4)),
        ("AI-QUANT-003", lambda: quantise([1.0], INT4, scales=["x"])),
        ("AI-QUANT-005", lambda: quantise([1.0], INT4, scales=1.0, zero_points=["x"])),
        (
            "AI-QUANT-003",
            lambda: choose_parameters(
                [1e30], INT4, Granularity.per_tensor(), scale_dtype=np.float16
            ),
        ),
        ("AI-QUANT-005", lambda: quantise([1.0], INT4, scales=1.0, zero_points=8)),
        ("AI-QUANT-005", lambda: quantise([1.0], INT4, scales=1.0, zero_points=0.5)),
        ("AI-QUANT-005", lambda: quantise([1.0], INT4, zero_points=1)),
    ],
)
def test_wrong_input_has_a_code(code: str, call: object) -> None:
    with pytest.raises(UsageError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.code == code and caught.value.fix
