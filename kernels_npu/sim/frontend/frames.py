"""What a `with` statement of a kernel may open: T.Kernel, T.Scope, T.If, T.Then, T.Else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend import mainline
from kernels_npu.sim.frontend.affine import show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.values import describe
from kernels_npu.sim.scalar_ops import is_float

_CORES = {"C": "cube", "V": "vector"}


class Frame:
    """Something that `with` opens."""


@dataclass(frozen=True, kw_only=True)
class KernelFrame(Frame):
    """The launch: `grid` blocks; `threads` is None (cid, vid), 1 or 2 (cid only)."""

    grid: ir.Expr
    threads: int | None


@dataclass(frozen=True, kw_only=True)
class ScopeFrame(Frame):
    """Code for one core type, `cube` or `vector`."""

    core: str


@dataclass(frozen=True, kw_only=True)
class IfFrame(Frame):
    """`with T.If(cond):`, holding one T.Then and at most one T.Else."""

    cond: ir.Expr


class ThenFrame(Frame):
    """`with T.Then():`"""


class ElseFrame(Frame):
    """`with T.Else():`"""


def Kernel(
    *blocks: Any,
    threads: Any = None,
    is_cpu: bool = False,
    prelude: str | None = None,
    is_npu: bool = False,
    pipeline: bool = False,
) -> KernelFrame:
    """`T.Kernel(n, is_npu=True, threads=None|1|2)`: `n` blocks of one AIC and two (or one) AIVs.

    Raises:
        KernelSourceError: AI-SRC-020 for a wrong grid or thread count, AI-SRC-022 for a kernel of
            mainline TileLang.
    """
    del prelude, pipeline
    if not is_npu:
        mainline.refuse_kernel(blocks, threads, is_cpu)
    if len(blocks) != 1:
        fail(
            "AI-SRC-020",
            f"T.Kernel has {len(blocks)} block dimensions {show(blocks)}",
            rule="NPU kernel must have exactly one block dimension",
            fix="launch the product and split cid with // and %",
        )
    (grid,) = blocks
    if not isinstance(grid, (int, ir.Expr)) or (isinstance(grid, ir.Expr) and is_float(grid.dtype)):
        fail(
            "AI-SRC-020",
            f"the grid of T.Kernel is {describe(grid)}",
            rule="the grid is an integer or an integer expression of symbolic dimensions",
            fix="use // or T.ceildiv",
        )
    return KernelFrame(grid=ir.as_expr(grid), threads=_threads(threads))


def _threads(threads: Any) -> int | None:
    if isinstance(threads, (list, tuple)) and len(threads) == 1:
        threads = threads[0]
    if threads is not None and (isinstance(threads, bool) or threads not in (1, 2)):
        fail(
            "AI-SRC-020",
            f"T.Kernel has threads={threads!r}",
            rule="NPU kernel threads must be 1 or 2: the number of vector cores per cube core",
            fix="use threads=1, threads=2, or leave it out and take vid",
        )
    return None if threads is None else int(threads)


def Scope(name: Any) -> ScopeFrame:
    """`T.Scope("C")` or `T.Scope("V")`: code for the cube or for the vector cores."""
    core = _CORES.get(name) if isinstance(name, str) else None
    if core is None:
        fail(
            "AI-SRC-032",
            f"T.Scope({name!r})",
            rule='a scope is "C" (cube core) or "V" (vector cores)',
            fix='write T.Scope("C") or T.Scope("V")',
        )
    return ScopeFrame(core=core)


def If(condition: Any) -> IfFrame:
    """`with T.If(condition): with T.Then(): ... with T.Else(): ...`"""
    if not isinstance(condition, (bool, ir.Expr)):
        fail(
            "AI-SRC-006",
            f"T.If takes a condition, not {describe(condition)}",
            fix="compare with a value",
        )
    return IfFrame(cond=ir.as_expr(condition))


def Then() -> ThenFrame:
    """The branch of T.If taken when the condition holds."""
    return ThenFrame()


def Else() -> ElseFrame:
    """The other branch of T.If."""
    return ElseFrame()
