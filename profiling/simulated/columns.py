"""Which columns of `msprof op` a simulated launch can fill, and with what.

A column of one kind of core is NA in the rows of the other, as in the device's files; a column of
time is NA everywhere. Names that the device's files do not have are `SIMULATED` in
`profiling.files.op_formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

from kernels_npu.sim.machine.core_counters import CORES, CoreCounters, Work
from profiling.records.quantity import Value
from profiling.records.table import FileKind

#: The simulator's pipes under the profiler's names, for each kind of core.
PIPES = {
    "aic": {
        "M": "cube",
        "S": "scalar",
        "MTE1": "mte1",
        "MTE2": "mte2",
        "MTE3": "mte3",
        "FIX": "fixpipe",
    },
    "aiv": {"V": "vec", "S": "scalar", "MTE2": "mte2", "MTE3": "mte3"},
}
#: Paths that a kind of core has; a path of its own that moved nothing is 0.
PATHS = {"aic": ("GM->L1", "L0C->GM"), "aiv": ("GM->UB", "UB->GM")}
#: The dtypes behind a ratio; what is in none of them is `misc`.
_DTYPES: dict[str, dict[str, tuple[str, ...]]] = {
    "aic": {"cube_fp16": ("float16", "bfloat16"), "cube_int8": ("int8", "uint8")},
    "aiv": {
        "vec_fp32": ("float32",),
        "vec_fp16": ("float16",),
        "vec_int32": ("int32", "uint32"),
        "vec_int16": ("int16", "uint16"),
    },
}


Count = Callable[[CoreCounters], int]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A column and how a core's counters fill it; `side` is empty for columns of all cores."""

    name: str
    value: Callable[[CoreCounters], Value]
    side: str = ""

    def of(self, core: CoreCounters) -> Value:
        """The cell of a core; None, the profiler's NA, in rows of the other kind of core."""
        return self.value(core) if self.side in ("", side_of(core)) else None


def side_of(core: CoreCounters) -> str:
    """`aic` or `aiv`."""
    return "aiv" if core.core else "aic"


def columns_of(kind: FileKind, paths: Iterable[str]) -> tuple[Filled, ...]:
    """The columns of a metric file; `paths` are those on which the launch moved bytes."""
    sides = {FileKind.PIPE: _pipes, FileKind.ARITHMETIC: _arithmetic, FileKind.MEMORY: _moves}
    found = [
        Filled(name="block_id", value=lambda core: core.block),
        Filled(name="sub_block_id", value=lambda core: CORES[core.core]),
    ]
    for side in PIPES:
        found += [
            Filled(name=f"{side}_time(us)", value=lambda _: None),
            Filled(name=f"{side}_total_cycles", value=lambda core: core.total_cycles, side=side),
            *sides[kind](side),
        ]
    if kind is FileKind.MEMORY:
        found += _volumes(paths)
    return tuple(found)


def _pipes(side: str) -> Iterator[Filled]:
    for pipe, name in PIPES[side].items():
        yield _cell(side, f"{name}_cycles", _cycles(pipe))
        yield _ratio(side, name, _cycles(pipe))
        yield _cell(side, f"{name}_instructions", _instructions(pipe))


def _moves(side: str) -> Iterator[Filled]:
    for pipe, name in PIPES[side].items():
        if name.startswith("mte"):
            yield _cell(side, f"{name}_instructions", _instructions(pipe))
            yield _ratio(side, name, _cycles(pipe))


def _volumes(paths: Iterable[str]) -> Iterator[Filled]:
    owners = {path: side for side, own in PATHS.items() for path in own}
    for path in dict.fromkeys((*owners, *paths)):
        name = f"{path.replace('->', '_to_')}_datas(KB)"
        yield Filled(name=name, value=_kib(path), side=owners.get(path, ""))


def _arithmetic(side: str) -> Iterator[Filled]:
    unit, pipe = ("cube", "M") if side == "aic" else ("vec", "V")
    yield _ratio(side, unit, _cycles(pipe))
    for name, dtypes in _DTYPES[side].items():
        yield _ratio(side, name, _work_cycles(dtypes))
    if side == "aiv":
        named = frozenset(dtype for dtypes in _DTYPES[side].values() for dtype in dtypes)
        whole, known = _cycles(pipe), _work_cycles(named)
        yield _ratio(side, "vec_misc", lambda core: whole(core) - known(core))
    yield _cell(side, f"{unit}_fops", lambda core: _work(core, core.arithmetic).operations)
    if side == "aic":
        yield _cell(side, "cube_total_instr_number", _instructions(pipe))
        yield _cell(side, "cube_fp_instr_number", lambda core: _products(core, integer=False))
        yield _cell(side, "cube_int_instr_number", lambda core: _products(core, integer=True))


def _cycles(pipe: str) -> Count:
    return lambda core: core.cycles.get(pipe, 0)


def _instructions(pipe: str) -> Count:
    return lambda core: core.instructions.get(pipe, 0)


def _kib(path: str) -> Callable[[CoreCounters], Value]:
    return lambda core: core.gm_paths.get(path, 0) / 1024


def _work_cycles(dtypes: Container[str]) -> Count:
    return lambda core: _work(core, dtypes).cycles


def _products(core: CoreCounters, *, integer: bool) -> int:
    dtypes = [dtype for dtype in core.arithmetic if ("int" in dtype) == integer]
    return _work(core, dtypes).instructions


def _work(core: CoreCounters, dtypes: Container[str]) -> Work:
    """The arithmetic of a core in some dtypes."""
    return sum((work for dtype, work in core.arithmetic.items() if dtype in dtypes), Work())


def _cell(side: str, name: str, value: Count) -> Filled:
    return Filled(name=f"{side}_{name}", value=value, side=side)


def _ratio(side: str, name: str, cycles: Count) -> Filled:
    """A share of the core's own cycles; NA when the launch was not traced."""

    def share(core: CoreCounters) -> Value:
        return round(cycles(core) / core.total_cycles, 6) if core.total_cycles else None

    return Filled(name=f"{side}_{name}_ratio", value=share, side=side)
