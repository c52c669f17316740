"""`ascend-infer estimate weights`: parameters by layer and matrix, and what they take."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates import WeightLedger
    from ascend_infer.estimates.weights import WeightLine


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "weights",
        help="parameters by layer and matrix, and their bytes",
        description="Parameters by shape: per layer, per matrix, in total and active per token; "
        "bytes in the given dtypes on one rank.",
    )
    model_options.add_model(parser)
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the ledger of the model and of one rank."""
    from ascend_infer.estimates.weights import FORMULA

    return sweep.run(arguments, _answer, _point, formula=FORMULA)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    from ascend_infer.estimates import weight_ledger

    model, stored = model_options.decoder(arguments), model_options.precision(arguments)
    whole = weight_ledger(model, stored)
    rank = weight_ledger(model.on_rank(model_options.parallel(arguments)), stored)
    return envelope.Answer(
        result={
            **model_options.described(model, arguments),
            "weights": whole.to_dict(),
            "rank": {"parameters": rank.parameters, "bytes": rank.bytes},
        },
        show=lambda: _print(whole, rank, f"{model.name} ({model.architecture})"),
        notes=model.notes,
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    from ascend_infer.estimates import weight_ledger

    model = model_options.decoder(arguments).on_rank(model_options.parallel(arguments))
    ledger = weight_ledger(model, model_options.precision(arguments))
    return {
        "GB per rank": ledger.bytes / 1e9,
        "parameters per rank": ledger.parameters,
        "active parameters": ledger.active,
    }


def _row(line: WeightLine) -> tuple[object, ...]:
    return (
        line.part,
        line.count,
        line.name,
        line.shape or "-",
        f"{line.elements:,}",
        envelope.gigabytes(line.bytes),
    )


def _print(whole: WeightLedger, rank: WeightLedger, title: str) -> None:
    from ascend_infer.cli import output

    output.print_table(
        title,
        ("part", "layers", "weight", "shape", "elements", "bytes"),
        [_row(line) for line in whole.lines],
        note="elements and bytes are of one layer",
    )
    _print_totals(whole, rank)


def _print_totals(whole: WeightLedger, rank: WeightLedger) -> None:
    from ascend_infer.cli import output

    rows = [
        (
            f"{group.count} layers: {group.kind}",
            f"{envelope.parameters(group.matrix_elements)} each",
            f"{envelope.parameters(group.parameters)} each with norms and biases",
        )
        for group in whole.groups
    ]
    rows += [
        ("embedding and head", envelope.parameters(whole.vocabulary_elements), ""),
        ("matrices", envelope.parameters(whole.matrix_elements), ""),
        ("parameters", envelope.parameters(whole.parameters), f"{whole.parameters:,}"),
        ("without embedding and head", envelope.parameters(whole.non_embedding), ""),
        (
            "active per token",
            envelope.parameters(whole.active),
            f"{envelope.parameters(whole.active_products)} without the embedding table",
        ),
        ("bytes", envelope.gigabytes(whole.bytes), envelope.gib(whole.bytes)),
        ("bytes per rank", envelope.gigabytes(rank.bytes), envelope.gib(rank.bytes)),
    ]
    output.print_table("Totals", ("what", "figure", ""), rows, note=envelope.NOTE)
