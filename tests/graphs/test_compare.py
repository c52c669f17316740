from __future__ import annotations

import json
import math

import pytest
import torch

from graphs.compare import Tolerance, bit_equal, find_mismatch, json_number, max_abs_diff

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_are_one_ulp_apart(dtype: torch.dtype) -> None:
    a = torch.zeros(3, 4, dtype=dtype)
    a[1, 2] = 1.5
    b = a.clone()
    b.view(_bits(dtype))[1, 2] += 1
    mismatch = find_mismatch("x", a, b)
    assert mismatch is not None
    assert mismatch.index == (1, 2) and mismatch.ulps == 1 and mismatch.mismatched == 1
    assert mismatch.expected == 1.5 and mismatch.total == 12


def _bits(dtype: torch.dtype) -> torch.dtype:
    return {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ulps_count_through_zero(dtype: torch.dtype) -> None:
    tiny = torch.zeros(1, dtype=dtype)
    tiny.view(_bits(dtype))[0] = 1  # the smallest subnormal
    mismatch = find_mismatch("x", -tiny, tiny)
    assert mismatch is not None and mismatch.ulps == 2


def test_signed_zeros_differ_by_no_ulp_but_in_bits() -> None:
    zero = torch.zeros(1)
    assert not bit_equal(zero, -zero)
    mismatch = find_mismatch("x", zero, -zero)
    assert mismatch is not None and mismatch.ulps == 0 and mismatch.max_abs_diff == 0.0


def test_equal_nans_are_equal_and_others_are_not() -> None:
    a = torch.tensor([float("nan"), 1.0])
    assert find_mismatch("x", a, a.clone()) is None
    mismatch = find_mismatch("x", a, torch.tensor([2.0, 1.0]))
    assert mismatch is not None
    assert mismatch.ulps is None and math.isinf(mismatch.max_abs_diff)
    text = json.dumps(mismatch.to_dict(), allow_nan=False)
    assert '"nan"' in text and '"inf"' in text
    assert "x[0]: expected nan, got 2.0" in str(mismatch)


def test_the_first_of_several_is_reported_with_the_largest_difference() -> None:
    a = torch.zeros(4, 3)
    b = a.clone()
    b[2, 1], b[3, 0] = 1.0, -8.0
    mismatch = find_mismatch("cache", a, b, first_index=10)
    assert mismatch is not None
    assert mismatch.index == (12, 1) and mismatch.mismatched == 2 and mismatch.max_abs_diff == 8.0


@pytest.mark.parametrize("actual, accepted", [(1.015, True), (1.03, False), (float("nan"), False)])
def test_tolerance(actual: float, accepted: bool) -> None:
    tolerance = Tolerance(atol=0.01, rtol=0.01, reason="atomics")
    mismatch = find_mismatch("x", torch.ones(1), torch.tensor([actual]), tolerance)
    assert (mismatch is None) is accepted


def test_integers_and_empty_tensors() -> None:
    mismatch = find_mismatch("ids", torch.tensor([1, 2]), torch.tensor([1, 5]))
    assert mismatch is not None and mismatch.ulps is None and mismatch.max_abs_diff == 3.0
    empty = torch.zeros(0, 5)
    assert find_mismatch("x", empty, empty.clone()) is None and max_abs_diff(empty, empty) == 0.0


def test_shapes_must_agree_to_be_equal() -> None:
    assert not bit_equal(torch.zeros(2), torch.zeros(1, 2))


def test_numbers_that_json_lacks() -> None:
    assert json_number(1.5) == 1.5 and json_number(float("-inf")) == "-inf"
