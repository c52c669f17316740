"""Rows of `T.tile` that are plain signatures; operations with rules of their own are elsewhere."""

from __future__ import annotations

from kernels_npu.sim.frontend.language.operands import (
    Param,
    Row,
    attr,
    scalar,
    source,
    strict_source,
    tile,
    whole,
)
from kernels_npu.sim.frontend.language.shapes import same_size, same_size_slice

COMPARE_MODES = ("EQ", "NE", "GT", "GE", "LT", "LE")
CAST_MODES = (
    "CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD",
)  # fmt: skip

_BINARY = ("add", "sub", "mul", "div", "max", "min", "bitwise_and", "bitwise_or")
_UNARY = (
    "exp", "ln", "abs", "reciprocal", "sqrt", "rsqrt", "relu", "bitwise_not",
)  # fmt: skip
_UNARY_SRC = ("sin", "cos")
_UNARY_UNCHECKED = ("sigmoid", "silu")


def row(name: str, *params: Param, checks: tuple[object, ...] = (), op: str = "") -> Row:
    """A row whose IR name is its own, unless `op` says otherwise."""
    return Row(name=name, op=op or name, params=params, checks=checks)  # type: ignore[arg-type]


_DST_SRC0 = (tile("dst"), tile("src0"))
_SAME = same_size("dst", "src0")

ELEMENTWISE: tuple[Row, ...] = (
    *(
        row(n, *_DST_SRC0, source("src1"), checks=(_SAME, same_size_slice("dst", "src1")))
        for n in _BINARY
    ),
    *(row(n, *_DST_SRC0, checks=(_SAME,)) for n in _UNARY),
    *(row(n, tile("dst"), tile("src"), checks=(same_size("dst", "src"),)) for n in _UNARY_SRC),
    *(row(n, tile("dst"), tile("src")) for n in _UNARY_UNCHECKED),
    row("leaky_relu", *_DST_SRC0, scalar("scalar_value"), checks=(_SAME,)),
    row("axpy", *_DST_SRC0, scalar("scalar_value"), checks=(_SAME,)),
    row("bitwise_lshift", *_DST_SRC0, scalar("scalarValue"), checks=(_SAME,)),
    row("bitwise_rshift", *_DST_SRC0, scalar("scalarValue"), checks=(_SAME,)),
    row("mul_add_dst", *_DST_SRC0, tile("src1"), checks=(same_size("dst", "src0", "src1"),)),
    row("pow", *_DST_SRC0, tile("src1")),
    row("bitwise_xor", *_DST_SRC0, tile("src1")),
    row(
        "clamp", tile("out"), tile("buffer"), scalar("min_scalar"), scalar("max_scalar"),
        attr("count"),
    ),
    row("clamp_min", tile("out"), tile("buffer"), scalar("scalar_value"), attr("count")),
    row("clamp_max", tile("out"), tile("buffer"), scalar("scalar_value"), attr("count")),
    row("round", tile("out"), tile("buffer"), attr("count")),
    row("cast", tile("dst"), tile("src"), attr("mode", choices=CAST_MODES), attr("count")),
    row(
        "compare", tile("dst"), tile("src0"), strict_source("src1"),
        attr("mode", choices=COMPARE_MODES),
    ),
)  # fmt: skip

INDEXING: tuple[Row, ...] = (
    row("createvecindex", whole("dst"), scalar("firstValue")),
    row(
        "arith_progression", whole("buffer"), scalar("first_value"), scalar("diff_value"),
        attr("count"),
    ),
    row("gather", tile("dst"), tile("src"), tile("src_offset"), scalar("src_base_addr")),
    row(
        "gatherb", whole("dst"), whole("src0"), whole("offset"),
        attr("repeat_time"), attr("dst_blk_stride"), attr("dst_rep_stride"),
    ),
    row("transpose", whole("dst"), whole("src")),
    row("sort", whole("dst"), whole("src"), attr("actual_num")),
    row("topk", whole("dst"), whole("src"), attr("K"), attr("actual_num")),
    row("sort32", whole("dst"), whole("src0"), whole("src1")),
    row("init_sort_buf", whole("buffer"), attr("num"), attr("rsv")),
)  # fmt: skip

_WHOLE_REDUCE = (
    whole("dst"), whole("src"), attr("mask"), attr("repeattimes"), attr("dstrepstride"),
    attr("srcblkstride"), attr("srcrepstride"),
)  # fmt: skip
_ORDER = attr("ReduceOrder", default="ORDER_VALUE_INDEX")
_BLOCK_REDUCE = (
    whole("dst"), whole("src"), attr("repeat"), attr("mask"), attr("dstPepStride"),
    attr("srcBlkStride"), attr("srcRepStride"),
)  # fmt: skip

EXPERIMENTAL: tuple[Row, ...] = (
    row(
        "sub_experiment", whole("dst"), whole("src0"), whole("src1"), attr("count"),
        checks=(same_size("dst", "src0", "src1"),),
    ),
    row(
        "abs_experiment", whole("dst"), whole("src"), attr("count"),
        checks=(same_size("dst", "src"),),
    ),
    row(
        "mins_experiment", whole("dst"), whole("src"), scalar("scalarValue"), attr("count"),
        checks=(same_size("dst", "src"),),
    ),
    row("reduce_sum_experiment", whole("dst"), whole("src"), attr("count")),
    row(
        "reduce_sum_mask_experiment", whole("dst"), whole("src"), attr("mask"), attr("repeatTime"),
        attr("srcRepStride"),
    ),
    row("sum_experiment", whole("dst"), whole("src"), attr("sumParams")),
    row(
        "gathermask_experiment", whole("dst"), whole("src0"), whole("src1Pattern"),
        attr("reduceMode"), attr("mask"), attr("GatherMaskParams"), attr("rsvdCnt"),
    ),
    row(
        "fill_experiment", whole("dst"), scalar("value"), attr("mask"), attr("repeatTimes"),
        attr("dstBlockStride"), attr("dstRepeatStride"),
    ),
    row("datacachecleanandinvalid_experiment", whole("dst"), attr("CacheLine"), attr("DcciDst")),
    row("wholereducemax", *_WHOLE_REDUCE, _ORDER),
    row("wholereducemin", *_WHOLE_REDUCE, _ORDER),
    row("wholereducesum", *_WHOLE_REDUCE),
    row("block_reduce_max", *_BLOCK_REDUCE),
    row("block_reduce_min", *_BLOCK_REDUCE),
    row("block_reduce_sum", *_BLOCK_REDUCE),
    row(
        "bilinear_interpolation", whole("dst"), whole("src0"), whole("src0_offset"), whole("src1"),
        attr("mask"), attr("h_repeat"), attr("repeat_mode"), attr("dst_blk_stride"),
        attr("v_r_offset"), attr("v_repeat"),
    ),
)  # fmt: skip

ROWS: tuple[Row, ...] = (*ELEMENTWISE, *INDEXING, *EXPERIMENTAL)

#: Rows of `T` itself: transfers between processing elements (devices).
SHMEM: tuple[Row, ...] = (
    row("shmem_put_nbi", whole("dst"), whole("src"), attr("nelems"), attr("newPe")),
    row("shmem_get_nbi", whole("dst"), whole("src"), attr("nelems"), attr("newPe")),
    row(
        "shmem_ub_put_nbi", whole("ub"), whole("dst"), attr("nelems"), attr("newPe"),
        attr("strelem", default=0),
    ),
    row("shmem_ub_get_nbi", whole("dst"), whole("src"), attr("nelems"), attr("newPe")),
)  # fmt: skip
