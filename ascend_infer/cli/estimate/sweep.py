"""`--sweep batch=1,8,32 context=8192,131072`: the same estimate over a grid, as table and plot."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_infer.cli import options, output, progress
from ascend_infer.cli.estimate import envelope
from ascend_infer.plotting import require_plotting
from kernels_npu.errors import UsageError

#: More points are a mistake, or a job for the Python API.
_MOST_POINTS = 10_000

_WHOLE = options.integer(1)
_AXES: dict[str, Callable[[str], Any]] = {
    "batch": _WHOLE,
    "context": _WHOLE,
    "prefill": _WHOLE,
    "rows": _WHOLE,
    "block-size": _WHOLE,
    "tensor-parallel": _WHOLE,
    "expert-parallel": _WHOLE,
    "group-size": options.integer(0),
    "weight-dtype": str,
    "kv-dtype": str,
    "activation-dtype": str,
    "device": str,
    "model": str,
}

#: One point's figures: column -> value; the first column is what a plot shows.
Point = Mapping[str, float]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare `--sweep` and `--plot`."""
    group = parser.add_argument_group("sweep")
    group.add_argument(
        "--sweep",
        nargs="+",
        metavar="OPTION=A,B,...",
        help="repeat the estimate for every combination, e.g. batch=1,8,32 context=8192,131072",
    )
    group.add_argument(
        "--plot", metavar="FILE", help="draw the sweep into a .png or .svg (needs the extra plot)"
    )


def run(
    arguments: argparse.Namespace,
    answer: Callable[[argparse.Namespace], envelope.Answer],
    point: Callable[[argparse.Namespace], Point],
    *,
    formula: str,
    assumptions: Sequence[str] = (),
) -> int:
    """Print one estimate, or with `--sweep` the figures of each point; returns the exit code."""
    if arguments.sweep:
        return _sweep(arguments, point, formula=formula, assumptions=assumptions)
    _require_sweep_for_plot(arguments)
    return envelope.give(arguments, answer(arguments), formula=formula, assumptions=assumptions)


def _sweep(
    arguments: argparse.Namespace,
    estimate: Callable[[argparse.Namespace], Point],
    *,
    formula: str,
    assumptions: Sequence[str],
) -> int:
    """Estimate every point, draw the plot, print."""
    axes = _axes(arguments)
    if arguments.plot is not None:
        require_plotting(Path(arguments.plot))
    points = []
    with progress.bar(enabled=not arguments.json) as reporter:
        reporter.stage("estimates", total=math.prod(map(len, axes.values())))
        for values in itertools.product(*axes.values()):
            labels = dict(zip(axes, values))
            named = {_dest(name): value for name, value in labels.items()}
            points.append((labels, estimate(argparse.Namespace(**vars(arguments) | named))))
            reporter.step()
    if arguments.plot is not None:
        from ascend_infer.cli.estimate import plot

        plot.draw(Path(arguments.plot), _subject(arguments, axes), axes, points)
    answer = envelope.Answer(
        result={
            "sweep": [{**labels, **figures} for labels, figures in points],
            "plot": arguments.plot,
        },
        show=lambda: output.print_table(
            f"{len(points)} estimates",
            [*axes, *points[0][1]],
            [(*labels.values(), *map(_cell, figures.values())) for labels, figures in points],
            note=envelope.NOTE,
        ),
    )
    status = envelope.give(arguments, answer, formula=formula, assumptions=assumptions)
    if arguments.plot is not None and not arguments.json:
        print(f"plot: {arguments.plot}")
    return status


def _subject(arguments: argparse.Namespace, axes: Mapping[str, Any]) -> str:
    """Model and device, as far as the sweep leaves them alone."""
    fixed = [vars(arguments).get(name) for name in ("model", "device") if name not in axes]
    return " on ".join(Path(name).name for name in fixed if name) or "sweep"


def _require_sweep_for_plot(arguments: argparse.Namespace) -> None:
    """A plot shows a sweep.

    Raises:
        UsageError: AI-CLI-003.
    """
    if arguments.plot is not None:
        raise UsageError(
            "AI-CLI-003",
            "--plot without --sweep",
            rule="a plot shows how an estimate changes over a sweep",
            fix="add --sweep, for example --sweep batch=1,2,4,8,16,32",
        )


def _axes(arguments: argparse.Namespace) -> dict[str, tuple[Any, ...]]:
    known = [name for name in _AXES if hasattr(arguments, _dest(name))]
    axes: dict[str, tuple[Any, ...]] = {}
    for text in arguments.sweep:
        name, equals, values = text.partition("=")
        name = name.lstrip("-")
        if name not in known or not equals or name in axes:
            raise _wrong(
                f"--sweep {text[:80]!r}",
                f"a sweep has each option once, as OPTION=A,B; here: {', '.join(known)}",
            )
        try:
            axes[name] = tuple(_AXES[name](value) for value in values.split(","))
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise _wrong(
                f"--sweep {name}={values[:80]}: {error}", f"{name} takes what --{name} takes"
            ) from error
    points = math.prod(len(values) for values in axes.values())
    if points > _MOST_POINTS:
        raise _wrong(f"{points:,} combinations", f"a sweep has at most {_MOST_POINTS:,}")
    return axes


def _wrong(what: str, rule: str) -> UsageError:
    return UsageError(
        "AI-EST-006", what, rule=rule, fix="write, for example, --sweep batch=1,8 context=4096"
    )


def _dest(name: str) -> str:
    return name.replace("-", "_")


def _cell(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
