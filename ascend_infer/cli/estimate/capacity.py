"""`ascend-infer estimate capacity`: how many sequences fit beside the weights."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, kv, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates import Capacity


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "capacity",
        help="how many sequences fit into the device's memory",
        description="Memory less reserve and weights, divided by the cache of a sequence. The exit "
        "code is 1 when not one sequence of each context fits.",
    )
    model_options.add_model(parser)
    model_options.add_device(parser)
    group = parser.add_argument_group("load")
    group.add_argument(
        "--context",
        type=options.integer_list(1),
        default=(8192, 131072),
        metavar="LIST",
        help="tokens per sequence (default: 8192,131072)",
    )
    group.add_argument(
        "--reserve",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="of the memory, for everything but weights and cache (default: 0.1)",
    )
    group.add_argument(
        "--workspace-gib",
        type=float,
        default=0.0,
        metavar="X",
        help="that kernels hold beside the reserve (default: 0)",
    )
    group.add_argument(
        "--parameters",
        type=float,
        metavar="N",
        help="of the whole model, as its card states them (7.61e9), instead of those by shape",
    )
    kv.add_block_size(parser)
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the budget; 1 when a sequence does not fit."""
    from ascend_infer.estimates.capacity import ASSUMPTIONS, FORMULA

    return sweep.run(arguments, _answer, _point, formula=FORMULA, assumptions=ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    room = _capacity(arguments)
    model, roof = model_options.decoder(arguments), model_options.roof(arguments)
    return envelope.Answer(
        result={
            **model_options.described(model, arguments),
            "device": roof.name,
            "capacity": room.to_dict(),
        },
        show=lambda: _print(room, f"{model.name} on {roof.name}, per rank"),
        notes=model.notes,
        passed=room.fits,
    )


def _capacity(arguments: argparse.Namespace) -> Capacity:
    from ascend_infer.estimates import capacity, kv_ledger, weight_ledger
    from ascend_infer.estimates.work import require_finite

    model, stored = model_options.decoder(arguments), model_options.precision(arguments)
    rank = model.on_rank(model_options.parallel(arguments))
    weights = weight_ledger(rank, stored).bytes
    if arguments.parameters is not None:
        stated = require_finite("parameters", arguments.parameters, 1)
        weights = round(weights * stated / weight_ledger(model, stored).parameters)
    contexts = arguments.context
    contexts = contexts if isinstance(contexts, tuple) else (contexts,)
    return capacity(
        model_options.roof(arguments).memory_bytes,
        weights,
        kv_ledger(rank, stored.kv, context=contexts[0], block_size=arguments.block_size),
        contexts,
        reserve=arguments.reserve,
        workspace_bytes=int(require_finite("workspace", arguments.workspace_gib) * 2**30),
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    room = _capacity(arguments)
    sequences = {
        f"sequences of {context}" if len(room.sequences) > 1 else "sequences": count
        for context, count in room.sequences.items()
    }
    return {
        **sequences,
        "KV budget GiB": room.kv_budget / 2**30,
        "weights GiB": room.weights / 2**30,
    }


def _print(room: Capacity, title: str) -> None:
    from ascend_infer.cli import output

    rows = [
        ("memory", envelope.gib(room.memory), ""),
        ("reserve", envelope.gib(room.memory - room.usable), f"{room.reserve:.0%}"),
        ("weights", envelope.gib(room.weights), ""),
        ("workspace", envelope.gib(room.workspace), ""),
        ("KV budget", envelope.gib(room.kv_budget), f"{room.cached_tokens:,} tokens"),
    ]
    output.print_table(title, ("what", "bytes", ""), rows)
    output.print_table(
        "Sequences that fit",
        ("context", "sequences"),
        [(f"{context:,}", f"{count:,}") for context, count in room.sequences.items()],
        note=envelope.NOTE,
    )
