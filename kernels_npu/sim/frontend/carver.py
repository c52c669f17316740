"""`tilelang.carver`: tile sizes of a matrix product, proposed from the chip's table.

Upstream derives its proposals from a roller with figures of its own for each chip. Here the sizes
that fit the simulated chip's memories are ordered by the bytes that the busiest core moves
(evidence: modelled). Only the template for matrix products exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels_npu.sim.dtypes import bits_of
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.memory import dtype_name
from kernels_npu.sim.soc import Soc, get_soc

#: Sides of a tile in L0C, and steps along K in L1.
_SIDES = (16, 32, 64, 128, 256)
_STEPS = (32, 64, 128, 256, 512)
_ACCUMULATOR_BYTES = 4


class Ascend:
    """The chip to propose for: the simulated one, or `chip_name`."""

    def __init__(self, target: Any = None, chip_name: str | None = None) -> None:
        del target
        from kernels_npu.sim.config import current_config

        self.soc: Soc = get_soc(current_config().soc if chip_name is None else chip_name)
        self.platform = "ascend"
        self.chip_name = self.soc.name
        self.compute_max_core = self.soc.cube_cores
        self.ub_cap, self.l1_cap = self.soc.ub_bytes, self.soc.l1_bytes
        self.l0a_cap, self.l0b_cap = self.soc.l0a_bytes, self.soc.l0b_bytes
        self.l0c_cap = self.soc.l0c_bytes
        self.l2_cache_size_bytes = self.soc.l2_bytes


@dataclass(frozen=True, kw_only=True)
class Hint:
    """One proposal. block: rows and columns of a tile. rstep: its step along K."""

    block: list[int]
    rstep: list[int]
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class MatmulTemplate:
    """A product of [M, K] and [K, N]; the fields have the names of upstream's template."""

    M: int
    N: int
    K: int
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float16"
    with_bias: bool = False
    arch: Ascend | None = None

    def with_arch(self, arch: Ascend) -> MatmulTemplate:
        """The template for `arch`."""
        return replace(self, arch=arch)

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The `topk` proposals that make the busiest core move the fewest bytes.

        Raises:
            KernelSourceError: AI-SRC-038 when no tile divides the product and fits the chip.
        """
        ordered = sorted(self._fitting(), key=lambda hint: hint.moved_bytes)
        if not ordered:
            fail(
                "AI-SRC-038",
                f"no tile fits a product of {self.M} x {self.N} x {self.K}",
                rule="tiles have sides of 16 to 256 that divide M and N, and fit L1 and L0C",
                fix="pad the product to multiples of 16",
            )
        return ordered[:topk]

    def _fitting(self) -> Iterator[Hint]:
        chip = (self.arch or Ascend()).soc
        size = bits_of(dtype_name(self.in_dtype)) // 8
        out_size = bits_of(dtype_name(self.out_dtype)) // 8
        for rows, columns, step in itertools.product(_SIDES, _SIDES, _STEPS):
            if self.M % rows or self.N % columns or self.K % step:
                continue
            if rows * columns * _ACCUMULATOR_BYTES > chip.l0c_bytes:
                continue
            if 2 * (rows + columns) * step * size > chip.l1_bytes:  # two stages
                continue
            # gemm_v0 passes pieces of 128 along K through L0A and L0B, two when there are more.
            piece = min(step, 256) * size
            if rows * piece > chip.l0a_bytes or columns * piece > chip.l0b_bytes:
                continue
            per_tile = (rows + columns) * self.K * size + rows * columns * out_size
            tiles = (self.M // rows) * (self.N // columns)
            yield Hint(
                block=[rows, columns],
                rstep=[step],
                moved_bytes=math.ceil(tiles / chip.cube_cores) * per_tile,
            )
