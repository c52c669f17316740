"""`ascend-infer estimate advice`: what to optimise, and what to measure next."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates import Advice


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "advice",
        help="what limits decode, what could gain, what to measure next",
        description="For a model, device, batch and context: the bound per class of operators, the "
        "most that quantisation, batching or better kernels gain, the next measurement.",
    )
    model_options.add_model(parser)
    model_options.add_device(parser)
    model_options.add_load(parser)
    parser.add_argument(
        "--measured-ms", type=float, metavar="MS", help="of a real decode step, if there is one"
    )
    parser.add_argument(
        "--efficiency",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="of their bound that kernels are assumed to reach today (default: 0.5)",
    )
    parser.add_argument(
        "--reserve",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="of the memory, for everything but weights and cache (default: 0.1)",
    )
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print classes, gains and measurements."""
    from ascend_infer.estimates.advice import FORMULA
    from ascend_infer.estimates.step import ASSUMPTIONS

    return sweep.run(arguments, _answer, _point, formula=FORMULA, assumptions=ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    advice = _advice(arguments)
    model, roof = model_options.decoder(arguments), model_options.roof(arguments)
    title = f"{model.name} on {roof.name}, batch {arguments.batch}, {arguments.context:,}"
    return envelope.Answer(
        result={
            **model_options.described(model, arguments),
            "device": roof.name,
            "batch": arguments.batch,
            "context": arguments.context,
            "advice": advice.to_dict(),
        },
        show=lambda: _print(advice, title),
        notes=model.notes,
    )


def _advice(arguments: argparse.Namespace) -> Advice:
    from ascend_infer.estimates import advise

    measured = arguments.measured_ms
    return advise(
        model_options.decoder(arguments),
        model_options.roof(arguments),
        batch=arguments.batch,
        context=arguments.context,
        precision=model_options.precision(arguments),
        parallel=model_options.parallel(arguments),
        measured_seconds=None if measured is None else measured / 1e3,
        efficiency=arguments.efficiency,
        reserve=arguments.reserve,
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    advice = _advice(arguments)
    shares = {f"{one.name} %": 100 * one.share for one in advice.classes}
    return {"bound ms": advice.step.seconds * 1e3, **shares}


def _print(advice: Advice, title: str) -> None:
    from ascend_infer.cli import output

    output.print_table(
        title,
        ("class", "ms", "share", "bound by", "largest"),
        [
            (
                one.name,
                envelope.milliseconds(one.seconds),
                f"{one.share:.1%}",
                one.bound,
                one.largest,
            )
            for one in advice.classes
        ],
        note=f"{advice.verdict}. {envelope.NOTE}",
    )
    output.print_table(
        "What could gain, at most",
        ("change", "step", "throughput", "on condition of"),
        [
            (gain.change, f"{gain.latency:.2f}x", f"{gain.throughput:.2f}x", gain.condition)
            for gain in advice.gains
        ],
    )
    for number, text in enumerate(advice.measurements, start=1):
        print(f"measure {number}: {text}")
