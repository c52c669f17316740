"""How paged decode attention is cut into tiles, and which shapes fit the on-chip memories."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from kernels_npu.errors import UnsupportedError

#: Keys of one tile: as many as pass through L0B with a slice of the head dimension.
MAX_TILE_KEYS = 128
#: Widest slice of the head dimension that passes through the L0 memories at once.
_MAX_CHUNK = 128
_L0A_BYTES, _L0C_BYTES = 65536, 131072
#: AscendC's select with a scalar takes the last 8 KiB of the unified buffer as its scratch.
_UB_BYTES = (192 - 8) * 1024
#: Elements from one key to the next in the cache: the copy to L1 holds the distance in 16 bits.
_MAX_ROW_STRIDE = 65535


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


@dataclass(frozen=True)
class DecodeTiling:
    """The geometry of one block: one sequence and one KV head.

    Args:
        q_heads, kv_heads, head_dim, block_size: of the tensors.

    Attributes:
        group: query heads that share the KV head.
        tile_m: rows of the cube tile, `group` rounded up to 16.
        rows: rows of it that each vector core owns.
        live: rows that any vector core works on: those of both, or of the first alone when all
            heads fit.
        pages: cache blocks in one tile of keys. keys: keys of a full tile.
        chunks, width: the head dimension as `chunks` slices of `width` elements.

    Raises:
        UnsupportedError: AI-OP-006 when the shape is not covered.
    """

    q_heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    group: int = field(init=False)
    tile_m: int = field(init=False)
    rows: int = field(init=False)
    live: int = field(init=False)
    pages: int = field(init=False)
    keys: int = field(init=False)
    chunks: int = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self._require(
            self.kv_heads > 0 and self.q_heads > 0 and self.q_heads % self.kv_heads == 0,
            f"{self.q_heads} query heads cannot share {self.kv_heads} KV heads evenly",
            "every KV head serves the same number of query heads",
            "pass num_q_heads as a multiple of num_kv_heads",
        )
        self._require(
            self.block_size % 16 == 0 and 16 <= self.block_size <= MAX_TILE_KEYS,
            f"block_size {self.block_size} is not a multiple of 16 from 16 to {MAX_TILE_KEYS}",
            "a tile of keys is made of whole cache blocks",
            "allocate the KV cache with block_size 16, 32, 64 or 128",
        )
        chunks = max(-(-self.head_dim // _MAX_CHUNK), 1)
        self._require(
            self.head_dim % (16 * chunks) == 0 and 0 < self.head_dim <= 2 * _MAX_CHUNK,
            f"head_dim {self.head_dim} is not a multiple of 16 up to 128 or of 32 up to 256",
            "the head dimension passes through L0 in slices of a multiple of 16, at most 128 wide",
            "allow the reference (registry.strict(False)), or pad to 64, 96, 128, 192 or 256",
        )
        stride = self.kv_heads * self.head_dim
        self._require(
            stride <= _MAX_ROW_STRIDE,
            f"{self.kv_heads} KV heads of {self.head_dim} elements: a token's {stride} elements "
            f"exceed {_MAX_ROW_STRIDE}",
            "a tile is loaded by one copy that steps over the other heads of each token",
            "split the KV heads over calls, as tensor parallelism does",
        )
        group = self.q_heads // self.kv_heads
        tile_m = _round_up(group, 16)
        rows = tile_m // 2
        pages = MAX_TILE_KEYS // self.block_size
        for name, value in {
            "group": group,
            "tile_m": tile_m,
            "rows": rows,
            "live": _round_up(group, rows),
            "pages": pages,
            "keys": pages * self.block_size,
            "chunks": chunks,
            "width": self.head_dim // chunks,
        }.items():
            object.__setattr__(self, name, value)
        for memory, used, limit in (
            ("L0A", 2 * tile_m * (self.head_dim + MAX_TILE_KEYS), _L0A_BYTES),
            ("L0C", 4 * tile_m * (self.head_dim + MAX_TILE_KEYS), _L0C_BYTES),
            ("UB", self.ub_bytes, _UB_BYTES),
        ):
            self._require(
                used <= limit,
                f"{group} query heads of {self.head_dim} elements per KV head need {used} bytes of "
                f"{memory}, which has {limit}",
                "the query heads of a KV head form one tile, so that its cache is read once",
                "split the query heads over calls, as tensor parallelism does, "
                "or allow the reference",
            )

    @property
    def ub_layout(self) -> dict[str, int]:
        """Byte address of every buffer in the unified buffer.

        Two pairs share bytes. `wide` spreads a row vector over the columns of a score tile or of an
        output tile, both on the vector pipe in program order. `out` is written after the last use
        of `o`.
        """
        scores, outputs = self.rows * MAX_TILE_KEYS, self.rows * self.head_dim
        vector = _round_up(4 * self.rows, 32)
        sizes = {
            "scores": 4 * scores,
            "wide": 4 * max(scores, outputs),
            "probabilities": 2 * scores,
            "o": 4 * outputs,
            "acc": 4 * outputs,
            "max_old": vector,
            "max_new": vector,
            "denominator": vector,
            "tile_sum": vector,
            "alpha": 2 * vector,
            "column_index": 4 * MAX_TILE_KEYS,
            "column": 4 * MAX_TILE_KEYS,
            "mask": 32,
        }
        layout, address = {}, 0
        for name, size in sizes.items():
            layout[name] = address
            address += size
        layout["end"] = address
        return layout

    @property
    def ub_bytes(self) -> int:
        """Bytes of the unified buffer, with the scratch that the compiler adds."""
        scratch = max(4 * self.rows * MAX_TILE_KEYS, self.rows * self.head_dim)
        return self.ub_layout["end"] + scratch

    def _require(self, fits: bool, what: str, rule: str, fix: str) -> None:
        if not fits:
            raise UnsupportedError(
                "AI-OP-006", f"paged_decode_attention: {what}", rule=rule, fix=fix
            )


@functools.cache
def decode_tiling(q_heads: int, kv_heads: int, head_dim: int, block_size: int) -> DecodeTiling:
    """The tiling of this shape, made once."""
    return DecodeTiling(q_heads, kv_heads, head_dim, block_size)
