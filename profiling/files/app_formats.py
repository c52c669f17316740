"""Files of whole-application msprof, of torch_npu's profiler, and of `msprof op simulator`."""

from __future__ import annotations

from kernels_npu.evidence import Evidence
from profiling.files.formats import Format
from profiling.records.quantity import Quantity
from profiling.records.table import FileKind

_MSPROF = "msprof's text output (mindstudio_profiler_output)"
_TORCH = "torch_npu.profiler, _csv_headers.py"
_SIMULATOR = "Ascend/msopprof, simulator output"

#: Columns of a kernel in both op_summary and kernel_details.
_KERNEL = (
    "Device_id,Model ID,Task ID,Stream ID,OP State,Block Dim,Mix Block Dim,HF32 Eligible,"
    "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,"
    "Context ID"
)
_CORES = ("aic", "aiv")


def _cores(names: str) -> str:
    return ",".join(f"{core}_{name}" for core in _CORES for name in names.split())


#: Metrics of a kernel, one group for each --aic-metrics.
_METRICS = (
    _cores("time(us) total_cycles icache_miss_rate"),
    _cores(
        " ".join(
            f"{pipe}_time(us) {pipe}_ratio"
            for pipe in ["mac", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe"]
        )
    ),
    _cores("mac_fp16_ratio mac_int8_ratio cube_fops vector_fops"),
    _cores("vec_fp32_ratio vec_fp16_ratio vec_int32_ratio vec_misc_ratio"),
    _cores("l0a_read_bw(GB/s) l0a_write_bw(GB/s) l0b_read_bw(GB/s) l0b_write_bw(GB/s)"),
    _cores("l0c_read_bw_cube(GB/s) l0c_write_bw_cube(GB/s) l0c_read_bw(GB/s) l0c_write_bw(GB/s)"),
    _cores("l1_read_bw(GB/s) l1_write_bw(GB/s) main_mem_read_bw(GB/s) main_mem_write_bw(GB/s)"),
    _cores("ub_read_bw(GB/s) ub_write_bw(GB/s) l2_read_bw(GB/s) l2_write_bw(GB/s)"),
    _cores("ub_read_bw_mte(GB/s) ub_write_bw_mte(GB/s) ub_read_bw_vector(GB/s)"),
    _cores("ub_write_bw_vector(GB/s) ub_read_bw_scalar(GB/s) ub_write_bw_scalar(GB/s)"),
    _cores("vec_bankgroup_cflt_ratio vec_bank_cflt_ratio vec_resc_cflt_ratio"),
    _cores("write_cache_hit write_cache_miss_allocate r0_read_cache_hit r1_read_cache_hit"),
    _cores("r0_read_cache_miss_allocate r1_read_cache_miss_allocate"),
    "cube_utilization(%)",
)

_STEP = (
    "Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)

APP_FORMATS = (
    Format(
        kind=FileKind.KERNEL_DETAILS,
        source=_TORCH,
        columns=(
            _KERNEL,
            "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)",
            *_METRICS,
        ),
        needs=("op_name", "core", "start_us", "duration_us"),
        tells=(
            frozenset({"op_name", "duration_us", "core"}),
            frozenset({"op_name", "duration_us", "start_us"}),
        ),
        renames={
            "name": "op_name",
            "type": "op_type",
            "accelerator_core": "core",
            "start_time_us": "start_us",
            "wait_time_us": "wait_us",
        },
    ),
    Format(
        kind=FileKind.OP_SUMMARY,
        source=_MSPROF,
        columns=(
            _KERNEL,
            "Step Id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),"
            "Task Wait Time(us)",
            *_METRICS,
        ),
        needs=("op_name", "core", "start_us", "duration_us"),
        tells=(
            frozenset({"op_name", "duration_us", "core"}),
            frozenset({"op_name", "duration_us", "start_us"}),
        ),
        renames={
            "task_type": "core",
            "task_start_time_us": "start_us",
            "start_time_us": "start_us",
            "task_duration_us": "duration_us",
            "task_wait_time_us": "wait_us",
        },
    ),
    Format(
        kind=FileKind.TASK_TIME,
        source=_MSPROF,
        columns=(
            "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),"
            "task_stop(us)",
        ),
        needs=("op_name", "start_us", "duration_us"),
        tells=(frozenset({"op_name", "duration_us", "stop_us"}),),
        renames={
            "kernel_name": "op_name",
            "kernel_type": "core",
            "task_time_us": "duration_us",
            "task_start_us": "start_us",
            "task_start_time_us": "start_us",
            "task_stop_us": "stop_us",
            "task_stop_time_us": "stop_us",
        },
        quantities={"stop_us": Quantity.TIMESTAMP},
    ),
    Format(
        kind=FileKind.OP_STATISTIC,
        source=_MSPROF,
        columns=(
            "Device_id,Model Name,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),"
            "Max Time(us),Ratio(%)",
        ),
        needs=("op_type", "core_type", "count", "total_time_us"),
        tells=(frozenset({"op_type", "core_type", "count"}),),
    ),
    Format(
        kind=FileKind.API_STATISTIC,
        source=_MSPROF,
        columns=("Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",),
        needs=("level", "api_name", "time_us", "count"),
        tells=(frozenset({"api_name", "time_us"}),),
    ),
    Format(
        kind=FileKind.STEP_TRACE,
        source=_TORCH,
        columns=("Device_id,Step,Type,Index", _STEP),
        needs=("computing", "free", "stage"),
        tells=(frozenset({"computing", "free", "stage"}), frozenset({"computing", "overlapped"})),
        quantities={
            "step": Quantity.TEXT,
            **dict.fromkeys(
                [
                    "computing",
                    "communication_not_overlapped",
                    "overlapped",
                    "communication",
                    "free",
                    "stage",
                    "bubble",
                    "communication_not_overlapped_and_exclude_receive",
                    "preparing",
                ],
                Quantity.TIME,
            ),
        },
    ),
    Format(
        kind=FileKind.OPERATOR_DETAILS,
        source=_TORCH,
        columns=(
            "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),"
            "Device Self Duration(us),Device Total Duration(us),Device Self Duration With AICore("
            "us),Device Total Duration With AICore(us)",
        ),
        needs=("name", "host_total_duration_us", "device_total_duration_us"),
        tells=(frozenset({"name", "host_self_duration_us"}),),
        multiline=True,
    ),
    Format(
        kind=FileKind.OPERATOR_MEMORY,
        source=_TORCH,
        columns=(
            "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),"
            "Duration(us),Active Duration(us),Stream Ptr,Device Type,Device_id",
            ",".join(
                f"{when} Total {what}(MB)"
                for when in ("Allocation", "Release")
                for what in ("Allocated", "Reserved", "Active")
            ),
        ),
        needs=("name", "size_kb", "allocation_time_us"),
        tells=(frozenset({"name", "size_kb", "allocation_time_us"}),),
        quantities={"stream_ptr": Quantity.TEXT, "device_type": Quantity.TEXT},
    ),
    Format(
        kind=FileKind.MEMORY_RECORD,
        source=_TORCH,
        columns=(
            "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),"
            "Stream Ptr,Device Type,Device_id",
        ),
        needs=("component", "timestamp_us", "total_reserved_mb"),
        tells=(frozenset({"component", "timestamp_us", "total_allocated_mb"}),),
        quantities=dict.fromkeys(("component", "stream_ptr", "device_type"), Quantity.TEXT),
    ),
    Format(
        kind=FileKind.MODULE_MEMORY,
        source=_TORCH,
        columns=("Device_id,Component,Timestamp(us),Total Reserved(MB),Total Reserved(KB),Device",),
        needs=("component", "timestamp_us"),
        tells=(frozenset({"component", "timestamp_us"}),),
        quantities=dict.fromkeys(("component", "device"), Quantity.TEXT),
    ),
    Format(
        kind=FileKind.STATIC_MEMORY,
        source=_TORCH,
        columns=("Device_id,Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)",),
        needs=("op_name", "size_kb"),
        tells=(frozenset({"op_name", "graph_id", "size_kb"}),),
        quantities={"model_name": Quantity.TEXT, "graph_id": Quantity.TEXT},
    ),
    Format(
        kind=FileKind.L2_OF_TASKS,
        source=_MSPROF,
        columns=("Device_id,Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",),
        needs=("op_name", "hit_rate"),
        tells=(frozenset({"stream_id", "task_id", "hit_rate"}),),
    ),
    Format(
        kind=FileKind.INSTRUCTIONS,
        source=_SIMULATOR,
        columns=("instr,addr,pipe,call_count,cycles,running_time(us),detail",),
        needs=("instr", "addr", "pipe", "call_count", "cycles"),
        tells=(frozenset({"instr", "pipe"}), frozenset({"instr", "addr"})),
        evidence=Evidence.MODELLED,
    ),
    Format(
        kind=FileKind.CODE,
        source=_SIMULATOR,
        columns=("code,call_count,cycles,running_time(us)",),
        needs=("code", "call_count", "cycles"),
        tells=(frozenset({"code", "call_count"}),),
        evidence=Evidence.MODELLED,
    ),
)
