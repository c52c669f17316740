"""The conversions between float16 and float32, on every half and between all neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels_npu.sim.machine import functions
from kernels_npu.sim.machine.half import from_half, to_half, widen


def all_halves() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_every_half_becomes_the_float_of_the_same_value() -> None:
    halves = all_halves()
    finite = halves[np.isfinite(halves)].reshape(-1, 32)
    np.testing.assert_array_equal(
        from_half(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32)
    )
    wide = from_half(halves)
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    assert wide.dtype == np.float32


def test_a_part_of_a_wider_array_and_an_empty_one() -> None:
    rows = all_halves()[: 64 * 100].reshape(64, 100)[::3, 5:40]
    np.testing.assert_array_equal(from_half(rows), rows.astype(np.float32))
    assert from_half(np.zeros((0, 4), np.float16)).shape == (0, 4)


def test_there_and_back_is_the_identity_and_ties_go_to_even() -> None:
    halves = all_halves()
    finite = np.sort(halves[np.isfinite(halves)])
    back = np.empty_like(finite)
    to_half(from_half(finite), back)
    np.testing.assert_array_equal(back.view(np.uint16), finite.view(np.uint16))
    between = (finite[:-1].astype(np.float32) + finite[1:].astype(np.float32)) / 2
    rounded = np.empty(between.shape, np.float16)
    to_half(between, rounded)
    np.testing.assert_array_equal(rounded, between.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int32])
def test_widen_leaves_what_is_no_half(dtype: type) -> None:
    values = np.arange(-4, 4).astype(dtype)
    np.testing.assert_array_equal(widen(values), values)


def test_functions_round_to_half_as_the_device_s_torch_operations() -> None:
    a = np.linspace(-6, 6, 40001).astype(np.float16)
    host = torch.from_numpy(a)
    for ours, theirs in ((functions.cos, torch.cos), (functions.exp, torch.exp)):
        expected = theirs(host.double()).float().half().numpy()
        into = np.empty_like(a)
        ours(a, into)
        np.testing.assert_array_equal(into, expected)
        np.testing.assert_array_equal(ours(a), expected)
