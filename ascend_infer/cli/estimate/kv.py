"""`ascend-infer estimate kv`: keys and values per token, layer, sequence, block and batch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates import KvLedger

_FORMULA = (
    "2 x KV heads x head size x bytes per token and layer; MLA: (latent + rotated key) x bytes"
)
_ASSUMPTIONS = (
    "a layer with a window keeps that many tokens",
    "a decode step reads each cached token once and writes one token per sequence",
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "kv",
        help="keys and values per token, sequence, block and batch",
        description="Bytes of the KV cache on one rank: per token and layer, per token, per block, "
        "per sequence, in total, and what a decode step reads and writes.",
    )
    model_options.add_model(parser)
    model_options.add_load(parser)
    add_block_size(parser)
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def add_block_size(parser: argparse.ArgumentParser) -> None:
    """`--block-size`."""
    parser.add_argument(
        "--block-size",
        type=options.integer(1),
        default=128,
        metavar="TOKENS",
        help="tokens per block of the cache (default: 128)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the ledger."""
    return sweep.run(arguments, _answer, _point, formula=_FORMULA, assumptions=_ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    ledger, model = _ledger(arguments), model_options.decoder(arguments)
    title = f"KV cache of {model.name}, {model_options.precision(arguments).kv.describe()}"
    return envelope.Answer(
        result={**model_options.described(model, arguments), "kv": ledger.to_dict()},
        show=lambda: _print(ledger, title),
        notes=model.notes,
    )


def _ledger(arguments: argparse.Namespace) -> KvLedger:
    from ascend_infer.estimates import kv_ledger

    return kv_ledger(
        model_options.decoder(arguments).on_rank(model_options.parallel(arguments)),
        model_options.precision(arguments).kv,
        context=arguments.context,
        batch=arguments.batch,
        block_size=arguments.block_size,
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    ledger = _ledger(arguments)
    return {
        "GiB in total": ledger.total_bytes / 2**30,
        "GiB per sequence": ledger.sequence_bytes / 2**30,
        "KiB per token": ledger.token_bytes / 2**10,
    }


def _print(ledger: KvLedger, title: str) -> None:
    from ascend_infer.cli import output

    output.print_table(
        title,
        ("layers", "kind", "window", "KV heads", "per token and layer"),
        [
            (
                kind.layers,
                kind.kind,
                kind.window or "-",
                kind.kv_heads,
                f"{kind.token_bytes:,} B",
            )
            for kind in ledger.layers
        ],
    )
    _print_totals(ledger)


def _print_totals(ledger: KvLedger) -> None:
    from ascend_infer.cli import output

    allocated = ledger.allocated_bytes_at(ledger.context)
    saving = ledger.mha_sequence_bytes / ledger.sequence_bytes
    rows = [
        ("per token", envelope.kib(ledger.token_bytes), f"{ledger.token_bytes:,} B in all layers"),
        ("per block", envelope.kib(ledger.block_bytes), f"{ledger.block_size} tokens"),
        ("per sequence", envelope.gib(ledger.sequence_bytes), f"{ledger.context:,} tokens"),
        ("per sequence, in blocks", envelope.gib(allocated), ""),
        (
            "per sequence as MHA",
            envelope.gib(ledger.mha_sequence_bytes),
            f"{saving:,.3g} times as much",
        ),
        ("in total", envelope.gib(ledger.total_bytes), f"batch {ledger.batch:,}"),
        ("read per decode step", envelope.gib(ledger.read_bytes), ""),
        ("written per decode step", envelope.kib(ledger.write_bytes), ""),
    ]
    output.print_table("Totals on one rank", ("what", "bytes", ""), rows, note=envelope.NOTE)
