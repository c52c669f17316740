"""The files of one launch as msopprof writes them on A2 and A3: its headers, made-up figures."""

from __future__ import annotations

from collections.abc import Iterator

from tests.profiling import fixtures

_CORES = "block_id,sub_block_id,aic_time(us),aic_total_cycles"
HEADERS = {
    "ArithmeticUtilization": f"{_CORES},aic_cube_ratio,aic_cube_fp16_ratio,aic_cube_int8_ratio,"
    "aic_cube_fops,aic_cube_total_instr_number,aic_cube_fp_instr_number,aic_cube_int_instr_number,"
    "aiv_time(us),aiv_total_cycles,aiv_vec_ratio,aiv_vec_fp32_ratio,aiv_vec_fp16_ratio,"
    "aiv_vec_int32_ratio,aiv_vec_int16_ratio,aiv_vec_misc_ratio,aiv_vec_fops",
    "MemoryL0": f"{_CORES},aic_l0a_read_bw(GB/s),aic_l0a_write_bw(GB/s),aic_l0b_read_bw(GB/s),"
    "aic_l0b_write_bw(GB/s),aic_l0c_read_bw_cube(GB/s),aic_l0c_write_bw_cube(GB/s),aiv_time(us),"
    "aiv_total_cycles",
    "MemoryUB": f"{_CORES},aiv_time(us),aiv_total_cycles,aiv_ub_read_bw_vector(GB/s),"
    "aiv_ub_write_bw_vector(GB/s),aiv_ub_read_bw_scalar(GB/s),aiv_ub_write_bw_scalar(GB/s)",
    "ResourceConflictRatio": f"{_CORES},aic_cube_wait_ratio,aic_mte1_wait_ratio,"
    "aic_mte2_wait_ratio,aic_mte3_wait_ratio,aiv_time(us),aiv_total_cycles,"
    "aiv_vec_total_cflt_ratio,aiv_vec_bankgroup_cflt_ratio,aiv_vec_bank_cflt_ratio,"
    "aiv_vec_resc_cflt_ratio,aiv_vec_mte_cflt_ratio,aiv_vec_wait_ratio,aiv_mte2_wait_ratio,"
    "aiv_mte3_wait_ratio",
}
#: Files of a chip with one kind of core.
_OF_310P = {
    "OpBasicInfo": fixtures.BASIC_INFO_310P,
    "PipeUtilization": fixtures.PIPE_310P,
    "L2Cache": fixtures.L2_310P,
}
_OF_A2 = {
    "OpBasicInfo": fixtures.BASIC_INFO,
    "PipeUtilization": fixtures.PIPE,
    "L2Cache": fixtures.L2,
    "Memory": fixtures.MEMORY,
}
_OF_950 = {**_OF_A2, "L2Cache": fixtures.L2_950}
#: Names in the fixtures, in whose place the kernel's stands.
_NAMES = ("rms_norm_kernel_mix_aic", "rms_norm_kernel")


def launch_files(kernel: str, chip: str) -> dict[str, str]:
    """Metric -> text, for one launch of `kernel`."""
    if chip == "310P":
        files = dict(_OF_310P)
    else:
        files = {
            **(_OF_950 if chip == "950" else _OF_A2),
            **{name: _filled(header) for name, header in HEADERS.items()},
        }
    for name in _NAMES:
        basic = files["OpBasicInfo"].replace(name, kernel)
        if basic != files["OpBasicInfo"]:
            return {**files, "OpBasicInfo": basic}
    raise AssertionError("the fixture has another name")


def _filled(header: str) -> str:
    """Two blocks of a cube and two vector cores; what a core does not have is NA."""
    lines = [header + ","]
    for block in range(2):
        for number, core in enumerate(("cube0", "vector0", "vector1")):
            lines.append(",".join(_row(header, block, core, number)) + ",")
    return "\n".join(lines) + "\n"


def _row(header: str, block: int, core: str, number: int) -> Iterator[str]:
    own = "aic_" if core == "cube0" else "aiv_"
    for place, column in enumerate(header.split(",")):
        if column == "block_id":
            yield str(block)
        elif column == "sub_block_id":
            yield core
        elif not column.startswith(own):
            yield "NA"
        elif column.endswith("_ratio"):
            yield f"{(place + number) % 10 / 10:.6f}"
        else:
            yield str(100 * (block + 1) + place + number)
