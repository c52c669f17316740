"""How many heads are rotated as one tile."""

from __future__ import annotations

#: Unified buffer left after the tables of a few rows.
_TILE_BYTES = 180_000


def head_block(heads: int, elements_per_head: int, bytes_per_element: int) -> int:
    """The most heads that fit one tile and divide `heads`, so that no tile is partial."""
    limit = max(_TILE_BYTES // (elements_per_head * bytes_per_element), 1)
    return next(count for count in range(min(heads, limit), 0, -1) if heads % count == 0)
