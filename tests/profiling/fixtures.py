"""Profiler files in miniature: the headers and quirks of real ones, with made-up figures."""

from __future__ import annotations

from pathlib import Path

BASIC_INFO = (
    "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,"
    "Rated Freq,\n"
    "rms_norm_kernel_mix_aic,mix,12.250000,2,4,0,NA,1650,1800,\n"
)
BASIC_INFO_310P = (
    "Op Name,Op Type,Task Duration(us),Block Dim,Device Id,Pid,Current Freq,Rated Freq,\n"
    "rms_norm_kernel,AiCore,33.5,8,1,4711,1060,1060,\n"
)

#: Scalar columns in the middle: CANN 8.3 and 8.5.
PIPE = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,"
    "aic_scalar_time(us),aic_scalar_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_icache_miss_rate,"
    "aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),"
    "aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_icache_miss_rate,\n"
    "0,cube0,4.000000,6600,1.000000,0.081633,2.000000,0.163265,0.500000,0.040816,0.250000,"
    "NA,NA,NA,NA,NA,NA,NA,NA,NA,\n"
    "0,vector0,NA,NA,NA,NA,NA,NA,NA,NA,NA,10.000000,16500,1.500000,0.122449,3.000000,0.244898,"
    "9.000000,0.734694,0.125000,\n"
    "1,cube0,4.400000,7260,1.100000,0.089796,2.200000,0.179592,0.550000,0.044898,0.200000,"
    "NA,NA,NA,NA,NA,NA,NA,NA,NA,\n"
    "1,vector0,NA,NA,NA,NA,NA,NA,NA,NA,NA,5.000000,8250,1.200000,0.097959,2.500000,0.204082,"
    "4.250000,0.346939,0.150000,\n"
)
#: Scalar columns at the end, with their breakdown: since CANN 9.0.
PIPE_9 = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,"
    "aic_mte1_time(us),aic_mte1_ratio,aic_icache_miss_rate,aic_scalar_time(us),aic_scalar_ratio,"
    "aic_scalar_single_time(us),aic_scalar_mte1_stall_time(us),aic_scalar_wait_id3_time(us),\n"
    "0,cube0,8.500000,15300,6.800000,0.800000,1.700000,0.200000,0.010000,0.850000,0.100000,"
    "0.400000,0.300000,0.050000,\n"
)
#: One kind of core and no blocks.
PIPE_310P = (
    "aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,aic_scalar_time(us),"
    "aic_scalar_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_icache_miss_rate,aic_vec_time(us),"
    "aic_vec_ratio,\n"
    "30.5,32330,0.0,0.0,3.05,0.1,27.45,0.9,0.02,6.1,0.2,\n"
)
#: The same header, and a row without the last comma.
L2 = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_write_cache_hit,"
    "aic_r0_read_cache_hit,aic_write_hit_rate(%),aic_read_hit_rate(%),aic_total_hit_rate(%),"
    "aiv_time(us),aiv_total_cycles,aiv_write_hit_rate(%),aiv_read_hit_rate(%),"
    "aiv_total_hit_rate(%),\n"
    "0,cube0,4.0,6600,3,17,75.5,80.25,79.0,NA,NA,NA,NA,NA\n"
    "0,vector0,NA,NA,NA,NA,NA,NA,NA,10.0,16500,12.5,3.75,4.5\n"
)
L2_950 = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_read_close_hit,aic_read_far_miss,"
    "aic_read_hit_rate(%),\n0,cube0,4.0,6600,120,8,93.75,\n"
)
L2_310P = "aic_l2_cache_hit_rate(%),\n61.5,\n"
MEMORY = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_main_mem_read_bw(GB/s),"
    "aiv_time(us),aiv_total_cycles,aiv_main_mem_read_bw(GB/s),read_main_memory_datas(KB),"
    "L1_to_GM_datas(KB)(estimate),GM_to_UB_datas(KB),GM_to_UB_bw_usage_rate(%),\n"
    "0,cube0,4.0,6600,1.25,NA,NA,NA,16.5,0.5,NA,NA,\n"
    "0,vector0,NA,NA,NA,10.0,16500,98.5,1024.0,NA,960.0,88.5,\n"
)
INSTRUCTIONS = (
    "instr,addr,pipe,call_count,cycles,running_time(us),detail\n"
    'VADD,288401332,VECTOR,8,2944,1.635556,"XD:X16=0x400,XN:X13=0,Dtype:F16,Id:517"\n'
    'SET_FLAG,288400120,MTE2,1,277,0.150000,"PIPE:MTE2,TRIGGERPIPE:SCALAR,FLAGID:0,"\n'
)
KERNEL_DETAILS_0 = (
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\r\n"
    "7,aclnnAdd_Add_Add,N/A,N/A,1736405443881410.320\t,50.621,0,8\r\n"
    "7,Conv2D1,N/A,N/A,1736405443881566.663\t,6.5,105.722,0\r\n"
)
KERNEL_DETAILS_1 = (
    "Step Id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),"
    "Duration(us),Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,"
    "Input Data Types,aicore_time(us),aic_mac_ratio,aiv_time(us)\n"
    '7,4294967295,11,2,trans_TransData_0,TransData,dynamic,AI_VECTOR_CORE,"1736408883704643.212\t"'
    ',20.25,0,32,0,NO,"""32,3,224,224""",FLOAT,0.0,0.0,19.5\n'
    "7,4294967295,12,2,MatMul1,MatMulV2,dynamic,AI_CORE,1736408883704673.462\t,100.5,10.0,16,0,YES,"
    '"""32,3;3,7""",FLOAT;FLOAT,99.75,0.625,0.0\n'
    "7,4294967295,N/A,N/A,hcom_allReduce__1,hcom_allReduce_,N/A,HCCL,1736408883704783.962\t,40.0,"
    "0.5,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A\n"
    "8,4294967295,14,2,cast_1,Cast,dynamic,AI_CPU,1736408883704923.962\t,60.0,100.0,0,0,NO,N/A,"
    "FLOAT,N/A,N/A,N/A\n"
)
OP_SUMMARY = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,aicore_time(us),aic_mac_time(us),"
    "cube_utilization(%)\n"
    "3,4294967295,0,1716,k_main,k_main,dynamic,MIX_AIC,1000000.250,42399.125,0,256,12.75,0.5,"
    "0.029\n"
)
TASK_TIME = (
    "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),"
    "task_stop(us)\n"
    "0,N/A,PROFILING_ENABLE,1714,4,0.020,900000.000,900000.020\n"
    "0,k_main,MIX_AIC,1716,0,401.720,1000000.000,1000401.720\n"
)
OP_STATISTIC = (
    "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),"
    "Ratio(%)\n0,TransData,AI_VECTOR_CORE,57,1423.208,6.54,24.969,70.801,16.038\n"
)
API_STATISTIC = (
    "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
    "host,runtime,DeviceSynchronize,1048955.5,24,43706.5,4.84,209044.42,1380172212.489\n"
)
STEP_TRACE = (
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
    "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\n"
    ",rank,0,8827.472999999998,815.5,40.25,855.75,259.125,9902.25,0.0,815.5,19.5\n"
    ',stage,"(0, 1)",9827.5,815.5,40.25,855.75,259.125,10902.25,0.0,815.5,19.5\n'
)
#: Call stacks are cells of many lines.
OPERATOR_DETAILS = (
    "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),"
    "Device Self Duration(us),Device Total Duration(us),Device Self Duration With AICore(us),"
    "Device Total Duration With AICore(us)\n"
    'aten::add,"3,4;3,4","model.py(7): forward;\nrun.py(12): <module>;\n\nrun.py(1): main"'
    ",5.5,7.25,1.5,1.75,1.5,1.75\n"
    'aten::relu,";\n;\n;",,2.5,3.0,0,0,0,0\n'
)
OPERATOR_MEMORY = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),"
    "Allocation Total Allocated(MB),Stream Ptr,Device Type\n"
    "aten::empty,192.5,1706704429088523.015\t,,,954.375,94509039890976,NPU:0\n"
)
MEMORY_RECORD = (
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\n"
    "APP,1736405443756384.100\t,,2109.625,NPU:0\n"
)
MODULE_MEMORY = (
    "Component,Timestamp(us),Total Reserved(MB),Device\nSLOG,1724670453385978.290\t,0.5,NPU:0\n"
)
STATIC_MEMORY = (
    "Device_id,Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)\n"
    "host,sqrt_01,0,0,31,32,2343.75\n"
)
L2_OF_TASKS = (
    "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n2,11054,N/A,0.066608,trans_TransData_1\n"
)
TRACE = (
    '[{"ph":"M","name":"process_name","pid":5,"tid":0,"args":{"name":"Ascend Hardware"}},\n'
    '{"ph":"M","name":"thread_name","pid":5,"tid":2,"args":{"name":"Stream 2"}},\n'
    '{"ph":"X","name":"MatMulV2","pid":5,"tid":2,"ts":"1736405443881410.320","dur":12.5},\n'
    '{"ph":"X","name":"Add","pid":5,"tid":2,"ts":"1736405443881430.000","dur":2},\n'
    '{"ph":"s","name":"flow","pid":5,"tid":2,"ts":1}]\n'
)
SIMULATOR_TRACE = (
    '{"traceEvents":[{"ph":"X","name":"VADD","pid":"core0.veccore1","tid":"VECTOR","ts":0.5,'
    '"dur":1.25}]}'
)

