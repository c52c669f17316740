"""The geometry of paged decode attention."""

from __future__ import annotations

import pytest

from kernels_npu.attention.tiling import DecodeTiling
from kernels_npu.errors import UnsupportedError


@pytest.mark.parametrize(
    ("shape", "group", "tile_m", "rows", "live"),
    [
        ((9, 3, 64, 128), 3, 16, 8, 8),
        ((32, 4, 64, 128), 8, 16, 8, 8),
        ((9, 1, 64, 128), 9, 16, 8, 16),
        ((17, 1, 64, 128), 17, 32, 16, 32),
        ((128, 1, 64, 128), 128, 128, 64, 128),
    ],
)
def test_rows_of_the_cores(shape, group, tile_m, rows, live):
    tiling = DecodeTiling(*shape)
    assert (tiling.group, tiling.tile_m, tiling.rows, tiling.live) == (group, tile_m, rows, live)


@pytest.mark.parametrize(
    ("block_size", "pages", "keys"), [(16, 8, 128), (48, 2, 96), (80, 1, 80), (128, 1, 128)]
)
def test_a_tile_is_whole_blocks(block_size, pages, keys):
    tiling = DecodeTiling(8, 1, 64, block_size)
    assert (tiling.pages, tiling.keys) == (pages, keys)


@pytest.mark.parametrize(
    ("head_dim", "chunks", "width"), [(16, 1, 16), (128, 1, 128), (192, 2, 96)]
)
def test_slices_of_the_head_dimension(head_dim, chunks, width):
    tiling = DecodeTiling(8, 1, head_dim, 128)
    assert (tiling.chunks, tiling.width) == (chunks, width)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((9, 2, 64, 128), "9 query heads cannot share 2"),
        ((8, 1, 64, 8), "block_size 8"),
        ((8, 1, 64, 256), "block_size 256"),
        ((8, 1, 72, 128), "head_dim 72"),
        ((8, 1, 144, 128), "head_dim 144"),
        ((8, 1, 320, 128), "head_dim 320"),
        ((96, 1, 256, 128), "bytes of L0A"),
        ((256, 1, 64, 128), "bytes of L0A"),
        ((176, 1, 48, 128), "bytes of UB, which has 188416"),
        ((1024, 1024, 64, 128), "65536 elements exceed 65535"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_values(shape, words):
    with pytest.raises(UnsupportedError) as caught:
        DecodeTiling(*shape)
    assert caught.value.code == "AI-OP-006"
    assert words in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("shape", [(128, 1, 128, 128), (80, 1, 256, 16), (96, 1, 192, 128)])
def test_only_the_intended_buffers_share_bytes(shape):
    layout = DecodeTiling(*shape).ub_layout
    addresses = list(layout.values())
    assert addresses == sorted(set(addresses))
    assert all(address % 32 == 0 for address in addresses)
