"""Overlap of strided ranges and the half conversion, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.sim.machine.half import to_half
from kernels_npu.sim.machine.shadow import Cell, ShadowMemory


def byte_set(cell: Cell) -> set[int]:
    return {
        cell.start + row * cell.pitch + i for row in range(cell.rows) for i in range(cell.row_bytes)
    }


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    pitch = draw(st.sampled_from([8, 8, 12]))
    rows = draw(st.integers(1, 4))
    width = draw(st.integers(1, pitch))
    return Cell(draw(st.integers(0, 40)), rows, width, pitch if rows > 1 else 0)


@given(cells(), cells())
def test_meets_agrees_with_the_sets_of_bytes(a: Cell, b: Cell) -> None:
    truth = bool(byte_set(a) & byte_set(b))
    if a.rows > 1 and b.rows > 1 and a.pitch != b.pitch:
        assert a.meets(b) or not truth  # may only err on the side of a conflict
    else:
        assert a.meets(b) is truth
    assert a.meets(b) == b.meets(a)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3), st.integers(1, 8)), max_size=8))
def test_written_bytes_agree_with_a_byte_map(ranges: list[tuple[int, int, int]]) -> None:
    shadow = ShadowMemory("UB", 128)
    truth = np.zeros(128, dtype=bool)
    for start, rows, width in ranges:
        cell = shadow.cell(start, rows, width, 9 if rows > 1 else width)
        cell.written_in = 7
        truth[list(byte_set(cell))] = True
    for start, rows, width in [(0, 1, 64), (3, 2, 5), (10, 1, 4), *ranges]:
        cell = shadow.cell(start, rows, width, 9 if rows > 1 else width)
        assert shadow.is_written(cell, 7) == bool(truth[list(byte_set(cell))].all())


def test_half_conversion_equals_numpys_for_all_kinds_of_values() -> None:
    rng = np.random.default_rng(0)
    every_half = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (every_half[1:] + every_half[:-1]) / 2
    odd = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    for values in (every_half, between, odd, np.nextafter(between, np.float32(0))):
        out = np.empty(values.shape, np.float16)
        with np.errstate(all="ignore"):
            to_half(values, out)
            expected = values.astype(np.float16)
        same = (out.view(np.uint16) == expected.view(np.uint16)) | (
            np.isnan(out) & np.isnan(expected)
        )
        assert same.all()
