"""Options of the compiler's passes: `tilelang.PassConfigKey` and their normal form."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import Enum
from typing import Any

from kernels_npu.sim.frontend.diagnostics import fail


class PassConfigKey(str, Enum):
    """Keys of `pass_configs`; only the four `TL_ASCEND_*` keys change what a kernel does."""

    TL_ASCEND_AUTO_SYNC = "tl.ascend_auto_sync"
    TL_ASCEND_MEMORY_PLANNING = "tl.ascend_memory_planning"
    TL_ASCEND_AUTO_CV_COMBINE = "tl.ascend_auto_cv_combine"
    TL_ASCEND_AUTO_CV_SYNC = "tl.ascend_auto_cross_core_sync"
    TL_SIMPLIFY = "tl.Simplify"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tir.disable_cse_tir"
    TIR_SIMPLIFY = "tir.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tir.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tir.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tir.use_async_copy"
    TIR_ENABLE_DEBUG = "tir.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tir.add_lower_pass"
    TIR_NOALIAS = "tir.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"


_MAINLINE = {"tl.enable_auto_schedule": "tl.ascend_auto_sync"}


def normalize(configs: Mapping[Any, Any] | None) -> dict[str, Any]:
    """`pass_configs` by plain string keys.

    Raises:
        KernelSourceError: AI-SRC-036 for a key that the compiler does not know.
    """
    known = {key.value for key in PassConfigKey}
    result: dict[str, Any] = {}
    for key, value in (configs or {}).items():
        name = key.value if isinstance(key, PassConfigKey) else str(key)
        if name not in known:
            close = (
                [_MAINLINE[name]] if name in _MAINLINE else difflib.get_close_matches(name, known)
            )
            fail(
                "AI-SRC-036",
                f"pass_configs has the unknown key {name!r}",
                rule="keys are those of tilelang.PassConfigKey",
                fix=f"did you mean {close[0]!r}?" if close else "remove the key",
            )
        result[name] = value
    return result
