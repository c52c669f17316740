"""Groups: which elements share a scale, transposition, products of grouped operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.quant import (
    INT4,
    INT8,
    UINT8,
    Granularity,
    QuantisedTensor,
    group_bytes,
    grouped_matmul,
    quantise,
)

SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)


@st.composite
def granularities(draw: st.DrawFn, rank: int) -> Granularity:
    kind = draw(st.sampled_from(["tensor", "channel", "group"]))
    axis = draw(st.integers(-rank, rank - 1))
    if kind == "tensor":
        return Granularity.per_tensor()
    if kind == "channel":
        return Granularity.per_channel(axis)
    return Granularity.per_group(axis=axis, size=draw(st.integers(1, 9)))


def group_of(index: tuple[int, ...], granularity: Granularity, rank: int) -> tuple[int, ...]:
    """The index of an element's scale, by the definition."""
    if granularity.axis is None:
        return ()
    axis = granularity.axis % rank
    if granularity.group_size is None:
        return (index[axis],)
    return (*index[:axis], index[axis] // granularity.group_size, *index[axis + 1 :])


@given(st.data())
def test_every_element_has_its_own_groups_scale(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    granularity = data.draw(granularities(len(shape)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    scale_shape = granularity.scale_shape(shape)
    scales = random.uniform(0.1, 2, scale_shape)
    zeros = random.integers(-4, 5, scale_shape)
    values = random.normal(0, 3, shape)
    made = quantise(values, INT8, granularity, scales=scales, zero_points=zeros)
    back = made.dequantise(np.float64)
    extremes = granularity.reduce(np.abs(values), np.maximum)
    for index in itertools.product(*map(range, shape)):
        group = group_of(index, granularity, len(shape))
        alone = quantise(values[index], INT8, scales=scales[group], zero_points=zeros[group])
        assert made.codes[index] == alone.codes and back[index] == alone.dequantise(np.float64)
        assert extremes[group] >= abs(values[index])


@given(st.data())
def test_scales_stay_with_their_elements_under_transposition(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    granularity = data.draw(granularities(len(shape)))
    axes = data.draw(st.permutations(range(len(shape))))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    made = quantise(random.normal(0, 3, shape), UINT8, granularity, symmetric=False)
    moved = made.transpose(axes)
    assert (moved.dequantise() == made.dequantise().transpose(axes)).all()
    assert (moved.transpose(np.argsort(axes)).codes == made.codes).all()


def vector(codes: list[int], scales: list[float], size: int) -> QuantisedTensor:
    groups = Granularity.per_group(axis=0, size=size)
    return QuantisedTensor(
        codes=np.array(codes, dtype=np.int8),
        scales=np.array(scales),
        zero_points=np.zeros(len(scales), dtype=np.int32),
        code_range=INT4,
        granularity=groups,
    )


def test_groups_are_scaled_before_they_are_added() -> None:
    """Two groups with integer sums of 4, scales 0.5 and 0.25: 3.0, not 8 * 0.5 = 4.0."""
    a = quantise([2.0, 2.0, 2.0, 2.0], INT4, scales=1.0)
    w = vector([1, 1, 1, 1], [0.5, 0.25], 2)
    assert grouped_matmul(a, w)[0, 0] == 3.0
    wrong = int(a.codes.astype(int) @ w.codes.astype(int)) * 0.5
    assert wrong == 4.0


@given(st.data())
def test_products_against_dequantised_operands(data: st.DataObject) -> None:
    """Groups of any two sizes, ragged ends, zero points, per channel and per tensor."""
    m, n, k = (data.draw(st.integers(1, hi)) for hi in (4, 4, 17))
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    operands = []
    for rows in (m, n):
        groups = data.draw(granularities(2))
        values = random.normal(0, 2, (rows, k))
        operands.append(
            quantise(
                values,
                data.draw(st.sampled_from([INT4, UINT8])),
                groups,
                symmetric=data.draw(st.booleans()),
            )
        )
    a, w = operands
    expected = a.dequantise(np.float64) @ w.dequantise(np.float64).T
    assert np.allclose(grouped_matmul(a, w), expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(grouped_matmul(a.transpose().transpose(), w), expected, rtol=1e-12)


def test_the_accumulator_is_not_the_inputs_type() -> None:
    """4096 products of 127 * 127 add up to 66,064,384."""
    a = quantise(np.full(4096, 127.0), INT8, scales=1.0)
    assert grouped_matmul(a, a)[0, 0] == 66_064_384
    for accumulator in ("int8", "int16"):
        with pytest.raises(UsageError, match="66064384") as caught:
            grouped_matmul(a, a, accumulator=accumulator)
        assert caught.value.code == "AI-QUANT-007"


def test_a_sum_that_fits_in_one_order_only_is_refused() -> None:
    values = np.array([127.0, 127.0, -127.0, -127.0])
    a, ones = quantise(values, INT8, scales=1.0), quantise(np.ones(4), INT8, scales=1.0)
    assert grouped_matmul(a, ones, accumulator="int16")[0, 0] == 0
    with pytest.raises(UsageError, match="-254 and 254"):
        grouped_matmul(a, ones, accumulator="int8")


def test_int32_holds_as_many_products_as_the_error_says() -> None:
    with pytest.raises(UsageError, match="131071 products"):
        grouped_matmul(quantise([1.0], INT4), quantise([1.0], INT4), accumulator="float32")
    assert 131071 * 128 * 128 <= 2**31 - 1 < 131072 * 128 * 128


def test_bytes_of_groups() -> None:
    """128 codes of 4 bits and a 16-bit scale: 66 bytes, 80 when groups are aligned to 16."""
    assert group_bytes(128) == 66 and group_bytes(128, align=16) == 80
    assert group_bytes(3) == 2 + 2 and group_bytes(32, scale_bits=8, zero_bits=4) == 16 + 2
    assert group_bytes(64, code_bits=8, scale_bits=0) == 64


@pytest.mark.parametrize(
    "call",
    [
        lambda: Granularity(group_size=4),
        lambda: Granularity.per_group(axis=0, size=0),
        lambda: quantise(np.ones((2, 3)), INT4, Granularity.per_channel(2)),
        lambda: quantise(np.ones((2, 3)), INT4, Granularity.per_channel(1), scales=[1.0, 1.0]),
        lambda: quantise(np.ones((2, 3)), INT4).transpose([0, 0]),
        lambda: grouped_matmul(quantise(np.ones((2, 3)), INT4), quantise(np.ones(4), INT4)),
        lambda: grouped_matmul(quantise(np.ones((2, 3, 1)), INT4), quantise(np.ones(1), INT4)),
        lambda: group_bytes(0),
        lambda: group_bytes(8, scale_bits=-1),
    ],
)
def test_what_does_not_fit_has_a_code(call: object) -> None:
    with pytest.raises(UsageError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.code == "AI-QUANT-004" and caught.value.fix


def test_codes_and_zero_points_are_checked() -> None:
    with pytest.raises(UsageError, match="AI-QUANT-006"):
        vector([9, 0], [1.0], 2)
