"""An operator's own formulas beside what a profile of it counted.

A profile of `ascend_infer.operator_launch` says in its manifest which operator and workload it is
of; for all others there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kernels_npu.evidence import Evidence
from kernels_npu.spec import ITEMSIZE, OPERATORS, all_specs, kernel_name
from profiling.analysis import Sentence, longest_launches, traffic_of
from profiling.analysis.figures import number
from profiling.records import FileKind, OpProfile, Profile
from profiling.records.table import Figure

if TYPE_CHECKING:
    from kernels_npu.spec import OpSpec, Workload

#: The program whose command line names operator and workload.
_PROGRAM = "ascend_infer.operator_launch"
#: Ours: an implementation that moves more than this many times what it has to is worth a look.
_MUCH_MORE = 1.25
_OPERATIONS = ("aic_cube_fops", "aiv_vec_fops", "aic_vec_fops")


def formula_sentences(profile: Profile) -> list[Sentence]:
    """Bytes and operations of the operators' kernels against those of their formulas."""
    commands = [m.command for m in profile.manifests if _PROGRAM in m.command]
    told: list[Sentence] = []
    for command in dict.fromkeys(commands):
        launched = _launched(command)
        if launched is None:
            continue
        spec, workload, dtype = launched
        for kernel in longest_launches(profile):
            if kernel.name == spec.name or kernel.name.startswith(kernel_name(spec.name)):
                told += _beside(kernel, spec, workload, dtype)
    return told


def _launched(command: Sequence[str]) -> tuple[OpSpec, Workload, str] | None:
    """What a command line launches; None for what this version does not know."""
    operator, dtype = _option(command, "op"), _option(command, "dtype") or "float16"
    if operator not in OPERATORS or dtype not in ITEMSIZE or find_spec("torch") is None:
        return None
    spec, case = all_specs()[operator], _option(command, "case")
    workloads = (w for w in spec.workloads if case in (None, w.name))
    return next(((spec, workload, dtype) for workload in workloads), None)


def _option(command: Sequence[str], name: str) -> str | None:
    """The value of `--name VALUE` or `--name=VALUE` behind the program."""
    words = command[command.index(_PROGRAM) + 1 :]
    for word, following in zip(words, (*words[1:], "")):
        if word == f"--{name}":
            return following
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return None


def _beside(kernel: OpProfile, spec: OpSpec, workload: Workload, dtype: str) -> Iterator[Sentence]:
    traffic = traffic_of(kernel)
    if traffic is None:
        return
    least, flops = spec.min_bytes(workload, dtype), spec.flops(workload)
    share = traffic.total / least
    counted = [f for key in _OPERATIONS for _, f in kernel.figures(FileKind.ARITHMETIC, key)]
    operations = sum(map(number, counted))
    by_lanes = f"; its units made {operations / flops:.2f} times as many" if counted else ""
    where = traffic.whole.where
    formulas = (("min_bytes", least, "B"), ("flops", flops, ""))
    yield Sentence(
        topic="formula",
        text=f"{spec.name}, {workload.name}, {dtype}: {traffic.total:,.0f} B moved, {share:.2f} "
        f"times the {least:,} B that any implementation has to; {flops:,} operations by formula, "
        f"{flops / least:.3g} per byte{by_lanes}",
        rule="the operator's specification: each argument once where the algorithm allows it, a "
        "multiply-add as two operations; units work on whole repeats and fractals. Over "
        f"{_MUCH_MORE} times the bytes is reported",
        refs=(
            traffic.whole,
            *(
                Figure(key=key, value=value, unit=unit, evidence=Evidence.MODELLED, where=where)
                for key, value, unit in formulas
            ),
            *([max(counted, key=number)] if counted else []),
        ),
        flagged=share > _MUCH_MORE,
    )
