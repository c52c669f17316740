"""A simulated launch as the record of a launch that `msprof op` measured."""

from __future__ import annotations

from collections.abc import Sequence

from kernels_npu.evidence import Evidence
from kernels_npu.sim.machine.compiled import LaunchRecord
from kernels_npu.sim.soc import get_soc
from profiling.files.catalogue import format_of
from profiling.records.kernel import OpProfile, info_of
from profiling.records.quantity import Value
from profiling.records.table import FileKind, Row, Table
from profiling.simulated.columns import columns_of

_METRICS = (FileKind.PIPE, FileKind.ARITHMETIC, FileKind.MEMORY)


def kernel_of(record: LaunchRecord, number: int) -> OpProfile:
    """The tables of a launch that was counted per core (`SimConfig.count_cores`).

    number: of the launch among those of its kernel; with the kernel's name it is the folder.
    """
    folder = f"{record.kernel}/{number}"
    basic = _basic_info(record, folder)
    tables = {FileKind.OP_BASIC_INFO: basic}
    paths = dict.fromkeys(path for core in record.cores for path in core.gm_paths)
    for kind in _METRICS if record.cores else ():
        columns = columns_of(kind, paths)
        rows = [[column.of(core) for column in columns] for core in record.cores]
        tables[kind] = _table(kind, folder, [column.name for column in columns], rows)
    return OpProfile(folder=folder, info=info_of(basic), tables=tables)


def _basic_info(record: LaunchRecord, folder: str) -> Table:
    """The adapter launches every kernel as a mix of cube and vector cores, whichever it uses."""
    cells: dict[str, Value] = {
        "Op Name": record.kernel,
        "Op Type": "mix",
        "Task Duration(us)": None,
        "Block Dim": record.blocks,
        "Mix Block Dim": record.blocks * record.vector_cores,
        "Device Id": None,
        "Pid": None,
        "Current Freq": None,
        "Rated Freq": get_soc(record.soc).clock_mhz,
        "Task Cycles": record.critical_path,
    }
    return _table(FileKind.OP_BASIC_INFO, folder, list(cells), [list(cells.values())])


def _table(
    kind: FileKind, folder: str, names: Sequence[str], rows: Sequence[Sequence[Value]]
) -> Table:
    format = format_of(list(names), str(kind))
    columns = tuple(format.column(name, Evidence.SIMULATED) for name in names)
    index = {column.key: place for place, column in enumerate(columns)}
    return Table(
        kind=format.kind,
        file=f"{folder}/{kind}.csv",
        columns=columns,
        # The file's first line has the names.
        rows=tuple(Row(line, tuple(cells), index) for line, cells in enumerate(rows, start=2)),
    )
