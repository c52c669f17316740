"""Profiling what a block of code launches on the simulated NPU."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.sim.config import configure_everywhere
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.compiled import LaunchRecord
from kernels_npu.sim.reporting import collect_into
from kernels_npu.sim.tracing import trace
from profiling.collect import circumstances
from profiling.manifest import Manifest
from profiling.records.kernel import OpProfile
from profiling.simulated.tables import kernel_of
from profiling.simulated.tree import Tree

#: Of a trace that is read as a whole, and shown.
_MOST_EVENTS = 200_000


class SimulatedRun:
    """The launches of a run, in their order.

    Attributes:
        folder: where the profile is written.
        kernels: one record per launch that is in the profile.
        left_out: how many launches came after them.
        written: whether the folder is there: a run without launches leaves none.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.kernels: list[OpProfile] = []
        self.left_out = 0
        self.written = False
        self._limit = limit
        self._numbers: Counter[str] = Counter()
        self._chips: dict[str, None] = {}

    def add(self, record: LaunchRecord) -> None:
        """Take one launch."""
        if len(self.kernels) >= self._limit:
            self.left_out += 1
            return
        self.kernels.append(kernel_of(record, self._numbers[record.kernel]))
        self._numbers[record.kernel] += 1
        self._chips[record.soc] = None

    @property
    def launches(self) -> Mapping[str, int]:
        """Kernel -> launches in the profile."""
        return dict(self._numbers)

    @property
    def chips(self) -> tuple[str, ...]:
        """The chips that were simulated: one, unless the program changed it."""
        return tuple(self._chips)

    def summary(self) -> str:
        """What is in the profile and what is not, in one sentence."""
        count = len(self.kernels)
        kernels = len(self._numbers)
        text = f"{count} launch{'es' * (count != 1)} of {kernels} kernel{'s' * (kernels != 1)}"
        return text + (f"; left out: {self.left_out} launches" if self.left_out else "")

    def to_dict(self) -> dict[str, object]:
        """What is in the profile, JSON-ready."""
        return {
            "folder": str(self.folder) if self.written else None,
            "launches": dict(self._numbers),
            "launches_left_out": self.left_out,
            "evidence": {"bytes": str(Evidence.SIMULATED), "cycles": str(Evidence.MODELLED)},
        }


@contextlib.contextmanager
def profile_simulated(
    folder: str | os.PathLike[str],
    *,
    launches: int = 256,
    blocks: int = 8,
    command: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[SimulatedRun]:
    """Profile the launches of all threads in the body into `folder`.

    The folder has one folder per kernel and launch, as `msprof op` writes them, `trace.json` with
    the pipes on an axis of modelled cycles, and a manifest. It appears when the body ends, also by
    an error; when nothing was launched there is none, and `SimulatedRun.written` says so.

    Args:
        folder: must not exist yet, or be empty.
        launches: how many launches are profiled; the others are only counted.
        blocks: how many blocks of a launch the trace shows; the tables have all.
        command: what was run, for the manifest.
        settings: what else the manifest is to say, such as the conditions `model` and `lengths` of
            `profiling.conditions`.

    Raises:
        UsageError: AI-CLI-004 when the folder cannot be written, AI-CLI-001 for a limit below one.
    """
    if min(launches, blocks) < 1:
        raise UsageError(
            "AI-CLI-001",
            f"a profile of {launches} launches with {blocks} blocks in the trace",
            fix="use at least 1 of each",
        )
    tree = Tree(Path(folder))
    run = SimulatedRun(tree.folder, launches)
    started, git, operators = circumstances.now(), circumstances.git_state(), _operators()
    try:
        limits = {"launches": launches, "blocks": blocks, "events": _MOST_EVENTS}
        with (
            trace(tree.half / "trace.json", **limits) as recorder,
            configure_everywhere(count_cores=True) as config,
            collect_into(run),
        ):
            yield run
    finally:
        if run.kernels:
            known = {
                **(settings or {}),
                "soc": ", ".join(run.chips),
                "schedule": config.schedule,
                "cycle_model": cost.MODEL,
                "launches_left_out": str(run.left_out),
                "trace_blocks_left_out": str(recorder.blocks_left_out),
                "trace_complete": str(not recorder.file.full).lower(),
                "operators_not_counted": _told(_operators() - operators),
            }
            tree.complete(
                run.kernels,
                Manifest(
                    evidence=Evidence.SIMULATED,
                    made_by="simulated NPU",
                    command=tuple(command),
                    started=started,
                    ended=circumstances.now(),
                    versions=circumstances.package_versions(),
                    environment=circumstances.variables(os.environ),
                    git=git,
                    settings={name: text for name, text in known.items() if text},
                ),
            )
            run.written = True
        else:
            tree.discard()


def _operators() -> Counter[str]:
    """PyTorch's operators that ran on the simulated device, which executes them without kernels."""
    from kernels_npu.sim.device.counters import snapshot

    counts = snapshot()
    return Counter(counts.eager_ops) + Counter(counts.replayed_ops)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
