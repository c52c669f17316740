"""What the figures of one kernel say, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiling.analysis.pipes import (
    COMPUTE_PIPES,
    CORES,
    MEMORY_PIPES,
    CoreTime,
    core_times,
    pipe_use,
)
from profiling.analysis.sentence import Sentence
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind

#: The vendor tool's limits: a pipe that is active longer decides; a slower clock and a wider spread
#: of the cores' times are reported.
BUSY_PIPE = 0.80
SLOW_CLOCK = 0.95
WIDE_SPREAD = 0.10
#: Ours: a tenth of the vector pipe's time lost to conflicts is worth another layout.
MANY_CONFLICTS = 0.10

_NAMES = {"aic": "cube cores", "aiv": "vector cores"}


def kernel_sentences(kernel: OpProfile) -> list[Sentence]:
    """Everything that can be said about a kernel, in a fixed order."""
    cores = core_times(kernel)
    sides = [[core for core in cores if core.side == side] for side in CORES]
    # The cores that run longest decide how long the task takes; the others' limits are no advice.
    sides.sort(key=lambda ours: max((core.time_us for core in ours), default=0.0), reverse=True)
    told = list(_clock(kernel))
    for decisive, ours in zip((True, False), sides, strict=True):
        if ours:
            told += [*_bound(ours, decisive), *_overlap(ours), *_balance(ours, kernel)]
    if kernel.info is not None and kernel.info.is_mix:
        told += _ratio_trap(cores, kernel)
    return [*told, *_cache(kernel), *_conflicts(kernel)]


def _clock(kernel: OpProfile) -> Iterator[Sentence]:
    current, rated = kernel.info_figure("current_freq"), kernel.info_figure("rated_freq")
    if current is None or rated is None or not number(rated):
        return
    share = number(current) / number(rated)
    if share < SLOW_CLOCK:
        yield Sentence(
            topic="clock",
            text=f"the cores ran at {share:.1%} of their rated frequency: times are too long by "
            "as much, and comparisons with other runs mislead",
            rule=f"below {SLOW_CLOCK:.0%} is reported, as msopprof does; raise --warm-up",
            refs=(current, rated),
            flagged=True,
        )


def _bound(cores: Sequence[CoreTime], decisive: bool) -> Iterator[Sentence]:
    """The part of the vendor's verdict that needs no roofline."""
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
        text=f"{_NAMES[busiest.side]}: {busiest.pipe} was active {busiest.share:.1%} of the cores' "
        f"time; {cause}",
        rule=f"over {BUSY_PIPE:.0%} a pipe of data or of arithmetic is called the cause, as in "
        "msopprof, which compares with the roofline first; the files do not name the chip",
        refs=(busiest.busiest, max(times, key=number)),
        flagged=decisive and busiest.share > BUSY_PIPE,
    )


def _overlap(cores: Sequence[CoreTime]) -> Iterator[Sentence]:
    """Of the core that ran longest: what the sum of its pipes proves."""
    core = max(cores, key=lambda core: core.time_us)
    pipes = {p: f for p, f in core.pipes.items() if p != "scalar" and number(f)}
    if len(pipes) < 2 or not core.time_us:
        return
    total = sum(map(number, pipes.values()))
    listed = " + ".join(pipes)
    if total > core.time_us:
        what = f"at least {total - core.time_us:.3f} us of it overlap"
    else:
        what = f"for at least {core.time_us - total:.3f} us none of them was active"
    yield Sentence(
        topic="overlap",
        text=f"block {core.block or '-'} {core.core}: {listed} add up to {total:.3f} us in "
        f"{core.time_us:.3f} us: {what}",
        rule="active times that add up to more than the core's time must overlap; to less, gaps",
        refs=(core.time, *pipes.values()),
    )


def _balance(cores: Sequence[CoreTime], kernel: OpProfile) -> Iterator[Sentence]:
    if len(cores) < 2:
        return
    slowest = max(cores, key=lambda core: core.time_us)
    fastest = min(cores, key=lambda core: core.time_us)
    if not slowest.time_us:
        return
    spread = 1 - fastest.time_us / slowest.time_us
    mean = sum(core.time_us for core in cores) / len(cores)
    even = spread <= WIDE_SPREAD
    launched = kernel.info_figure("block_dim")
    blocks = len({core.block for core in cores})
    partly = launched is not None and blocks < number(launched)
    yield Sentence(
        topic="balance",
        text=f"{_NAMES[slowest.side]}: {len(cores)} ran between {fastest.time_us:.3f} and "
        f"{slowest.time_us:.3f} us, {mean:.3f} on average: "
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
    if not number(ratio) or not core.time_us:
        return
    whole = number(active) / number(ratio)
    if abs(whole / core.time_us - 1) < 0.01:
        return
    yield Sentence(
        topic="ratios",
        text=f"{ratio.key} is {ratio.value} because {number(active):.3f} us are divided by "
        f"{whole:.3f} us; of the core's own {core.time_us:.3f} us it is {core.share(pipe):.1%}",
        rule="of mix kernels msopprof divides by the task's duration (whole microseconds of it, in "
        "the files seen), unless KernelScale is collected; sentences here use the cores' times",
        refs=(ratio, active, core.time, task),
    )


def _cache(kernel: OpProfile) -> Iterator[Sentence]:
    for side in CORES:
        for what in ("total_hit_rate_pct", "l2_cache_hit_rate_pct", "read_hit_rate_pct"):
            rates = [f for _, f in kernel.figures(FileKind.L2_CACHE, f"{side}_{what}")]
            if rates:
                break
        else:
            continue
        lowest, highest = min(rates, key=number), max(rates, key=number)
        yield Sentence(
            topic="L2",
            text=f"{_NAMES[side]}: L2 hit rates of {len(rates)} cores between "
            f"{number(lowest):.1f} and {number(highest):.1f}%",
            rule="as the file has them, per core; data that are read once cannot hit, unless they "
            "were left by the kernel before or by the tool's replays",
            refs=(lowest, highest),
        )


def _conflicts(kernel: OpProfile) -> Iterator[Sentence]:
    found = [
        figure
        for side in CORES
        for _, figure in kernel.figures(FileKind.CONFLICT, f"{side}_vec_total_cflt_ratio")
    ]
    if not found:
        return
    worst = max(found, key=number)
    if number(worst) > MANY_CONFLICTS:
        yield Sentence(
            topic="conflicts",
            text=f"{number(worst):.1%} of the time vector instructions waited for UB: operands in "
            "one bank or bank group",
            rule=f"over {MANY_CONFLICTS:.0%}; move one operand by 32 bytes, or by a bank group",
            refs=(worst,),
            flagged=True,
        )


def number(figure: Figure) -> float:
    """A figure's value; figures without one are not cited."""
    value = figure.value
    return float(value) if isinstance(value, (int, float)) else 0.0
