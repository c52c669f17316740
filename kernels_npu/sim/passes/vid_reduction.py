"""The automatic split of work over the two vector cores of a block (`T.Kernel(..., threads=2)`)."""

from __future__ import annotations

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir


def reduce_vid(func: ir.PrimFunc) -> ir.PrimFunc:
    """`func` unchanged, unless its launch asks for the automatic split.

    Raises:
        UnsupportedError: AI-SRC-044 with `threads=2`;
            the simulator runs split-by-`vid` programs only.
    """
    if func.threads != 2:
        return func
    raise UnsupportedError(
        "AI-SRC-044",
        "T.Kernel(threads=2) splits every UB buffer over the two vector cores automatically",
        where=func.loc,
        rule="the simulator does not transform programs for the automatic split",
        fix="leave threads out and split rows by vid: with T.Kernel(n, is_npu=True) as (cid, vid)",
    )
