"""Batch, cache and latencies of simulated schedules in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ascend_infer.plotting import save_figure
from ascend_infer.serving_simulation.result import ServingResult
from ascend_infer.serving_simulation.workload import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(results: Sequence[ServingResult], path: Path) -> None:
    """One line per result: sequences that decode and KV blocks over time, and the share of
    requests whose first token came within a time.

    Raises:
        UsageError, EnvironmentProblem: as `ascend_infer.plotting.save_figure`.
    """

    def draw(figure: Figure) -> None:
        batch, cache, latency = figure.subplots(3, 1)
        for result in results:
            name = result.scheduler.batching
            _line(batch, *_batch(result), name)
            times, blocks = result.timeline.cache_use()
            _line(cache, times, blocks.astype(np.float64), name)
            _line(latency, *_first_tokens(result), name)
        _label(batch, "modelled seconds", "decoding sequences")
        _label(cache, "modelled seconds", "KV blocks in use")
        _label(latency, "modelled seconds to first token", "share of requests")
        batch.legend()
        figure.suptitle("Simulated schedule (simulated); times are of a step-time model (modelled)")

    save_figure(path, (8.0, 9.0), draw)


def _line(axes: Axes, x: Floats, y: Floats, name: str) -> None:
    axes.plot(x, y, label=name, linewidth=1, drawstyle="steps-post")


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)


def _batch(result: ServingResult) -> tuple[Floats, Floats]:
    """Over time; 0 while no step decodes."""
    timeline = result.timeline
    live = timeline.column("live")
    times = np.stack([timeline.column("start"), timeline.stretch_ends], axis=1).reshape(-1)
    return times, np.stack([live, np.zeros_like(live)], axis=1).reshape(-1)


def _first_tokens(result: ServingResult) -> tuple[Floats, Floats]:
    waits = np.sort(result.first_token_waits)
    return waits, (np.arange(len(waits)) + 1) / max(result.metrics.requests, 1)
