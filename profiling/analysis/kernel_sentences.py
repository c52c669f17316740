"""What the figures of one kernel say, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiling.analysis.figures import amount, number
from profiling.analysis.pipes import (
    BUSY_PIPE,
    COMPUTE_PIPES,
    CORES,
    MEMORY_PIPES,
    CoreTime,
    core_times,
    cores_called,
    pipe_use,
)
from profiling.analysis.roofline_sentences import roofline_sentences
from profiling.analysis.sentence import Sentence
from profiling.analysis.usage_sentences import core_usage_sentences, packet_sentences
from profiling.devices import Chip
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind, Row

#: The vendor tool's limits: a slower clock and a wider spread of the cores' times are reported.
SLOW_CLOCK = 0.95
WIDE_SPREAD = 0.10
#: Ours: a tenth of the vector pipe's time lost to conflicts is worth another layout.
MANY_CONFLICTS = 0.10

#: What vector instructions wait for, by the column that counts it, and what helps.
_CONFLICTS = {
    "bankgroup": ("operands in one bank or bank group", "move one operand by 32 bytes"),
    "bank": ("operands in one bank", "move one operand by 32 bytes, or farther away"),
    "resc": ("a unit that another instruction holds", "interleave instructions of other kinds"),
    "mte": ("moves that use UB at the same time", "let loads write another bank, or overlap less"),
}
#: Rates of the L2, and how a sentence calls them; the first of these that a file has are told.
_HIT_RATES = (
    {"total_hit_rate_pct": "hit rates", "l2_cache_hit_rate_pct": "hit rates"},
    {"read_hit_rate_pct": "read hit rates", "write_hit_rate_pct": "write hit rates"},
)


def kernel_sentences(kernel: OpProfile, chip: Chip | None = None) -> list[Sentence]:
    """Everything that can be said about a kernel, in a fixed order.

    chip: which one it ran on, or was simulated for; the files do not name it, and without it there
    is no roofline.
    """
    cores = core_times(kernel)
    sides = [[core for core in cores if core.side == side] for side in CORES]
    # The cores that run longest decide how long the task takes; the others' limits are no advice.
    sides.sort(key=lambda ours: max((core.length for core in ours), default=0.0), reverse=True)
    told = list(_clock(kernel))
    if chip is not None:
        told += [*roofline_sentences(kernel, chip), *core_usage_sentences(kernel, chip)]
    for decisive, ours in zip((True, False), sides, strict=True):
        if ours:
            told += [*_bound(ours, decisive), *_overlap(ours), *_balance(ours, kernel)]
    if kernel.info is not None and kernel.info.is_mix:
        told += _ratio_trap(cores, kernel)
    return [*told, *packet_sentences(kernel), *_cache(kernel), *_conflicts(kernel)]


def _clock(kernel: OpProfile) -> Iterator[Sentence]:
    current, rated = kernel.info_figure("current_freq"), kernel.info_figure("rated_freq")
    if current is None or rated is None or not number(rated):
        return
    share = number(current) / number(rated)
    if 0 < share < SLOW_CLOCK:
        yield Sentence(
            topic="clock",
            text=f"the cores ran at {share:.1%} of their rated frequency: what their clock decides "
            f"takes {1 / share - 1:.1%} longer, and comparisons with other runs mislead",
            rule=f"below {SLOW_CLOCK:.0%} is reported, as msopprof does; raise --warm-up",
            refs=(current, rated),
            flagged=True,
        )


def _bound(cores: Sequence[CoreTime], decisive: bool) -> Iterator[Sentence]:
    """The busiest pipe: all of the vendor's verdict that needs no chip."""
    use = pipe_use(list(cores))
    if not use:
        return
    busiest = use[0]
    if busiest.share <= BUSY_PIPE:
        cause = "no pipe is busy enough to be the limit: waits between pipes, or too little work"
    elif busiest.pipe in MEMORY_PIPES:
        cause = "moving data is the limit"
    elif busiest.pipe in COMPUTE_PIPES:
        cause = "computing is the limit"
    else:
        cause = "scalar code is the limit: addresses, loops, or waiting for flags"
    times = [core.time for core in cores]
    yield Sentence(
        topic="bound",
        text=f"{cores_called(busiest.side, cores[0].core)}: {busiest.pipe} was active "
        f"{busiest.share:.1%} of the cores' time; {cause}",
        rule=f"over {BUSY_PIPE:.0%} a pipe of data or of arithmetic is called the cause, as in "
        "msopprof, which compares with the roofline first (topic verdict, for a known chip)",
        refs=(busiest.busiest, max(times, key=number)),
        flagged=decisive and busiest.share > BUSY_PIPE,
    )


