"""What `estimate buckets` prints."""

from __future__ import annotations

from typing import Any

from ascend_infer.cli import output
from ascend_infer.memory_budget import in_words
from graphs.planning import GridPlan, PlannedBuckets, PlanReport

_MODELLED = "modelled: formulas over the given traffic, not a measurement"


def as_json(
    report: PlanReport, planned: PlannedBuckets | None, grid: GridPlan | None
) -> dict[str, Any]:
    """The report, and where a plan was made, what fewer graphs would cost."""
    result: dict[str, Any] = report.to_dict()
    if planned is not None:
        result["cost"] = float(planned.total_cost)
        result["frontier"] = [
            {"graphs": len(cover.sizes), "cost": float(cover.cost)} for cover in planned.frontier
        ]
    if grid is not None:
        result["grid"] = {
            "shapes": [list(shape) for shape in grid.shapes],
            "cells": float(grid.total_cost),
            "cells_full_width": float(grid.full_width_cost),
        }
    return result


def show(report: PlanReport, planned: PlannedBuckets | None, grid: GridPlan | None) -> None:
    """Tables for people, the warnings last."""
    _buckets(report)
    if planned is not None and len(planned.frontier) > 1:
        _frontier(planned)
    if grid is not None:
        _grid(grid)
    _resources(report)
    for warning in report.warnings:
        print(f"{warning.severity}: {warning.kind}: {warning.message}")
    order = ",".join(map(str, report.plan.capture_order))
    print(f"capture order: {order or 'nothing is captured'}")


def _buckets(report: PlanReport) -> None:
    plan, padding = report.plan, report.padding
    rows = []
    for bucket in plan.sizes:
        steps, padded = padding.steps_by_bucket[bucket], padding.padded_by_bucket[bucket]
        share = padded / (steps * bucket) if steps else 0.0
        first = plan.smallest_batch(bucket)
        served = str(bucket) if first == bucket else f"{first}-{bucket}"
        rows.append((bucket, served, f"{steps:,}", f"{padded:,}", f"{share:.1%}"))
    assumed = " (every batch size equally often)" if report.traffic == "uniform" else ""
    output.print_table(
        f"{len(plan.sizes)} capture sizes{assumed}",
        ("graph", "batches", "steps", "padded rows", "padding"),
        rows,
        note=f"{padding.padded_rows:,} padded rows, {padding.waste:.1%} of all rows in graphs; "
        f"{padding.eager_steps:,} steps without a graph. {_MODELLED}",
    )


def _frontier(planned: PlannedBuckets) -> None:
    best = planned.total_cost
    powers = [1 << n for n in range(len(planned.frontier).bit_length())]
    shown = dict.fromkeys(n for n in (*powers, len(planned.frontier)))
    rows = [
        (
            n,
            f"{float(planned.frontier[n - 1].cost):,.6g}",
            _times(planned.frontier[n - 1].cost, best),
        )
        for n in shown
        if n <= len(planned.frontier)
    ]
    output.print_table("What graphs are worth", ("graphs", "cost", "of the plan's"), rows)


def _times(cost: Any, best: Any) -> str:
    return f"{float(cost / best):.3f}x" if best else "-"


def _grid(grid: GridPlan) -> None:
    rows = [(rows, blocks, f"{rows * blocks:,}") for rows, blocks in grid.shapes]
    output.print_table(
        f"{len(grid.shapes)} capture shapes over two axes",
        ("rows", "blocks", "cells"),
        rows,
        note=f"{float(grid.total_cost):,.6g} cells of the block table in all steps, "
        f"{float(grid.full_width_cost):,.6g} with as many graphs of full width. Kernels that read "
        f"seq_lens on the device skip what is beyond a sequence's end. {_MODELLED}",
    )


def _resources(report: PlanReport) -> None:
    streams, memory = report.streams, report.memory
    topology = streams.topology
    rows: list[tuple[str, str, str]] = [
        (
            f"streams ({topology.mode})",
            f"{streams.needed:,}",
            f"of {streams.limit.streams:,} per device ({streams.limit.chips}), "
            f"{streams.limit.streams - streams.budget} of them for everything else",
        )
    ]
    if memory is not None:
        sources = {
            "inputs": "static inputs with the block table, shared by all graphs",
            "logits": "static output, shared by all graphs",
            "activations": "of the largest graph; the others reuse them from one pool",
            "workspace": "of paged_decode_attention for the largest graph",
        }
        for name, source in sources.items():
            value = getattr(memory, name)
            rows.append((name, "unknown" if value is None else in_words(value), source))
        rows.append(("memory", in_words(memory.total), "without what the driver keeps per task"))
    if report.step_bytes is not None:
        for name, value in (("weights", report.step_bytes.weights), ("kv", report.step_bytes.kv)):
            rows.append((f"{name} read", in_words(int(value)), "per step of the largest batch"))
    output.print_table("Resources per device", ("what", "needed", "notes"), rows, note=_MODELLED)
