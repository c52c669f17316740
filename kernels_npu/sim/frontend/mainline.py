"""Kernel text of mainline TileLang (CUDA or its Ascend backend): recognised and refused.

Both projects are imported as `tilelang`, and some names exist in both with other meanings, so the
message always says what to write in the adapter dialect instead.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from kernels_npu.sim.frontend.affine import show
from kernels_npu.sim.frontend.diagnostics import DialectAttributeError, fail, here

_RULE = (
    "this toolkit executes tilelang-ascend's adapter dialect; mainline TileLang is another language"
)

#: Names of mainline's `T` -> what to write in the adapter dialect.
NAMES: dict[str, str] = {
    "gemm": "T.gemm_v0(A_L1, B_L1, C_L0C, transpose_B=..., init=...)",
    "wgmma_gemm": "T.gemm_v0(A_L1, B_L1, C_L0C, init=...)",
    "tcgen05_gemm": "T.gemm_v0(A_L1, B_L1, C_L0C, init=...)",
    "GemmWarpPolicy": "no warp policy: T.gemm_v0 runs on the cube core",
    "alloc_l1": "T.alloc_L1",
    "alloc_l0a": "T.alloc_L0A",
    "alloc_l0b": "T.alloc_L0B",
    "alloc_l0c": "T.alloc_L0C",
    "alloc_local": "T.alloc_var for a scalar, T.alloc_ub for a tile",
    "alloc_barrier": "T.set_flag / T.wait_flag",
    "alloc_tmem": "T.alloc_L0C",
    "alloc_reducer": "T.alloc_ub with T.reduce_sum",
    "Cube": 'T.Scope("C")',
    "Vector": 'T.Scope("V")',
    "MixedKernel": "T.Kernel(n, is_npu=True) as (cid, vid)",
    "SimtVF": "T.tile.* operations, or T.Parallel anywhere",
    "SimdVF": "T.tile.* operations, or T.Parallel anywhere",
    "simd": "T.tile.*",
    "Stage": "explicit T.set_flag / T.wait_flag, or the pass option tl.ascend_auto_sync",
    "Task": "explicit T.set_flag / T.wait_flag, or the pass option tl.ascend_auto_sync",
    "PerCoreTask": "explicit T.set_flag / T.wait_flag, or the pass option tl.ascend_auto_sync",
    "dual_copy": "two T.copy, one per vector core, with vid in the index",
    "fill": "T.tile.fill",
    "clear": "T.tile.clear",
    "print": "T.printf or T.dump_tensor",
    "device_assert": "T.printf",
    "atomic_add": "T.tile.atomic_add(dst_gm, src)",
    "atomic_addx2": "T.tile.atomic_add(dst_gm, src)",
    "atomic_addx4": "T.tile.atomic_add(dst_gm, src)",
    "reduce": "T.reduce_sum, T.reduce_max or T.reduce_min",
    "reduce_abssum": "T.tile.abs, then T.reduce_sum",
    "reduce_absmax": "T.tile.abs, then T.reduce_max",
    "cumsum": "a T.serial loop over the tile",
    "c2d_im2col": "T.copy of the rows that the window covers",
    "sync_threads": "T.barrier_all",
    "get_thread_binding": "vid of T.Kernel(...) as (cid, vid)",
    "get_block_binding": "cid of T.Kernel(...) as (cid, vid)",
    "vectorized": "T.Parallel",
    "thread_binding": "T.Parallel, or vid of T.Kernel",
    "ws": 'T.Scope("C") / T.Scope("V")',
    "annotate_buffer_versions": "T.Pipelined(..., num_stages=...) or T.annotate_address",
    "annotate_padding": "T.copy(..., pad_value=...)",
    "annotate_l2_hit_ratio": "nothing: the L2 cache is not steered",
    "ascend_set_flag": 'T.set_flag("src", "dst", id)',
    "ascend_wait_flag": 'T.wait_flag("src", "dst", id)',
    "ascend_cross_core_set_flag": 'T.set_cross_flag("pipe", id)',
    "ascend_cross_core_wait_flag": "T.wait_cross_flag(id)",
    "ascend_sync_inter_set": 'T.set_cross_flag("pipe", id)',
    "ascend_sync_inter_wait": "T.wait_cross_flag(id)",
}

#: Keyword arguments of mainline's operations -> what the adapter dialect has instead.
KEYWORDS: dict[str, str] = {
    "coalesced_width": "nothing: copies are whole rectangles",
    "disable_tma": "nothing: there is no TMA",
    "eviction_policy": "nothing: the L2 cache is not steered",
    "l2_cache_ctrl": "nothing: the L2 cache is not steered",
    "unit_flag_ctrl": "explicit flags",
    "sub_blockid": "vid in the index",
    "clear_accum": "init=",
    "policy": "nothing: the cube core has no warps",
    "k_pack": "nothing",
    "wg_wait": "explicit flags",
    "batch": "real_shape=",
}


class MainlineModule(ModuleType):
    """Stands for `tilelang.ascend.language`: a script of mainline's backend is told what it is."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DialectAttributeError(
            "AI-SRC-022",
            f"{self.__name__}.{name} belongs to mainline TileLang's Ascend backend",
            where=here(),
            rule=_RULE,
            fix="write `import tilelang.language as T` and the adapter dialect"
            + (f": {NAMES[name]}" if name in NAMES else ""),
        )


def refuse_name(module: str, name: str) -> NoReturn:
    """Refuse `T.<name>` of mainline TileLang."""
    raise DialectAttributeError(
        "AI-SRC-022",
        f"{module}.{name} belongs to mainline TileLang",
        where=here(),
        rule=_RULE,
        fix=f"write {NAMES[name]}",
    )


def refuse_keyword(call: str, keyword: str) -> NoReturn:
    """Refuse a keyword argument that only mainline's operation has."""
    fail(
        "AI-SRC-022",
        f"T.{call}(..., {keyword}=) belongs to mainline TileLang",
        rule=_RULE,
        fix=f"use {KEYWORDS[keyword]}",
    )


def refuse_kernel(blocks: tuple[Any, ...], threads: Any, is_cpu: bool) -> NoReturn:
    """Refuse a `T.Kernel` without `is_npu=True`, naming which mainline form it is."""
    shown = ", ".join(show(b) for b in blocks)
    if is_cpu:
        kind = "mainline's CPU backend"
    elif threads is not None or len(blocks) > 1:
        kind = "a GPU kernel of mainline TileLang"
    else:
        kind = "mainline TileLang's Ascend backend or a GPU kernel"
    extra = "" if threads is None else f", threads={threads!r}"
    fail(
        "AI-SRC-022",
        f"T.Kernel({shown}{extra}) has no is_npu=True: this is {kind}",
        rule=_RULE,
        fix="write `with T.Kernel(total_blocks, is_npu=True) as (cid, vid):` "
        "and split cid with // and %",
    )


def refuse_swizzle(arguments: object) -> NoReturn:
    """Refuse `T.use_swizzle(panel_size)`, a CUDA rasterisation hint."""
    fail(
        "AI-SRC-022",
        f"T.use_swizzle({arguments}) is mainline's rasterisation hint",
        rule=_RULE,
        fix="write cid = T.use_swizzle(cid, M, N, K, block_M, block_N, off=...), or leave it out",
    )
