"""Files of `msprof op`: one task in OpBasicInfo, one row per block and core in the metric files.

The lists name all generations together: two of PipeUtilization, and the chips A2/A3, 310P and 950.
"""

from __future__ import annotations

from profiling.files.formats import Format
from profiling.records.table import FileKind

_SOURCE = "Ascend/msopprof, metric_csv_header.h"
_BLOCK = "block_id,sub_block_id,aic_time(us),aic_total_cycles,aiv_time(us),aiv_total_cycles"
_PIPES = "cube vec scalar mte1 mte2 mte3 fixpipe"


def _any_of(*keys: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset([key]) for key in keys)


def _both(pattern: str, names: str) -> str:
    """The pattern for each of the names and for both kinds of core."""
    return ",".join(pattern.format(core, name) for core in ("aic", "aiv") for name in names.split())


BASIC_INFO = Format(
    kind=FileKind.OP_BASIC_INFO,
    source=_SOURCE,
    columns=(
        "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,"
        "Rated Freq",
    ),
    simulated=("Task Cycles",),
    needs=("op_name", "op_type", "task_duration_us", "block_dim"),
    tells=(
        frozenset({"op_name", "task_duration_us", "current_freq"}),
        frozenset({"op_name", "task_duration_us", "pid"}),
    ),
)

METRIC_FORMATS = (
    Format(
        kind=FileKind.PIPE,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_{}_time(us)", _PIPES),
            _both("{}_{}_ratio", _PIPES),
            _both("{}_{}_active_bw(GB/s)", "mte1 mte2 mte3 fixpipe"),
            _both("{}_{}", "icache_miss_rate"),
            # since CANN 9.0
            _both("{}_scalar_{}_time(us)", "single dual wait wait_ib stall_by_ub"),
            _both("{}_scalar_{}_stall_time(us)", "mte1 mte2 mte3 cube vector"),
            _both("{}_scalar_wait_id{}_time(us)", " ".join(map(str, range(16)))),
        ),
        simulated=tuple(_both(f"{{}}_{{}}_{what}", _PIPES) for what in ("cycles", "instructions")),
        needs=("aic_time_us",),
        tells=_any_of(
            "aic_icache_miss_rate",
            "aiv_icache_miss_rate",
            "aic_scalar_time_us",
            "aic_scalar_cycles",
        ),
    ),
    Format(
        kind=FileKind.ARITHMETIC,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_cube_{}", "ratio fp16_ratio int8_ratio fp_ratio int_ratio fops"),
            _both("{}_cube_{}_instr_number", "total fp int"),
            _both("{}_vec_{}", "ratio fp32_ratio fp16_ratio int32_ratio int16_ratio misc_ratio"),
            _both("{}_vec_{}", "fops vf_ratio sfu_ratio simt_vf_ratio"),
        ),
        needs=("aic_time_us",),
        tells=_any_of(
            "aic_cube_fp16_ratio",
            "aic_cube_fp_ratio",
            "aiv_vec_fp32_ratio",
            "aiv_vec_vf_ratio",
            "aic_vec_fp32_ratio",
        ),
    ),
    Format(
        kind=FileKind.L2_CACHE,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_{}_cache_hit", "write r0_read r1_read"),
            _both("{}_{}_cache_miss_allocate", "write r0_read r1_read"),
            _both("{}_{}_hit_rate(%)", "write read total"),
            _both("{}_read_{}", "close_hit close_miss close_victim far_hit far_miss far_victim"),
            _both("{}_write_{}", "close_hit close_miss close_victim far_hit far_miss far_victim"),
            "aic_l2_cache_hit_rate(%)",
        ),
        needs=(),
        tells=_any_of(
            "aic_read_hit_rate_pct",
            "aiv_read_hit_rate_pct",
            "aic_total_hit_rate_pct",
            "aic_l2_cache_hit_rate_pct",
        ),
    ),
    Format(
        kind=FileKind.MEMORY,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_{}_bw(GB/s)", "l1_read l1_write main_mem_read main_mem_write"),
            _both("{}_{}_bw(GB/s)", "ub_to_gm gm_to_ub"),
            _both("{}_{}", "mte1_instructions mte2_instructions mte3_instructions"),
            _both("{}_{}", "mte1_ratio mte2_ratio mte3_ratio"),
            "read_main_memory_datas(KB),write_main_memory_datas(KB)",
            ",".join(
                f"{path}_datas(KB),{path}_bw_usage_rate(%)"
                for path in [
                    "GM_to_L1",
                    "L1_to_GM",
                    "L0C_to_L1",
                    "L0C_to_GM",
                    "GM_to_UB",
                    "UB_to_GM",
                    "L1_to_UB",
                    "UB_to_L1",
                    "L0C_to_UB",
                ]
            ),
            "L1_to_GM_datas(KB)(estimate),L1_to_GM_bw_usage_rate(%)(estimate)",
        ),
        needs=("aic_time_us",),
        tells=_any_of(
            "aic_main_mem_read_bw_gbps", "aiv_main_mem_read_bw_gbps", "gm_to_ub_datas_kb"
        ),
    ),
    Format(
        kind=FileKind.MEMORY_L0,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_{}_bw(GB/s)", "l0a_read l0a_write l0b_read l0b_write l0c_read l0c_write"),
            _both("{}_l0c_{}_bw_cube(GB/s)", "read write"),
        ),
        needs=("aic_time_us",),
        tells=_any_of("aic_l0a_read_bw_gbps"),
    ),
    Format(
        kind=FileKind.MEMORY_UB,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_ub_read_bw_{}(GB/s)", "vector scalar gm"),
            _both("{}_ub_write_bw_{}(GB/s)", "vector scalar gm"),
        ),
        needs=("aic_time_us",),
        tells=_any_of("aiv_ub_read_bw_vector_gbps", "aic_ub_read_bw_vector_gbps"),
    ),
    Format(
        kind=FileKind.CONFLICT,
        source=_SOURCE,
        columns=(
            _BLOCK,
            _both("{}_{}_wait_ratio", "cube vec mte1 mte2 mte3"),
            _both("{}_vec_{}_cflt_ratio", "total bankgroup bank resc mte stu ldu sfu"),
        ),
        needs=("aic_time_us",),
        tells=_any_of(
            "aic_cube_wait_ratio",
            "aiv_vec_wait_ratio",
            "aiv_vec_total_cflt_ratio",
            "aic_vec_total_cflt_ratio",
            "aiv_vec_bank_cflt_ratio",
            "aic_vec_bank_cflt_ratio",
        ),
    ),
)
