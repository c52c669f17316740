"""`ascend-infer estimate boundary`: what leaving the device in every layer costs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "boundary",
        help="what switching between device and host costs per token",
        description="Layers x boundaries per layer x time per boundary; with --step-ms the share "
        "of a step that this is, and what removing it gains (Amdahl).",
    )
    group = parser.add_argument_group("boundaries")
    layers = group.add_mutually_exclusive_group(required=True)
    layers.add_argument("--layers", type=options.integer(1), metavar="N")
    layers.add_argument("--model", metavar="NAME|FILE", help="whose layers are counted")
    group.add_argument(
        "--per-layer",
        type=options.integer(0),
        default=2,
        metavar="N",
        help="boundaries per layer: out of the device and back (default: 2)",
    )
    group.add_argument(
        "--boundary-us",
        type=float,
        default=50.0,
        metavar="US",
        help="microseconds of one, with conversion and waiting (default: 50)",
    )
    group.add_argument(
        "--steps",
        type=options.integer(1),
        default=1,
        metavar="N",
        help="decode steps of an answer (default: 1)",
    )
    group.add_argument(
        "--step-ms", type=float, metavar="MS", help="a step's time without the boundaries"
    )
    options.add_common(parser)
    parser.set_defaults(run=run, sweep=None, plot=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the cost."""
    from ascend_infer.cli import output
    from ascend_infer.estimates.boundary import BOUNDARY_ASSUMPTIONS, BOUNDARY_FORMULA

    figures = _figures(arguments)
    rows = [(name, f"{value:,.6g}") for name, value in figures.items()]
    answer = envelope.Answer(
        result={"boundary": figures},
        show=lambda: output.print_table("Boundaries", ("what", "figure"), rows, note=envelope.NOTE),
    )
    return envelope.give(
        arguments, answer, formula=BOUNDARY_FORMULA, assumptions=BOUNDARY_ASSUMPTIONS
    )


def _figures(arguments: argparse.Namespace) -> Mapping[str, float]:
    from ascend_infer.estimates import amdahl, boundary_seconds, load_decoder
    from ascend_infer.estimates.work import require_finite

    layers = arguments.layers or len(load_decoder(arguments.model).layers)
    one = arguments.boundary_us * 1e-6
    per_token = boundary_seconds(layers, arguments.per_layer, one)
    figures = {
        "boundaries_per_token": layers * arguments.per_layer,
        "ms_per_token": per_token * 1e3,
        "ms_in_all_steps": 1e3
        * boundary_seconds(layers, arguments.per_layer, one, steps=arguments.steps),
    }
    if arguments.step_ms is not None:
        step = require_finite("step-ms", arguments.step_ms, 0) / 1e3
        share = per_token / (step + per_token) if step + per_token else 0.0
        figures["share_of_step"] = share
        figures["gain_without_boundaries"] = amdahl(share, float("inf")) if share < 1 else 0.0
    return figures
