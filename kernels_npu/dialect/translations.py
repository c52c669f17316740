"""Names of the other dialects, and what the adapter dialect has instead: data.

Mainline was read in the wheel tilelang 0.1.15 (`tilelang/language`, `tilelang/ascend/language`) and
in its repository at a35008a; npuir in tile-ai/tilelang-mlir-ascend, `tilelang/language/__init__.py`
and `customize_npuir.py` at 04e9f37; the adapter in tile-ai/tilelang-ascend at 95acbd7. A name that
several dialects have is listed only where it means something that the adapter does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.dialect.installation import ADAPTER, MAINLINE, MAINLINE_ASCEND, NPUIR

#: Dialect -> how messages call it.
LABELS = {
    MAINLINE: "mainline TileLang",
    MAINLINE_ASCEND: "mainline TileLang's Ascend backend",
    NPUIR: "tilelang-mlir-ascend (npuir)",
    ADAPTER: "tilelang-ascend (the adapter dialect)",
}


#: Backends of mainline that have a language, as `tilelang.ascend.language`.
LANGUAGES = ("ascend", "cpu", "cuda", "metal", "rocm", "webgpu")


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A construct that the adapter dialect lacks.

    dialects: those that have it. adapter: what to write instead.
    """

    dialects: tuple[str, ...]
    adapter: str


def _rows(dialects: tuple[str, ...], table: dict[str, str]) -> dict[str, Foreign]:
    return {
        name: Foreign(dialects=dialects, adapter=adapter)
        for names, adapter in table.items()
        for name in names.split()
    }


_FLAGS = 'T.set_flag("MTE2", "V", id) and T.wait_flag("MTE2", "V", id)'
_SCHEDULE = "explicit T.set_flag / T.wait_flag, or the pass option tl.ascend_auto_sync"
_NO_WARPS = "nothing (an AI core has no warps)"
_GEMM = "T.gemm_v0(A_L1, B_L1, C_L0C, transpose_B=..., init=...)"
_ATOMIC = "T.tile.atomic_add(dst_gm, src)"
_L2 = "nothing (the L2 cache is not steered)"

