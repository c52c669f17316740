"""The launches of a profile, added up by kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels_npu.evidence import Evidence
from profiling.analysis.figures import amount, number
from profiling.analysis.sentence import Sentence
from profiling.analysis.traffic import traffic_of
from profiling.records.kernel import OpProfile
from profiling.records.profile import Profile
from profiling.records.table import Figure

#: How long a launch took: columns of OpBasicInfo.
LENGTHS = ("task_duration_us", "task_cycles")


@dataclass(frozen=True, kw_only=True)
class KernelTotal:
    """All launches of one kernel whose figures are known in the same way.

    Args:
        name: of the kernel.
        evidence: of its bytes; of its length where it has no bytes.
        launches: how many.
        gm_bytes: between its cores and global memory; None where no launch has them.
        length: of all launches together; None where no launch has one.
        unit: of the length: `us`, or `cycles` of a model.
        most_bytes: of the launch that moved most.
        longest: of the launch that took longest.
    """

    name: str
    evidence: Evidence
    launches: int
    gm_bytes: float | None
    length: float | None
    unit: str
    most_bytes: Figure | None
    longest: Figure | None


def kernel_totals(profile: Profile) -> list[KernelTotal]:
    """One total per kernel and evidence level, the one with the most bytes first."""
    groups: dict[tuple[str, Evidence], list[OpProfile]] = defaultdict(list)
    for kernel in profile.kernels:
        groups[kernel.name, _evidence(kernel)].append(kernel)
    totals = [_total(name, level, kernels) for (name, level), kernels in groups.items()]
    return sorted(totals, key=lambda t: (-(t.gm_bytes or 0.0), -(t.length or 0.0), t.name))


def longest_launches(profile: Profile) -> list[OpProfile]:
    """Of each kernel the launch that took longest, in the order of `kernel_totals`."""
    launches: dict[tuple[str, Evidence], OpProfile] = {}
    for kernel in profile.kernels:
        key = (kernel.name, _evidence(kernel))
        best = launches.get(key)
        if best is None or number(_length_of(kernel)) > number(_length_of(best)):
            launches[key] = kernel
    return [launches[total.name, total.evidence] for total in kernel_totals(profile)]


def profile_sentences(profile: Profile) -> list[Sentence]:
    """What several launches say together: which kernel moves most, which takes longest."""
    totals = kernel_totals(profile)
    told: list[Sentence] = []
    for level in dict.fromkeys(total.evidence for total in totals):
        ours = [total for total in totals if total.evidence is level]
        told += [*_most_bytes(ours, profile), *_longest(ours)]
    return told


def _total(name: str, level: Evidence, kernels: Sequence[OpProfile]) -> KernelTotal:
    moved = [t.whole for kernel in kernels if (t := traffic_of(kernel)) is not None]
    lengths = [f for f in map(_length_of, kernels) if f is not None]
    return KernelTotal(
        name=name,
        evidence=level,
        launches=len(kernels),
        gm_bytes=sum(map(number, moved)) if moved else None,
        length=sum(map(number, lengths)) if lengths else None,
        unit=lengths[0].unit if lengths else "",
        most_bytes=max(moved, key=number, default=None),
        longest=max(lengths, key=number, default=None),
    )


def _evidence(kernel: OpProfile) -> Evidence:
    return next(iter(kernel.tables.values())).columns[0].evidence


def _length_of(kernel: OpProfile) -> Figure | None:
    return next((f for key in LENGTHS if (f := kernel.info_figure(key)) is not None), None)


def _most_bytes(totals: Sequence[KernelTotal], profile: Profile) -> Iterator[Sentence]:
    moving = [total for total in totals if total.gm_bytes]
    if sum(total.launches for total in moving) < 2:
        return
    whole, most = sum(total.gm_bytes or 0.0 for total in moving), moving[0]
    figure, moved = most.most_bytes, most.gm_bytes or 0.0
    if figure is None:
        return
    yield Sentence(
        topic="bytes",
        text=f"{most.name} moves most bytes of global memory: {moved:,.0f} of {whole:,.0f} B "
        f"({moved / whole:.1%}) in {_launches(most)}",
        rule="Memory, added up over cores and launches" + _not_counted(profile),
        refs=(_sum_of(figure, "gm_bytes", moved), figure),
    )


def _longest(totals: Sequence[KernelTotal]) -> Iterator[Sentence]:
    timed = [total for total in totals if total.length]
    if sum(total.launches for total in timed) < 2:
        return
    most = max(timed, key=lambda total: total.length or 0.0)
    whole = sum(total.length or 0.0 for total in timed if total.unit == most.unit)
    figure, length = most.longest, most.length or 0.0
    if figure is None:
        return
    modelled = most.unit == "cycles"
    yield Sentence(
        topic="length",
        text=f"{most.name} takes longest: {amount(length, most.unit)} of "
        f"{amount(whole, most.unit)} ({length / whole:.1%}) in {_launches(most)}",
        rule="modelled cycles of launches one after another, never a time"
        if modelled
        else "task durations added up",
        refs=(_sum_of(figure, "length", length), figure),
    )


def _launches(total: KernelTotal) -> str:
    return f"{total.launches} launch{'es' * (total.launches != 1)}"


def _not_counted(profile: Profile) -> str:
    """What a simulated run did that is not in its profile."""
    told = ""
    for settings in (manifest.settings for manifest in profile.manifests):
        if settings.get("launches_left_out", "0") != "0":
            told += f"; {settings['launches_left_out']} later launches are not in the profile"
        if "operators_not_counted" in settings:
            told += (
                "; PyTorch's operators are no launches and not counted: "
                f"{settings['operators_not_counted']}"
            )
    return told


def _sum_of(part: Figure, key: str, value: float) -> Figure:
    """A sum over launches, of which `part` is one."""
    return Figure(key=key, value=value, unit=part.unit, evidence=part.evidence, where=part.where)
