"""Residual addition and RMSNorm in one pass over memory."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
import functools
from typing import Any

import torch

from kernels_npu import arguments, reference
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.dialect import T, tilelang
from kernels_npu.launch import block_count, launch
from kernels_npu.normalization import common
from kernels_npu.requirements import hidden_size
from kernels_npu.spec import ITEMSIZE, OpSpec, Traffic, Workload

#: Rows up to here leave room for a second pair of input slots in the unified buffer.
_TWO_SLOTS_UP_TO = 8192


def row_pass(hidden: int, eps: float, dtype: str, max_blocks: int, rows: Any) -> Any:
    """The body of a kernel, as a macro: rows of x + residual to `total`, normalised to `out`.

    `total` may be `residual` itself: a row is read before it is written, by the same core.
    """
    tiles, width = common.row_tiles(hidden)
    slots = 2 if hidden <= _TWO_SLOTS_UP_TO else 1
    lag = slots - 1
    loaded, stored = 1, 1  # event ids, one per slot; 0 is used inside copies that pad

    @T.macro
    def add_and_normalise(x, residual, weight, total, out):
        with T.Kernel(
            T.Select(rows < 2 * max_blocks, T.ceildiv(rows, 2), max_blocks), is_npu=True
        ) as (cid, vid):
            x_16 = T.alloc_ub([slots, tiles, width], dtype)
            sum_16 = T.alloc_ub([slots, tiles, width], dtype)
            w_16 = T.alloc_ub([tiles, width], dtype)
            x_32 = T.alloc_ub([tiles, width], "float32")
            other_32 = T.alloc_ub([1, width], "float32")  # the residual, later the weight
            squares = T.alloc_ub([1, width], "float32")
            one = T.alloc_ub([1, 1], "float32")
            scale = T.alloc_ub([1, 1], "float32")

            with T.Scope("V"):
                workers = 2 * T.Select(rows < 2 * max_blocks, T.ceildiv(rows, 2), max_blocks)
                worker = 2 * cid + vid
                count = T.ceildiv(rows - worker, workers)
                if count > 0:
                    T.tile.fill(one, 1.0)
                    for t in T.serial(tiles):
                        T.copy(weight[t * width : (t + 1) * width], w_16[t, :])
                for n in T.serial(count + lag):
                    if n < count:
                        if n >= slots:
                            T.wait_flag("mte3", "mte2", stored + n % slots)
                        for t in T.serial(tiles):
                            T.copy(
                                x[worker + n * workers, t * width : (t + 1) * width],
                                x_16[n % slots, t, :],
                            )
                            T.copy(
                                residual[worker + n * workers, t * width : (t + 1) * width],
                                sum_16[n % slots, t, :],
                            )
                        T.set_flag("mte2", "v", loaded + n % slots)
                    if n >= lag:
                        m = n - lag
                        T.wait_flag("mte2", "v", loaded + m % slots)
                        T.tile.fill(squares, 0.0)
                        for t in T.serial(tiles):
                            T.tile.cast(x_32[t, :], x_16[m % slots, t, :], "CAST_NONE", width)
                            T.tile.cast(other_32, sum_16[m % slots, t, :], "CAST_NONE", width)
                            T.tile.add(x_32[t, :], x_32[t, :], other_32)
                            # The norm is of the rounded sum, which the next layer sees.
                            T.tile.cast(sum_16[m % slots, t, :], x_32[t, :], "CAST_RINT", width)
                            T.tile.cast(x_32[t, :], sum_16[m % slots, t, :], "CAST_NONE", width)
                            T.tile.mul_add_dst(squares, x_32[t, :], x_32[t, :])
                        T.reduce_sum(squares, scale, dim=-1)
                        T.tile.mul(scale, scale, 1.0 / hidden)
                        T.tile.add(scale, scale, eps)
                        # The vector unit's rsqrt is only an estimate.
                        T.tile.sqrt(scale, scale)
                        T.tile.div(scale, one, scale)
                        T.tile.broadcast(squares, scale)
                        for t in T.serial(tiles):
                            T.tile.mul(x_32[t, :], x_32[t, :], squares)
                            T.tile.cast(other_32, w_16[t, :], "CAST_NONE", width)
                            T.tile.mul(x_32[t, :], x_32[t, :], other_32)
                            T.tile.cast(x_16[m % slots, t, :], x_32[t, :], "CAST_RINT", width)
                        T.set_flag("v", "mte3", loaded + m % slots)
                        T.wait_flag("v", "mte3", loaded + m % slots)
                        for t in T.serial(tiles):
                            T.copy(
                                sum_16[m % slots, t, :],
                                total[worker + m * workers, t * width : (t + 1) * width],
                            )
                            T.copy(
                                x_16[m % slots, t, :],
                                out[worker + m * workers, t * width : (t + 1) * width],
                            )
                        if m + slots < count:
                            T.set_flag("mte3", "mte2", stored + m % slots)

    return add_and_normalise


@tilelang.jit(out_idx=[3], target="ascendc")
def add_rms_norm_kernel(hidden: int, eps: float, dtype: str, max_blocks: int):
    """As `rms_norm_kernel`, with a second input that is updated in place."""
    rows = T.symbolic("rows")
    add_and_normalise = row_pass(hidden, eps, dtype, max_blocks, rows)

    @T.prim_func
    def add_rms_norm(
        x: T.Tensor([rows, hidden], dtype),
        residual: T.Tensor([rows, hidden], dtype),
        weight: T.Tensor([hidden], dtype),
        out: T.Tensor([rows, hidden], dtype),
    ):
        add_and_normalise(x, residual, weight, residual, out)

    return add_rms_norm


_compiled = functools.cache(add_rms_norm_kernel)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """`residual += x`, rounded, in place; returns `rms_norm(residual, weight, eps)`.

    Args:
        x, residual: `[rows, hidden]` float16 or bfloat16, contiguous; 0 rows launch nothing.
            hidden: a multiple of 16 up to 16384.
        weight: `[hidden]` of x's dtype.
        eps: not negative.

    Returns:
        `[rows, hidden]` of x's dtype.

    Raises:
        UsageError: AI-OP-001 to AI-OP-005. UnsupportedError: AI-OP-006 for another hidden size.
    """
    check(x, residual, weight, eps)
    if x.shape[0] == 0:
        return torch.empty_like(x)
    kernel = _compiled(x.shape[1], eps, dialect_dtype(x.dtype), block_count(x.device))
    out: torch.Tensor = launch(kernel, x, residual, weight)
    return out


def check(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    op: str = "add_rms_norm",
) -> None:
    """Refuse what the kernel would misread."""
    require_dtype(op, "x", x, *KERNEL_DTYPES)
    arguments.add_rms_norm(x, residual, weight, eps, op)
    require_together(op, x=x, residual=residual, weight=weight)
    hidden_size(op, x.shape[1])


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """A residual stream with outlier columns and a layer's output to add."""
    shape = (workload["rows"], workload["hidden"])
    return {
        "x": torch.randn(shape, generator=generator).to(dtype).to(device),
        "residual": common.activations(workload, dtype, generator).to(device),
        "weight": common.norm_weight(workload, dtype, generator).to(device),
        "eps": 1e-5,
    }


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """Each element once; the weight once per vector core that has a row."""
    size, rows, hidden = ITEMSIZE[dtype], workload["rows"], workload["hidden"]
    elements = rows * hidden * size
    cores = min(rows, 2 * workload.get("max_blocks", common.BLOCKS))
    return {
        "x": Traffic(read=elements),
        "residual": Traffic(read=elements, written=elements),
        "weight": Traffic(read=cores * hidden * size),
        "out": Traffic(written=elements),
    }


SPEC = OpSpec(
    name="add_rms_norm",
    workloads=common.WORKLOADS,
    make_inputs=make_inputs,
    reference=reference.add_rms_norm,
    traffic=traffic,
    flops=lambda w: w["rows"] * (5 * w["hidden"] + 4),
    tolerance=common.SUM_TOLERANCE,
    updated=("residual",),
)
