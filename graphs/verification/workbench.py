"""What every check needs: the runner, a maker of scenarios, runs and the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from graphs.batch import DecodeBatch
from graphs.kv_state import KvState
from graphs.report_parts import LayerVerdict
from graphs.runner import DecodeGraphRunner
from graphs.verification.findings import Where
from graphs.verification.judge import Judge
from graphs.verification.layers import LayeredStep, first_differing_layer
from graphs.verification.proof_runs import ProofRuns, Run
from graphs.verification.scenarios import Geometry, Scenario, ScenarioMaker
from kernels_npu.errors import AscendInferError


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """One call of `verify`. notes: what could not be checked, and why."""

    runner: DecodeGraphRunner
    state: KvState
    geometry: Geometry
    maker: ScenarioMaker
    runs: ProofRuns
    judge: Judge
    layers: LayeredStep | None
    notes: list[str]

    def compare(
        self, where: Where, scenario: Scenario, batches: Sequence[DecodeBatch]
    ) -> tuple[Run, Run] | None:
        """Eager and replay of consecutive batches, judged; None when replay raised."""
        eager = self.runs.eager(scenario.content, batches, where.bucket)
        replay = self.runs.replay(scenario.content, batches)
        if replay.error is not None:
            self.judge.failed_run(where, replay)
            return None
        locate = partial(self._locate, where.bucket, scenario, batches)
        if not self.judge.compare(where, scenario, batches, eager, replay, locate):
            again = self.runs.eager(scenario.content, batches, where.bucket)
            self.judge.repeatability(where, eager, again)
        return eager, replay

    def replay(self, where: Where, scenario: Scenario) -> Run | None:
        """One replay; a failed one becomes a finding."""
        run = self.runs.replay(scenario.content, [scenario.batch])
        if run.error is not None:
            self.judge.failed_run(where, run)
            return None
        return run

    def _locate(
        self, bucket: int, scenario: Scenario, batches: Sequence[DecodeBatch]
    ) -> LayerVerdict | None:
        if self.layers is None:
            return None
        try:
            return first_differing_layer(
                self.runner,
                self.state,
                self.layers,
                scenario.content,
                batches,
                bucket=bucket,
                tolerance=self.judge.tolerance,
            )
        except AscendInferError as error:  # the finding itself must not be lost
            self.notes.append(f"the first differing layer was not found: {error.code} {error.what}")
            return None
