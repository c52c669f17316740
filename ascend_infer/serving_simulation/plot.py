"""Batch, cache and latencies of simulated schedules in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ascend_infer.plotting import save_figure
from ascend_infer.serving_simulation.result import ServingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of a line over time: about one per pixel.
_POINTS = 1200


def plot(results: Sequence[ServingResult], path: Path) -> None:
    """One line per result: sequences that decode and KV blocks over time, and the share of
    requests whose first token came within a time.

    Raises:
        UsageError, EnvironmentProblem: as `ascend_infer.plotting.save_figure`.
    """

    def draw(figure: Figure) -> None:
        batch, cache, latency = figure.subplots(3, 1)
        for result in results:
            name = result.scheduler.label
            sample = result.over_time(_POINTS)
            _line(batch, sample["seconds"], sample["decoding"], name)
            _line(cache, sample["seconds"], sample["kv_blocks"], name)
            waits = np.sort(result.first_token_waits)
            shares = (np.arange(len(waits)) + 1) / result.metrics.requests
            _line(latency, waits.tolist(), shares.tolist(), name)
        _label(batch, "modelled seconds", "decoding sequences")
        _label(cache, "modelled seconds", "KV blocks in use")
        _label(latency, "modelled seconds to first token", "share of requests")
        latency.set_xscale("symlog", linthresh=0.01)  # some wait for no time at all
        latency.set_xlim(left=0)
        batch.legend()
        figure.suptitle("Simulated schedule (simulated); times are of a step-time model (modelled)")

    save_figure(path, (8.0, 9.0), draw)


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], name: str) -> None:
    axes.plot(x, y, label=name, linewidth=1, alpha=0.8, drawstyle="steps-post")


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
