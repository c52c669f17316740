"""Where the steps of `simulate-serving` get their time from, and the cache its blocks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ascend_infer.cli.estimate import model_options
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.serving_simulation import StepTime

#: Options of a given step time, which an estimate replaces.
_GIVEN = ("step_ms", "context_ns", "prefill_us")


def add(parser: argparse.ArgumentParser) -> None:
    """The model and the chip of an estimate."""
    before = set(vars(parser.parse_args([])))
    model_options.add_model(parser, required=False)
    model_options.add_device(parser)
    parser.add_argument_group("time of a step").add_argument(
        "--overhead-us",
        type=float,
        metavar="US",
        help="with --model: of every step, for launches and the host (default: 0)",
    )
    after = vars(parser.parse_args([]))
    # What an estimate is made from; without --model anything else than these says nothing.
    parser.set_defaults(of_model={n: v for n, v in after.items() if n not in before | {"model"}})


def refuse_ignored(arguments: argparse.Namespace) -> None:
    """Options of an estimate without one, and given times beside one."""
    if arguments.model is None:
        defaults = arguments.of_model
        names = [name for name, value in defaults.items() if getattr(arguments, name) != value]
        other = "a given step time; they belong to --model"
    else:
        names = [name for name in _GIVEN if getattr(arguments, name) is not None]
        other = "--model, which estimates them"
    if names:
        given = ", ".join("--" + name.replace("_", "-") for name in names)
        raise UsageError(
            "AI-CLI-003",
            f"{given} beside {other}",
            rule="the time of a step is given, or estimated from a model and a chip",
            fix=f"leave out {given}" if arguments.model is not None else "add --model",
        )


def step_time(arguments: argparse.Namespace) -> StepTime:
    """Given by constants, or estimated."""
    if arguments.model is None:
        from ascend_infer.serving_simulation import GivenStepTime

        return GivenStepTime(
            step=arguments.step_ms / 1e3,
            per_context_token=arguments.context_ns / 1e9,
            per_prompt_token=arguments.prefill_us / 1e6,
        )
    from ascend_infer.serving_simulation.estimated import EstimatedStepTime

    return EstimatedStepTime(
        **_parts(arguments), overhead_seconds=(arguments.overhead_us or 0.0) / 1e6
    )


def blocks(arguments: argparse.Namespace) -> int | None:
    """What the chip's memory holds beside the weights; None without a model."""
    if arguments.model is None:
        return None
    from ascend_infer.serving_simulation.estimated import blocks_beside_weights

    return blocks_beside_weights(**_parts(arguments), block_size=arguments.block_size)


def described(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Model, dtypes, ranks and chip as JSON-ready fields; None where times are given."""
    if arguments.model is None:
        return None
    parts = _parts(arguments)
    return model_options.described(parts["decoder"], arguments) | {"device": parts["roof"].name}


def _parts(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "decoder": model_options.decoder(arguments),
        "roof": model_options.roof(arguments),
        "precision": model_options.precision(arguments),
        "parallel": model_options.parallel(arguments),
    }