#: Of mainline's common language, which npuir was made from. `atomic_add`, `gemm` and others can be
#: imported from the adapter's `T`, too, where they are leftovers for GPUs.
_EVERYWHERE = _rows(
    (MAINLINE, MAINLINE_ASCEND, NPUIR),
    {
        "gemm": _GEMM,
        "fill": "T.tile.fill",
        "clear": "T.tile.clear",
        "print": "T.printf or T.dump_tensor",
        "dynamic": "T.symbolic",
        "alloc_local": "T.alloc_var for a scalar, T.alloc_ub for a tile",
        "reduce": "T.reduce_sum, T.reduce_max or T.reduce_min",
        "reduce_abssum": "T.tile.abs, then T.reduce_sum",
        "reduce_absmax": "T.tile.abs, then T.reduce_max",
        "cumsum": "a T.serial loop over the tile",
        "atomic_add atomic_addx4": _ATOMIC,
        "get_thread_binding get_thread_bindings": "vid of T.Kernel(...) as (cid, vid)",
        "get_block_binding get_block_bindings": "cid of T.Kernel(...) as (cid, vid)",
    },
)
_COMMON = _rows(
    (MAINLINE, MAINLINE_ASCEND),
    {
        "device_assert": "T.printf",
        "const": "parameters of the factory, and T.symbolic for sizes known at the launch",
        "empty": "a parameter of the prim_func, with out_idx in tilelang.jit",
        "atomic_addx2": _ATOMIC,
        "StridedTensor": "T.Tensor: tensors are contiguous",
        "alloc_global": "a parameter of the prim_func, with workspace_idx in tilelang.jit",
        "alloc_reducer reducer_init reducer_update finalize_reducer": (
            "T.alloc_ub with T.reduce_sum"
        ),
        "reduce_bitand reduce_bitor reduce_bitxor": "a T.serial loop over the tile",
        "cummax": "a T.serial loop over the tile",
        "Serial": "T.serial",
        "vectorized": "T.Parallel",
        "annotate_safe_value": "T.copy(..., pad_value=...)",
    },
)
#: Of GPUs, although `tilelang.ascend.language` exports them as well.
_GPU_LIKE = _rows(
    (MAINLINE, MAINLINE_ASCEND),
    {
        "gemm_sp": _GEMM,
        "gemm_blockscaled": "nothing (A2 and A3 have no block-scaled matrix product)",
        "GemmWarpPolicy": "no warp policy: T.gemm_v0 runs on the cube core",
        "async_copy ptx_cp_async": "T.copy",
        "im2col c2d_im2col": "T.copy of the rows that the window covers",
        "alloc_barrier": _FLAGS,
        "sync_threads sync_warp": "T.barrier_all",
        "sync_grid": "T.sync_all",
        "thread_binding": "T.Parallel, or vid of T.Kernel",
        "WSSchedule ws_op annotate_ws_schedule": 'T.Scope("C") / T.Scope("V")',
        "PersistentTileScheduler": "T.Persistent",
        "warp_reduce_sum warp_reduce_max warp_reduce_min": "T.reduce_sum, T.reduce_max, ...",
        "shfl_sync shfl_up shfl_down shfl_xor": "T.reduce_sum, T.reduce_max, ...",
        "activemask any_sync all_sync ballot ballot_sync": "T.tile.compare, then T.reduce_max",
        "get_thread_extent get_thread_extents get_block_extent get_block_extents": (
            "the numbers that T.Kernel was given"
        ),
        "rng_init rng_rand rng_rand_float": "a parameter of the prim_func with random numbers",
        "annotate_compile_flags": "nothing (leave it out)",
        "annotate_pass_configs": "pass_configs= of tilelang.jit",
        "atomic_max atomic_min atomic_or atomic_load atomic_store": (
            "nothing (only T.tile.atomic_add is atomic)"
        ),
    },
)
_GPU = _rows(
    (MAINLINE,),
    {
        "wgmma_gemm tcgen05_gemm tcgen05_gemm_blockscaled": _GEMM,
        "tma_copy tma_load tma_store_arrive tma_store_wait create_tma_descriptor": "T.copy",
        "alloc_cluster_barrier": _FLAGS,
        "mbarrier_arrive mbarrier_wait_parity barrier_arrive barrier_wait": _FLAGS,
        "mbarrier_expect_tx fence_proxy_async wait_wgmma warpgroup_arrive warpgroup_wait": _FLAGS,
        "cluster_sync cluster_arrive cluster_wait": "T.sync_all",
        "get_warp_idx get_warp_idx_sync get_warp_group_idx get_lane_idx": _NO_WARPS,
        "alloc_tmem": "T.alloc_L0C",
        "ws warp_specialize WarpSpecialize": 'T.Scope("C") / T.Scope("V")',
        "ClusterKernel CUDASourceCodeKernel": "T.Kernel(n, is_npu=True) as (cid, vid)",
        "set_max_nreg no_set_max_nreg inc_max_nreg dec_max_nreg": _NO_WARPS,
        "disable_warp_group_reg_alloc": _NO_WARPS,
        "annotate_min_blocks_per_sm pdl_sync pdl_trigger": _NO_WARPS,
        "annotate_l2_hit_ratio": _L2,
    },
)
#: Of early mainline, from which npuir was made.
_EARLY = _rows((MAINLINE, NPUIR), {"annotate_padding": "T.copy(..., pad_value=...)"})
_ASCEND = _rows(
    (MAINLINE_ASCEND,),
    {
        "alloc_l1": "T.alloc_L1",
        "alloc_l0a alloc_l0a_sf": "T.alloc_L0A",
        "alloc_l0b alloc_l0b_sf": "T.alloc_L0B",
        "alloc_l0c": "T.alloc_L0C",
        "Cube": 'T.Scope("C")',
        "Vector": 'T.Scope("V")',
        "MixedKernel": "T.Kernel(n, is_npu=True) as (cid, vid)",
        "SimtVF SimdVF": "T.tile.* operations, or T.Parallel anywhere",
        "simd": "T.tile.*",
        "Stage Task PerCoreTask": _SCHEDULE,
        "assume_conflict assume_no_conflict": _SCHEDULE,
        "dual_copy": "two T.copy, one per vector core, with vid in the index",
        "annotate_buffer_versions annotate_manual_multi_buffer": (
            "T.Pipelined(..., num_stages=...) or T.annotate_address"
        ),
        "annotate_unlimit_memory": "nothing (buffers have to fit)",
        "AscendTileScheduler AscendBaseTileScheduler AscendBatchedTileScheduler": "T.Persistent",
        "AscendMGroupedTileScheduler AscendKGroupedTileScheduler": "T.Persistent",
        "set_atomic set_atomic_none": _ATOMIC,
        "set_hf32_mode set_mmad_direction": "nothing (T.gemm_v0 has no such mode)",
        "ascend_set_copy_pad_value": "T.copy(..., pad_value=...)",
        "ascend_nd2nz_post_copy": "T.copy of the tile into L1",
        "ascend_get_buf ascend_rls_buf": _FLAGS,
        "ascend_threadfence": "T.barrier_all",
        "ascend_set_flag": 'T.set_flag("src", "dst", id)',
        "ascend_wait_flag": 'T.wait_flag("src", "dst", id)',
        "ascend_pipe_barrier": 'T.pipe_barrier("V")',
        "ascend_cross_core_set_flag ascend_sync_inter_arrive": ('T.set_cross_flag("pipe", id)'),
        "ascend_cross_core_wait_flag ascend_sync_inter_wait": "T.wait_cross_flag(id)",
    },
)
_NPUIR = _rows(
    (NPUIR,),
    {
        "vadd vsub vmul vdiv vmax vmin": "T.tile.add(dst, src0, src1) etc., destination first",
        "vor vand vxor vnot vshl vshr": "T.tile.bitwise_or(dst, src0, src1) etc.",
        "vexp vln vabs vsqrt vrsqrt vrelu vsigmoid vsin vcos vrec": (
            "T.tile.exp(dst, src) etc., destination first"
        ),
        "vpow": "T.tile.pow(dst, src0, src1)",
        "vexp2 vlog2 verf vtanh": "T.tile.exp and T.tile.ln with a factor",
        "vbrc": "T.tile.fill for a scalar, T.tile.broadcast for a tile",
        "vcast": "T.tile.cast(dst, src, mode, count)",
        "vcmp": "T.tile.compare(dst, src0, src1, mode)",
        "vselect": "T.tile.select(dst, mask, src0, src1, mode)",
        "load_nd2nz store_nz2nd store_fixpipe": "T.copy",
        "rs": "nothing (each operation knows its pipe)",
        "sync_block_set": 'T.set_cross_flag("pipe", id)',
        "sync_block_wait": "T.wait_cross_flag(id)",
        "block_barrier": "T.sync_all",
        "subblock_barrier": "T.barrier_all",
    },
)
#: Name in `T` -> the dialects that have it and what the adapter has instead.
NAMES: dict[str, Foreign] = {
    **_EVERYWHERE,
    **_COMMON,
    **_EARLY,
    **_GPU_LIKE,
    **_GPU,
    **_ASCEND,
    **_NPUIR,
}
#: Names with this prefix are npuir's.
NPUIR_PREFIX = "npuir_"
NPUIR_OPERATION = Foreign(
    dialects=(NPUIR,), adapter="the operation in T.tile, or T.gemm_v0 and T.copy; destination first"
)

