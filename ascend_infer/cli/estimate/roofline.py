"""`ascend-infer estimate roofline`: where products stop being bound by memory, and floors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates.roofline import RooflineLedger


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "roofline",
        help="arithmetic intensity, flip points, the floor of reading the weights",
        description="FLOP per byte of each matrix product at --rows rows, the rows from which it "
        "is bound by compute, and the time that reading all weights takes.",
    )
    model_options.add_model(parser)
    model_options.add_device(parser)
    parser.add_argument(
        "--rows",
        type=options.integer(1),
        default=1,
        metavar="M",
        help="rows of the products: the batch in decode, tokens in prefill (default: 1)",
    )
    parser.add_argument(
        "--shapes",
        type=_shapes,
        default=(),
        metavar="NxK,...",
        help="further products, such as 18944x3584",
    )
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def _shapes(text: str) -> tuple[tuple[int, int], ...]:
    whole = options.integer(1)
    pairs = [part.split("x") for part in text.lower().split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no list of NxK")
    return tuple((whole(n), whole(k)) for n, k in pairs)


def run(arguments: argparse.Namespace) -> int:
    """Print intensities and floors."""
    from ascend_infer.estimates.roofline import ASSUMPTIONS, FORMULA

    return sweep.run(arguments, _answer, _point, formula=FORMULA, assumptions=ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    ledger = _ledger(arguments)
    model, roof = model_options.decoder(arguments), model_options.roof(arguments)
    return envelope.Answer(
        result={
            **model_options.described(model, arguments),
            **roof.to_dict(),
            "roofline": ledger.to_dict(),
        },
        show=lambda: _print(ledger, f"{model.name} on {roof.name}"),
        notes=model.notes,
    )


def _ledger(arguments: argparse.Namespace) -> RooflineLedger:
    from ascend_infer.estimates import roofline_ledger

    return roofline_ledger(
        model_options.decoder(arguments).on_rank(model_options.parallel(arguments)),
        model_options.roof(arguments),
        model_options.precision(arguments),
        rows=arguments.rows,
        shapes=arguments.shapes,
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    ledger = _ledger(arguments)
    return {
        "tokens/s by weights alone": ledger.batch_tokens_per_second,
        "floor ms": ledger.floor_seconds * 1e3,
        "balance FLOP/B": ledger.balance,
        "attention FLOP/B": ledger.attention_intensity,
    }


def _print(ledger: RooflineLedger, title: str) -> None:
    from ascend_infer.cli import output

    output.print_table(
        f"{title}, {ledger.rows:,} rows",
        ("product", "N", "K", "FLOP/B", "bound by compute from"),
        [
            (
                product.name,
                f"{product.n:,}",
                f"{product.k:,}",
                f"{product.intensity:,.2f}",
                "never" if product.flip_rows is None else f"{product.flip_rows:,} rows",
            )
            for product in ledger.products
        ],
        note=f"balance {ledger.balance:,.0f} FLOP/B ({ledger.dtype}); without activations the flip "
        f"is at {ledger.simplified_flip:,.0f} rows; decode attention has "
        f"{ledger.attention_intensity:,.3g} FLOP/B at any context",
    )
    output.print_table(
        "Floor of reading all weights",
        ("what", "figure"),
        [
            ("weights", envelope.gigabytes(ledger.weight_bytes)),
            ("one reading", f"{envelope.milliseconds(ledger.floor_seconds)} ms"),
            ("one sequence, at most", f"{ledger.tokens_per_second:,.0f} tokens/s"),
            (f"{ledger.rows:,} rows, at most", f"{ledger.batch_tokens_per_second:,.0f} tokens/s"),
        ],
        note=envelope.NOTE,
    )
