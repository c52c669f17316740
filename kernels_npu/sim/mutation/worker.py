"""Judges all deletions of one file, in a process of its own (`python -m ...mutation.worker`)."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

from kernels_npu.errors import AscendInferError
from kernels_npu.sim.mutation.capture import Driver, Recorder, capture
from kernels_npu.sim.mutation.deletions import Deletion, deletions
from kernels_npu.sim.mutation.trial import (
    FOUND,
    NOT_REACHED,
    NOT_TRIED,
    REDUNDANT,
    SURVIVOR,
    Trial,
    Verdict,
)

#: Every kernel of a file is written under this decorator.
_KERNEL = re.compile(r"^\s*@\w+\.prim_func\b", re.MULTILINE)

#: The outcome of a deletion in several kernels or launches is the first of these that occurs.
_STRONGEST = (FOUND, SURVIVOR, NOT_TRIED, REDUNDANT, NOT_REACHED)


def judge_trials(
    trials: Sequence[Trial], *, sample: int = 0, deadline: float = float("inf")
) -> list[tuple[Deletion, Verdict]]:
    """Verdicts of the deletions in the kernels of `trials`; of `sample` of them when given.

    deadline: by `time.process_time()`; what has no verdict then is `not tried`.
    """
    places = {place for trial in trials for place in trial.places}
    pairs = {pair for trial in trials for pair in trial.pairs}
    wanted = deletions(places, pairs)
    if 0 < sample < len(wanted):
        wanted = sorted(random.Random(0).sample(wanted, sample))
    return [(deletion, _judge(trials, deletion, deadline)) for deletion in wanted]


def _judge(trials: Sequence[Trial], deletion: Deletion, deadline: float) -> Verdict:
    verdicts = []
    for trial in trials:
        if time.process_time() > deadline:
            verdicts.append(Verdict(outcome=NOT_TRIED, reason="out of time"))
            break
        verdict = trial.judge(deletion)
        if verdict.outcome == FOUND:
            return verdict
        verdicts.append(verdict)
    return min(verdicts, key=lambda v: _STRONGEST.index(v.outcome))


def judge_file(
    script: Path, *, sample: int, seconds: float, keep: int, driver: Driver | None = None
) -> dict[str, object]:
    """Run `script` once, then every deletion in its kernels; JSON-ready."""
    recorder = Recorder(keep=keep, kernels=len(_KERNEL.findall(script.read_text("utf-8"))))
    ending = capture(script, recorder, driver)
    captured = time.process_time()
    trials, refused = [], []
    for launch in (launch for kept in recorder.launches.values() for launch in kept):
        try:
            trials.append(Trial(launch))
        except AscendInferError as error:
            refused.append(f"{launch.kernel.name}: {error.code}")
    verdicts = judge_trials(trials, sample=sample, deadline=seconds)
    return {
        "kernels": len(recorder.launches),
        "launches": len(trials),
        "refused": refused,
        "script": ending,
        "without_deletion": sorted({code for trial in trials for code in trial.codes}),
        "capture_seconds": round(captured, 1),
        "seconds": round(time.process_time(), 1),
        "deletions": [to_dict(deletion, verdict, script) for deletion, verdict in verdicts],
    }


def to_dict(deletion: Deletion, verdict: Verdict, script: Path) -> dict[str, object]:
    """JSON-ready form of one verdict; `file` only of places outside `script`."""
    places = []
    for place in deletion.places:
        other = {} if Path(place.file) == script else {"file": place.file}
        places.append({"line": place.line, "statement": place.statement, **other})
    return {"kind": deletion.kind, "places": places, **vars(verdict)}


def load_driver(name: str) -> Driver:
    """The function named `MODULE:FUNCTION`; an argparse type."""
    module, _, function = name.partition(":")
    driver: Driver = getattr(importlib.import_module(module), function)
    return driver


def main() -> None:
    """Judge one file and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--driver", type=load_driver, metavar="MODULE:FUNCTION")
    arguments = parser.parse_args()
    result = judge_file(
        arguments.script,
        sample=arguments.sample,
        seconds=arguments.timeout,
        keep=arguments.launches,
        driver=arguments.driver,
    )
    temporary = arguments.out.with_suffix(".part")
    temporary.write_text(json.dumps(result), encoding="utf-8")
    os.replace(temporary, arguments.out)


if __name__ == "__main__":
    main()