#: Keyword arguments of operations -> what the adapter dialect has instead.
KEYWORDS: dict[str, Foreign] = {
    **_rows(
        (MAINLINE,),
        {
            "coalesced_width": "nothing (copies are whole rectangles)",
            "disable_tma": "nothing (there is no TMA)",
            "eviction_policy": _L2,
            "policy": "nothing (the cube core has no warps)",
            "k_pack": "nothing",
            "wg_wait": "explicit flags",
        },
    ),
    **_rows(
        (MAINLINE_ASCEND,),
        {
            "l2_cache_ctrl": _L2,
            "unit_flag_ctrl": "explicit flags",
            "sub_blockid": "vid in the index",
        },
    ),
    **_rows((MAINLINE, MAINLINE_ASCEND), {"clear_accum": "init=", "batch": "real_shape="}),
    **_rows(
        (NPUIR,),
        {
            "size": "slices of both operands, or real_shape= of a reduction",
            "initC": "init=",
            "a_transpose": "transpose_A=",
            "b_transpose": "transpose_B=",
        },
    ),
}
#: Operations whose keywords are looked up in `KEYWORDS`.
KEYWORD_CALLS = frozenset(
    (
        *("copy", "dual_copy", "gemm", "gemm_v0", "mma"),
        *("reduce_sum", "reduce_max", "reduce_min"),
    )
)

#: `target=` of tilelang.jit and tilelang.compile.
TARGETS: dict[str, Foreign] = {
    **_rows((MAINLINE,), {"cuda hip metal webgpu cutedsl c": 'target="ascendc" or "pto"'}),
    **_rows((MAINLINE_ASCEND,), {"ascend asc": 'target="ascendc" or "pto"'}),
    **_rows((NPUIR,), {"npuir": 'target="ascendc" or "pto"'}),
}
#: Other options of tilelang.jit and tilelang.compile.
OPTIONS: dict[str, Foreign] = _rows(
    (MAINLINE, MAINLINE_ASCEND), {"compile_flags": "nothing (leave it out)"}
)
#: `execution_backend=` of tilelang.jit and tilelang.compile.
BACKENDS: dict[str, Foreign] = _rows(
    (MAINLINE, MAINLINE_ASCEND), {"tvm_ffi nvrtc torch": 'execution_backend="cython", or none'}
)
#: Pass options, by key and by member of PassConfigKey.
PASS_OPTIONS: dict[str, Foreign] = _rows(
    (MAINLINE, MAINLINE_ASCEND),
    {"tl.enable_auto_schedule TL_ENABLE_AUTO_SCHEDULE": '"tl.ascend_auto_sync": True'},
)

#: What shows that a file is in the adapter dialect, and the dialects that share it.
OWN_NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("tile", "gemm_v0", "mma", "set_cross_flag", "wait_cross_flag", "printf"), (ADAPTER,)
    ),
    **dict.fromkeys(
        ("alloc_ub", "alloc_L1", "alloc_L0A", "alloc_L0B", "alloc_L0C"), (ADAPTER, NPUIR)
    ),
}
OWN_TARGETS = ("ascendc", "pto")
OWN_PASS_OPTION = ("tl.ascend_", "TL_ASCEND_")
#: Arguments of T.Scope: npuir spells the cores out.
NPUIR_SCOPES = {"Cube": 'T.Scope("C")', "Vector": 'T.Scope("V")'}