#: A tree of one kernel, with everything flat in the root.
FLAT = {
    "OpBasicInfo.csv": BASIC_INFO,
    "PipeUtilization.csv": PIPE,
    "L2Cache.csv": L2,
    "Memory.csv": MEMORY,
}
#: All kinds of files by themselves.
ALL = {
    **FLAT,
    "PipeUtilization_20260605155158123.csv": PIPE_9,
    "simulator/core0.veccore0/core0.veccore0_instr_exe.csv": INSTRUCTIONS,
    "simulator/trace.json": SIMULATOR_TRACE,
    "kernel_details.csv": KERNEL_DETAILS_1,
    "level0/kernel_details.csv": KERNEL_DETAILS_0,
    "op_summary_20260605155158.csv": OP_SUMMARY,
    "task_time_20260605155158.csv": TASK_TIME,
    "op_statistic.csv": OP_STATISTIC,
    "api_statistic.csv": API_STATISTIC,
    "step_trace_time.csv": STEP_TRACE,
    "operator_details.csv": OPERATOR_DETAILS,
    "operator_memory.csv": OPERATOR_MEMORY,
    "memory_record.csv": MEMORY_RECORD,
    "npu_module_mem.csv": MODULE_MEMORY,
    "static_op_mem.csv": STATIC_MEMORY,
    "l2_cache.csv": L2_OF_TASKS,
    "trace_view.json": TRACE,
}


def write(folder: Path, files: dict[str, str] | dict[str, bytes]) -> Path:
    """The files below `folder`, byte for byte."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