def _overlap(cores: Sequence[CoreTime]) -> Iterator[Sentence]:
    """Of the core that ran longest: what the sum of its pipes proves."""
    core = max(cores, key=lambda core: core.length)
    pipes = {p: f for p, f in core.pipes.items() if p != "scalar" and number(f)}
    if len(pipes) < 2 or not core.length:
        return
    total = sum(map(number, pipes.values()))
    listed = " + ".join(pipes)
    if total == core.length:
        what = "they may have run one after another"
    elif total > core.length:
        what = f"at least {amount(total - core.length, core.unit)} of it overlap"
    else:
        what = f"for at least {amount(core.length - total, core.unit)} none of them was active"
    yield Sentence(
        topic="overlap",
        text=f"block {core.block or '-'} {core.core}: {listed} add up to "
        f"{amount(total, core.unit)} in {amount(core.length, core.unit)}: {what}",
        rule="active times that add up to more than the core's time must overlap; to less, gaps",
        refs=(core.time, *pipes.values()),
    )


def _balance(cores: Sequence[CoreTime], kernel: OpProfile) -> Iterator[Sentence]:
    if len(cores) < 2:
        return
    slowest = max(cores, key=lambda core: core.length)
    fastest = min(cores, key=lambda core: core.length)
    if not slowest.length:
        return
    spread = 1 - fastest.length / slowest.length
    mean, unit = sum(core.length for core in cores) / len(cores), slowest.unit
    even = spread <= WIDE_SPREAD
    launched = kernel.info_figure("block_dim")
    blocks = len({core.block for core in cores})
    partly = launched is not None and blocks < number(launched)
    yield Sentence(
        topic="balance",
        text=f"{cores_called(slowest.side, slowest.core)}: {len(cores)} ran between "
        f"{amount(fastest.length, unit)} and {amount(slowest.length, unit)}, "
        f"{amount(mean, unit)} on average: "
        + ("balanced" if even else f"the fastest took {spread:.0%} less than the slowest")
        + (f"; the file has {blocks} of the task's blocks only" if partly else ""),
        rule=f"a spread over {WIDE_SPREAD:.0%} of the longest time is unbalanced, as in msopprof",
        refs=(slowest.time, fastest.time, *([launched] if launched is not None else ())),
        flagged=not even,
    )


def _ratio_trap(cores: Sequence[CoreTime], kernel: OpProfile) -> Iterator[Sentence]:
    """What the ratio of a mix kernel is a ratio of, worked out from the largest one."""
    task = kernel.info_figure("task_duration_us")
    ratios = [(core, pipe) for core in cores for pipe in core.ratios if pipe in core.pipes]
    if task is None or not ratios:
        return
    core, pipe = max(ratios, key=lambda pair: number(pair[0].ratios[pair[1]]))
    ratio, active = core.ratios[pipe], core.pipes[pipe]
    if not number(ratio) or not core.length:
        return
    whole = number(active) / number(ratio)
    if abs(whole / core.length - 1) < 0.01:
        return
    yield Sentence(
        topic="ratios",
        text=f"{ratio.key} is {ratio.value} because {number(active):.3f} us are divided by "
        f"{whole:.3f} us; of the core's own {core.length:.3f} us it is {core.share(pipe):.1%}",
        rule="of mix kernels msopprof divides by the task's duration (whole microseconds of it, in "
        "the files seen), unless KernelScale is collected; sentences here use the cores' times",
        refs=(ratio, active, core.time, task),
    )


def _cache(kernel: OpProfile) -> Iterator[Sentence]:
    for side in CORES:
        for names in _HIT_RATES:
            told = [
                _hit_rates(side, name, found)
                for key, name in names.items()
                if (found := list(kernel.figures(FileKind.L2_CACHE, f"{side}_{key}")))
            ]
            yield from told
            if told:
                break


def _hit_rates(side: str, name: str, found: Sequence[tuple[Row, Figure]]) -> Sentence:
    core, rates = found[0][0].text("sub_block_id"), [figure for _, figure in found]
    lowest, highest = min(rates, key=number), max(rates, key=number)
    return Sentence(
        topic="L2",
        text=f"{cores_called(side, core)}: L2 {name} of {len(rates)} cores between "
        f"{number(lowest):.1f} and {number(highest):.1f}%",
        rule="as the file has them, per core; data that are read once cannot hit, unless they "
        "were left by the kernel before or by the tool's replays",
        refs=(lowest, highest),
    )


def _conflicts(kernel: OpProfile) -> Iterator[Sentence]:
    found = [
        (row, figure)
        for side in CORES
        for row, figure in kernel.figures(FileKind.CONFLICT, f"{side}_vec_total_cflt_ratio")
    ]
    if not found:
        return
    row, worst = max(found, key=lambda pair: number(pair[1]))
    if number(worst) <= MANY_CONFLICTS:
        return
    table = kernel.tables[FileKind.CONFLICT]
    parts = [
        table.figure(row, key)
        for kind in _CONFLICTS
        if (key := worst.key.replace("total", kind)) in table.by_key
    ]
    largest = max(parts, key=number, default=None)
    kind = "" if largest is None or not number(largest) else largest.key.split("_")[2]
    cause, fix = _CONFLICTS.get(kind, _CONFLICTS["bankgroup"])
    yield Sentence(
        topic="conflicts",
        text=f"{number(worst):.1%} of the time vector instructions waited for UB"
        + (f", {number(largest):.1%} for {cause}" if kind else f": {cause}"),
        rule=f"over {MANY_CONFLICTS:.0%} (our limit); {fix}",
        refs=(worst, largest) if kind and largest is not None else (worst,),
        flagged=True,
    )
