"""Many replays of the same steps: do results drift, does memory grow?

A decode step repeated from the same cache writes the same keys and values to the same slots, so
that every replay of it must give the same bits without setting the cache anew. Buckets take turns.
Growth is measured over the second half: what the first replays set up once is not a leak.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import cycle

import torch

from graphs.compare import Mismatch, find_mismatch
from graphs.report_parts import SoakFigures
from graphs.verification.findings import Where
from graphs.verification.proof_runs import Run
from graphs.verification.scenarios import Scenario
from graphs.verification.workbench import Workbench
from kernels_npu.errors import AscendInferError

#: Replays of one bucket before the next takes its turn.
_TURN = 25
#: A leak of one Python object per replay is one block or more; caches that fill up are fewer.
_BLOCKS_PER_REPLAY = 0.5


@dataclass(frozen=True, kw_only=True)
class _Held:
    """What the process holds at one moment."""

    device: int | None
    blocks: int
    objects: Counter[str]


def soak(bench: Workbench, replays: int) -> SoakFigures | None:
    """Replay `replays` times and judge; None when a replay raised, which is a finding."""
    scenarios = [(b, bench.maker.make(b)) for b in bench.runner.captured_buckets]
    expected: dict[int, torch.Tensor] = {}
    drifted: dict[int, tuple[int, Mismatch]] = {}
    middle: _Held | None = None
    started = done = 0
    turns = cycle(scenarios)
    # Two whole rounds of all buckets at least, or the second half meets buckets for the first time.
    turn = max(1, min(_TURN, replays // (4 * len(scenarios))))
    while done < replays:
        if middle is None and done >= replays // 2:
            middle, started = _held(bench), done
        bucket, scenario = next(turns)
        steps = min(turn, replays - done)
        if not _turn(bench, bucket, scenario, steps, expected, drifted):
            return None
        done += steps
    assert middle is not None  # replays >= 1
    end = _held(bench, last=True)
    counted = done - started
    figures = SoakFigures(
        replays=done,
        drifted=sum(count for count, _ in drifted.values()),
        device_bytes=None
        if middle.device is None or end.device is None
        else end.device - middle.device,
        host_blocks=end.blocks - middle.blocks,
        grown={
            name: grown
            for name, grown in (end.objects - middle.objects).most_common(5)
            if grown >= _BLOCKS_PER_REPLAY * counted
        },
    )
    _judge(bench, figures, drifted, counted)
    return figures


def _turn(
    bench: Workbench,
    bucket: int,
    scenario: Scenario,
    steps: int,
    expected: dict[int, torch.Tensor],
    drifted: dict[int, tuple[int, Mismatch]],
) -> bool:
    where = Where(check="soak", bucket=bucket, batch_size=bucket)
    first = bench.replay(where, scenario)
    if first is None:
        return False
    bits = expected.setdefault(bucket, first.logits[0])
    for _ in range(steps):
        try:
            logits = bench.runner.run(scenario.batch).to("cpu", copy=True)
        except AscendInferError as error:
            bench.judge.failed_run(where, Run(cache={}, error=error))
            return False
        bench.judge.checks["soak"] += 1
        mismatch = find_mismatch("logits", bits, logits, bench.judge.tolerance)
        if mismatch is not None:
            count, earliest = drifted.get(bucket, (0, mismatch))
            drifted[bucket] = (count + 1, earliest)
    return True


def _held(bench: Workbench, *, last: bool = False) -> _Held:
    """The first figures are themselves held when the last are taken, so they count there too."""
    bench.runner.api.synchronize()
    gc.collect()
    blocks = sys.getallocatedblocks()
    objects = Counter(type(thing).__qualname__ for thing in gc.get_objects())
    return _Held(
        device=bench.runner.api.memory().allocated,
        blocks=blocks if last else sys.getallocatedblocks(),
        objects=objects,
    )


def _judge(
    bench: Workbench,
    figures: SoakFigures,
    drifted: dict[int, tuple[int, Mismatch]],
    counted: int,
) -> None:
    for bucket, (count, mismatch) in drifted.items():
        bench.judge.findings.add(
            "AI-VERIFY-017",
            Where(check="soak", bucket=bucket, batch_size=bucket),
            f"{count} replays of the same step gave other values than the first: a replay changes "
            "what the next one reads",
            mismatch,
        )
    largest = bench.runner.captured_buckets[-1]
    where = Where(check="soak", bucket=largest, batch_size=largest)
    if figures.device_bytes is not None and figures.device_bytes > 0:
        bench.judge.findings.add(
            "AI-VERIFY-018",
            where,
            f"device memory grew by {figures.device_bytes:,} bytes in {counted} replays: a tensor "
            "is made at every step and kept",
        )
    if figures.host_blocks >= _BLOCKS_PER_REPLAY * counted and counted >= _TURN:
        things = ", ".join(f"{n} more {name}" for name, n in figures.grown.items())
        bench.judge.findings.add(
            "AI-VERIFY-018",
            where,
            f"the host held {figures.host_blocks:,} more Python blocks after {counted} replays"
            + (f" ({things})" if things else "")
            + ": something is kept at every step",
        )
