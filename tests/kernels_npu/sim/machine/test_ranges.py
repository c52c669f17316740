"""Overlap of strided ranges and the half conversion, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.cross_block import BlockAccesses
from kernels_npu.sim.machine.half import to_half
from kernels_npu.sim.machine.shadow import ShadowMemory


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
    assert a.meets(b) is truth
    assert b.meets(a) is truth


@given(st.lists(cells(), max_size=40), cells())
def test_index_finds_every_overlap(others: list[Cell], cell: Cell) -> None:
    shadow = ShadowMemory("UB", 4096)
    for other in others:
        shadow.cell(other.start, other.rows, other.row_bytes, other.pitch)
    new = shadow.cell(cell.start, cell.rows, cell.row_bytes, cell.pitch)
    expected = {id(c) for c in shadow.cells.values() if byte_set(c) & byte_set(new)}
    assert {id(c) for c in new.overlaps} == expected
    found = shadow.at(new.start, new.stop)
    span = set(range(new.start, new.stop))
    assert {id(c) for c in found} == {id(c) for c in shadow.cells.values() if byte_set(c) & span}


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), cells()), min_size=1, max_size=10))
def test_blocks_that_share_bytes_are_found(touches: list[tuple[int, bool, Cell]]) -> None:
    accesses = BlockAccesses()
    for number, (block, write, cell) in enumerate(sorted(touches, key=lambda t: t[0])):
        if write:
            cell.writer, cell.write_site = 0, number
        else:
            cell.readers = {0: (1, number)}
        accesses.add(
            0,
            block,
            [cell],
            lambda agent, index: index,  # type: ignore[arg-type,return-value]
            lambda group, cell: np.empty(0, np.uint8),
        )
    pairs = set()
    accesses.report(lambda group, old, new, equal: pairs.add((id(old.cell), id(new.cell))))
    ordered = sorted(touches, key=lambda t: t[0])
    expected = {
        (id(a), id(b))
        for i, (x, w, a) in enumerate(ordered)
        for y, v, b in ordered[i + 1 :]
        if x != y and (w or v) and byte_set(a) & byte_set(b)
    }
    assert pairs == expected


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
