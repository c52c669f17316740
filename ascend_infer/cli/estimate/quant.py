"""`ascend-infer estimate quant`: what quantised weights take, scales and zero points included."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.estimates import QuantLedger


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "quant",
        help="bytes of quantised weights with scales and zero points",
        description="Bits per weight with metadata, per matrix of a model or for --parameters "
        "weights that are all quantised.",
    )
    model_options.add_model(parser, required=False)
    parser.add_argument(
        "--parameters",
        type=float,
        metavar="N",
        help="so many weights, all quantised, instead of --model (8e9)",
    )
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print sizes and bits per weight."""
    from ascend_infer.estimates.quantisation import ASSUMPTIONS, FORMULA

    return sweep.run(arguments, _answer, _point, formula=FORMULA, assumptions=ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    ledger = _ledger(arguments)
    stored = model_options.precision(arguments)
    return envelope.Answer(
        result={"dtypes": stored.to_dict(), "quant": ledger.to_dict()},
        show=lambda: _print(ledger, f"weights in {stored.weights.describe()}"),
    )


def _ledger(arguments: argparse.Namespace) -> QuantLedger:
    from ascend_infer.estimates import quantise_count, quantise_model
    from ascend_infer.estimates.work import require_finite

    stored = model_options.precision(arguments)
    if (arguments.model is None) == (arguments.parameters is None):
        raise UsageError(
            "AI-CLI-003",
            "--model and --parameters are both given, or neither is",
            rule="either the matrices of a model are quantised, or a number of weights",
            fix="give one of the two",
        )
    if arguments.parameters is not None:
        return quantise_count(
            int(require_finite("parameters", arguments.parameters, 1)), stored.weights
        )
    model = model_options.decoder(arguments)
    return quantise_model(model.on_rank(model_options.parallel(arguments)), stored)


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    ledger = _ledger(arguments)
    return {
        "GB": ledger.bytes / 1e9,
        "bits per weight": ledger.bits_per_weight,
        "bits per parameter": ledger.bits_per_parameter,
        "times smaller than 16 bit": ledger.compression,
    }


def _print(ledger: QuantLedger, title: str) -> None:
    from ascend_infer.cli import output

    output.print_table(
        title,
        ("weight", "elements", "data", "scales, zero points", "bits per weight"),
        [
            (
                line.name,
                f"{line.elements:,}",
                envelope.gigabytes(line.data),
                envelope.gigabytes(line.metadata),
                f"{line.bits_per_weight:.4g}",
            )
            for line in ledger.lines
        ],
    )
    _print_totals(ledger)


def _print_totals(ledger: QuantLedger) -> None:
    from ascend_infer.cli import output

    rows = [
        ("quantised", envelope.gigabytes(ledger.data_bytes), f"{ledger.elements:,} weights"),
        ("scales, zero points", envelope.gigabytes(ledger.metadata_bytes), ""),
        ("kept", envelope.gigabytes(ledger.kept_bytes), f"{ledger.kept_elements:,} parameters"),
        ("in total", envelope.gigabytes(ledger.bytes), envelope.gib(ledger.bytes)),
        ("bits per quantised weight", f"{ledger.bits_per_weight:.4g}", ""),
        ("bits per parameter", f"{ledger.bits_per_parameter:.4g}", ""),
        ("smaller than in 16 bit", f"{ledger.compression:.3g} times", ""),
    ]
    output.print_table("Totals", ("what", "figure", ""), rows, note=envelope.NOTE)
