"""Eager and replay runs for the verification, and what shows that a replay really ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphs.batch import DecodeBatch
from graphs.device_api import ReplayCounters
from graphs.kv_state import KvState, Snapshot
from graphs.report import ReplayProof
from graphs.runner import DecodeGraphRunner
from kernels_npu.errors import AscendInferError


@dataclass(frozen=True, kw_only=True)
class Run:
    """Host copies of what one or more consecutive steps left behind.

    logits: [rows, vocab] per step, without padding rows. cache: after the last step.
    untouched: values per step that still held the poison. eager_steps: steps that left the graph.
    device_replays, device_launches: seen by the device; None if it keeps no count.
    error: what stopped the run; everything else is empty then.
    """

    logits: tuple[torch.Tensor, ...] = ()
    cache: Snapshot
    untouched: tuple[int, ...] = ()
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
        self._counted: list[Run] = []

    def eager(self, content: Snapshot, batches: Sequence[DecodeBatch], bucket: int) -> Run:
        """The step function on fresh tensors with the bucket's shape.

        The shape is the bucket's because libraries choose algorithms by shape: eager with fewer
        rows may differ in the last bits without anything being wrong with the graph.
        """
        self._state.write(content)
        blocks = self._runner.buffers.max_blocks
        logits = [
            self._runner.run_eager(batch.padded(bucket, blocks))[: batch.size].cpu()
            for batch in batches
        ]
        return Run(logits=tuple(logits), cache=self._state.snapshot())

    def replay(self, content: Snapshot, batches: Sequence[DecodeBatch]) -> Run:
        """The runner on the same batches, its output poisoned before each step."""
        runner = self._runner
        self._state.write(content)
        before = runner.api.replay_counters()
        eager_before = runner.stats.eager_steps
        logits: list[torch.Tensor] = []
        untouched: list[int] = []
        try:
            runner.check_addresses(everything=True)
            for batch in batches:
                runner.buffers.logits.fill_(float("nan"))
                logits.append(runner.run(batch).to("cpu", copy=True))
                untouched.append(int(logits[-1].isnan().sum()))
        except AscendInferError as error:
            return Run(cache={}, error=error)
        seen = _difference(before, runner.api.replay_counters())
        run = Run(
            logits=tuple(logits),
            cache=self._state.snapshot(),
            untouched=tuple(untouched),
            eager_steps=runner.stats.eager_steps - eager_before,
            device_replays=None if seen is None else seen.replays,
            device_launches=None if seen is None else seen.launches,
        )
        self._replays += len(batches)
        self._overwritten += sum(n == 0 for n in untouched)
        self._counted.append(run)
        return run

    def proof(self) -> ReplayProof:
        """Totals over all replays so far."""
        counted = [run for run in self._counted if run.device_replays is not None]
        return ReplayProof(
            replays=self._replays,
            overwritten=self._overwritten,
            device_replays=sum(run.device_replays or 0 for run in counted) if counted else None,
            device_launches=sum(run.device_launches or 0 for run in counted) if counted else None,
        )


def _difference(
    before: ReplayCounters | None, after: ReplayCounters | None
) -> ReplayCounters | None:
    if before is None or after is None:
        return None
    return ReplayCounters(
        replays=after.replays - before.replays, launches=after.launches - before.launches
    )
