"""One decode step of the simulated NPU as a profile."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    import torch

    from ascend_infer.engine import StepRunner
    from graphs.batch import DecodeBatch
    from profiling.simulated import SimulatedRun


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Where a profile goes, how many launches it takes, and of which model and precision."""

    folder: Path
    launches: int = 256
    model: str = ""


class FirstStepProfiled:
    """Runs decode steps like `runner`, and profiles the first one.

    Attributes:
        result: of that step; None before it.
    """

    def __init__(self, runner: StepRunner, options: ProfileOptions) -> None:
        self._runner = runner
        self._options = options
        self.result: SimulatedRun | None = None

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        """Logits of one step, as `runner` gives them."""
        if self.result is not None:
            return self._runner.run(batch)
        from profiling.simulated import profile_simulated

        options = self._options
        contexts = ", ".join(map(str, batch.seq_lens.tolist()))
        with profile_simulated(
            options.folder,
            launches=options.launches,
            command=sys.argv,
            settings={
                "model": options.model,
                "lengths": f"one decode step, contexts of {contexts} tokens",
            },
        ) as self.result:
            # What is launched runs when the host asks for its result, at the latest.
            return self._runner.run(batch).cpu()


def nothing_profiled() -> UsageError:
    """The error for a profile that was asked for and has no launch."""
    return UsageError(
        "AI-PROF-060",
        "there is no profile: no kernel was launched while it was to be made",
        rule="a profile holds launches of kernels on the simulated NPU; of a model, those of the "
        "decode step that gives the second new token",
        fix="check that the script reaches its kernels; decode two tokens or more (--ignore-eos)",
    )
