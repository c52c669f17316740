"""Padded rows of planned capture sizes beside vLLM's default list, at the same number of graphs.

Sizes are planned on one realisation of a trace. They are judged on that one, and, because traffic
does not repeat itself, on further ones of the same process ("held out").

The default list for max_num_seqs=256 has 35 full decode graphs. Where streams allow fewer,
vllm-ascend up to 0.18 kept a uniform sample of it with both ends; the second comparison, 13 graphs,
is what 64 layers and tensor parallelism leave for piecewise capture.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.graphs.traces import MAX_BATCH, TRACES
from graphs.buckets import BucketPlan
from graphs.planning import RULES, default_sizes, full_decode_sizes, plan_buckets


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One trace and one number of graphs; figures are padded rows, evidence `modelled`.

    waste: padded rows as a share of all rows in graphs, planned and default.
    held_out: planned over default on each further realisation.
    """

    trace: str
    graphs: int
    steps: int
    planned: int
    default: int
    waste: tuple[float, float]
    held_out: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def ratio(self) -> float:
        return self.planned / self.default


def compare(
    name: str, process: Callable[[int], list[int]], graphs: int, *, seed: int, held_out: int
) -> Comparison:
    """Plan on `seed`, judge there and on the `held_out` seeds after it."""
    steps = Counter(process(seed))
    ours = plan_buckets(MAX_BATCH, steps, max_graphs=graphs).plan
    theirs = default_plan(graphs)
    own, default = ours.padding(steps), theirs.padding(steps)
    others = [Counter(process(seed + n)) for n in range(1, held_out + 1)]
    return Comparison(
        trace=name,
        graphs=graphs,
        steps=sum(steps.values()),
        planned=own.padded_rows,
        default=default.padded_rows,
        waste=(own.waste, default.waste),
        held_out=tuple(
            ours.padding(other).padded_rows / theirs.padding(other).padded_rows for other in others
        ),
        sizes=ours.sizes,
    )


def default_plan(graphs: int) -> BucketPlan:
    """vLLM's default list; of fewer graphs a uniform sample that keeps both ends."""
    sizes = full_decode_sizes(default_sizes(MAX_BATCH, "vllm"), MAX_BATCH)
    last = len(sizes) - 1
    kept = {round(n * last / (graphs - 1)) for n in range(graphs)}
    return BucketPlan.of((sizes[n] for n in kept), max_batch=MAX_BATCH)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--seed", type=int, default=1, help="of the planned traces (default: 1)")
    parser.add_argument(
        "--held-out", type=int, default=8, help="further seeds that judge a plan (default: 8)"
    )
    parser.add_argument(
        "--graphs",
        type=int,
        nargs="+",
        default=[35, 13],
        help="numbers of graphs, 2 to 35 (default: 35 and 13)",
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, object]:
    """The table, and its figures."""
    results = [
        compare(name, process, graphs, seed=arguments.seed, held_out=arguments.held_out)
        for graphs in arguments.graphs
        for name, process in TRACES.items()
    ]
    table = Table(title="padded rows, planned beside vLLM's default list (modelled)")
    for heading in ("trace", "graphs", "planned", "default", "ratio", "waste", "held out"):
        table.add_column(heading, justify="left" if heading == "trace" else "right")
    for r in results:
        spread = "-"
        if r.held_out:
            spread = (
                f"{statistics.median(r.held_out):.2f} ({min(r.held_out):.2f}-{max(r.held_out):.2f})"
            )
        table.add_row(
            r.trace,
            str(r.graphs),
            f"{r.planned:,}",
            f"{r.default:,}",
            f"{r.ratio:.2f}",
            f"{r.waste[0]:.1%} / {r.waste[1]:.1%}",
            spread,
        )
    console.print(table)
    return {
        "rule": RULES["vllm"].source,
        "max_batch": MAX_BATCH,
        "comparisons": [{**asdict(r), "ratio": r.ratio} for r in results],
    }
