"""Eager and replay runs for the verification, and what shows that a replay really ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphs.batch import DecodeBatch
from graphs.device_api import DeviceApi, ReplayCounters
from graphs.kv_state import KvState, Snapshot
from graphs.report import ReplayProof
from graphs.runner import DecodeGraphRunner
from graphs.verification.poison import poison, poisoned
from kernels_npu.errors import AscendInferError


@dataclass(frozen=True, kw_only=True)
class Run:
    """Host copies of what one or more consecutive steps left behind.

    logits: [rows, vocab] per step, without padding rows. cache: after the last step.
    untouched: values per step that still held the poison. written: per step, the rows of the static
        logits that were written, padding rows included.
    allocations: blocks that the device's allocator handed out during the steps; None if it keeps no
        count. elsewhere: steps whose result is not the static output. drew: devices whose random
        generators moved on.
    eager_steps: steps that left the graph.
    device_replays, device_launches: seen by the device; None if it keeps no count.
    error: what stopped the run; everything else is empty then.
    """

    logits: tuple[torch.Tensor, ...] = ()
    cache: Snapshot
    untouched: tuple[int, ...] = ()
    written: tuple[tuple[int, ...], ...] = ()
    allocations: int | None = None
    elsewhere: int = 0
    drew: tuple[str, ...] = ()
    eager_steps: int = 0
    device_replays: int | None = None
    device_launches: int | None = None
    error: AscendInferError | None = None


class ProofRuns:
    """Runs batches from a given cache content, eagerly and by replay."""

    def __init__(self, runner: DecodeGraphRunner, state: KvState) -> None:
        self._runner = runner
        self._state = state
        self._replays = self._overwritten = 0
        self._seen: ReplayCounters | None = None
        self._allocations: int | None = None

    def eager(self, content: Snapshot, batches: Sequence[DecodeBatch], bucket: int) -> Run:
        """The step function on fresh tensors with the bucket's shape.

        The shape is the bucket's because libraries choose algorithms by shape: eager with fewer
        rows may differ in the last bits without anything being wrong with the graph.
        """
        self._state.write(content)
        blocks = self._runner.buffers.max_blocks
        before = self._runner.api.generator_states()
        logits = []
        for batch in batches:
            result = self._runner.run_eager(batch.padded(bucket, blocks))
            logits.append(result[: batch.size].cpu())
        return Run(
            logits=tuple(logits),
            cache=self._state.snapshot(),
            drew=_moved_on(self._runner.api, before),
        )

    def replay(self, content: Snapshot, batches: Sequence[DecodeBatch]) -> Run:
        """The runner on the same batches, its output poisoned before each step."""
        runner, api = self._runner, self._runner.api
        self._state.write(content)
        counted = api.replay_counters()
        generators = api.generator_states()
        eager_before = runner.stats.eager_steps
        logits: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        allocations: int | None = None
        elsewhere = 0
        try:
            runner.check_addresses(everything=True)
            for batch in batches:
                poison(runner.buffers.logits)
                before = api.allocations()
                result = runner.run(batch)
                after = api.allocations()
                if before is not None and after is not None:
                    allocations = (allocations or 0) + after - before
                elsewhere += not _is_static(api, result, runner.buffers.logits)
                logits.append(result.to("cpu", copy=True))
                outputs.append(runner.buffers.logits.to("cpu", copy=True))
        except AscendInferError as error:
            return Run(cache={}, error=error)
        seen = _difference(counted, api.replay_counters())
        masks = [poisoned(output) for output in outputs]
        run = Run(
            logits=tuple(logits),
            cache=self._state.snapshot(),
            untouched=tuple(int(poisoned(rows).sum()) for rows in logits),
            written=tuple(tuple((~m).any(1).nonzero().flatten().tolist()) for m in masks),
            allocations=allocations,
            elsewhere=elsewhere,
            drew=_moved_on(api, generators),
            eager_steps=runner.stats.eager_steps - eager_before,
            device_replays=None if seen is None else seen.replays,
            device_launches=None if seen is None else seen.launches,
        )
        self._count(run, seen)
        return run

    def in_flight(self, content: Snapshot, batches: Sequence[DecodeBatch]) -> Run:
        """The runner on the same batches, each enqueued without waiting for the one before."""
        runner = self._runner
        self._state.write(content)
        try:
            runner.api.stall()
            results = [runner.run(batch).clone() for batch in batches]
            logits = tuple(result.cpu() for result in results)
            return Run(logits=logits, cache=self._state.snapshot())
        except AscendInferError as error:
            return Run(cache={}, error=error)

    def proof(self) -> ReplayProof:
        """Totals over all replays so far."""
        seen = self._seen
        return ReplayProof(
            replays=self._replays,
            overwritten=self._overwritten,
            device_replays=None if seen is None else seen.replays,
            device_launches=None if seen is None else seen.launches,
            allocations=self._allocations,
        )

    def _count(self, run: Run, seen: ReplayCounters | None) -> None:
        self._replays += len(run.logits)
        self._overwritten += sum(n == 0 for n in run.untouched)
        if run.allocations is not None:
            self._allocations = (self._allocations or 0) + run.allocations
        if seen is not None:
            self._seen = seen if self._seen is None else _sum(self._seen, seen)


def _is_static(api: DeviceApi, result: torch.Tensor, logits: torch.Tensor) -> bool:
    start = api.address(logits)
    size = logits.numel() * logits.element_size()
    return result.numel() == 0 or start <= api.address(result) < start + size


def _moved_on(api: DeviceApi, before: dict[str, torch.Tensor]) -> tuple[str, ...]:
    after = api.generator_states()
    return tuple(name for name, state in before.items() if not torch.equal(state, after[name]))


def _difference(
    before: ReplayCounters | None, after: ReplayCounters | None
) -> ReplayCounters | None:
    if before is None or after is None:
        return None
    launched = before.launches is not None and after.launches is not None
    return ReplayCounters(
        replays=after.replays - before.replays,
        launches=(after.launches or 0) - (before.launches or 0) if launched else None,
    )


def _sum(a: ReplayCounters, b: ReplayCounters) -> ReplayCounters:
    launched = a.launches is not None and b.launches is not None
    return ReplayCounters(
        replays=a.replays + b.replays,
        launches=(a.launches or 0) + (b.launches or 0) if launched else None,
    )
