"""Which operations each code generator has; the others end a compilation."""

from __future__ import annotations

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir

_ASCENDC_ONLY = frozenset(
    {
        "abs_experiment",
        "bilinear_interpolation",
        "block_reduce_max",
        "block_reduce_min",
        "block_reduce_sum",
        "cos",
        "datacachecleanandinvalid_experiment",
        "fill_experiment",
        "gathermask_experiment",
        "init_sort_buf",
        "mins_experiment",
        "reduce_sum_experiment",
        "reduce_sum_mask_experiment",
        "sin",
        "sub_experiment",
        "sum_experiment",
        "wholereducemax",
        "wholereducemin",
        "wholereducesum",
    }
)
_PTO_ONLY = frozenset({"row_expand_mul"})

_MISSING = {"pto": _ASCENDC_ONLY, "ascendc": _PTO_ONLY}
_INSTEAD = {"row_expand_mul": "use T.tile.row_expand_mul_experiment with a tmp buffer"}


def require_target(stmt: ir.TileOp, target: str) -> None:
    """Refuse an operation that the code generator of `target` does not know.

    Raises:
        UnsupportedError: AI-SRC-065.
    """
    if stmt.op not in _MISSING.get(target, ()):
        return
    other = "ascendc" if target == "pto" else "pto"
    raise UnsupportedError(
        "AI-SRC-065",
        f"target {target} has no T.tile.{stmt.op}",
        where=stmt.loc,
        rule=f"the operation is generated for target {other} only",
        fix=_INSTEAD.get(
            stmt.op, f'compile with target="{other}", or write it with other operations'
        ),
    )
