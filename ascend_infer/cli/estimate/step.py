"""`ascend-infer estimate step`: the bound of a decode or prefill step, by operator."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import envelope, model_options, sweep

if TYPE_CHECKING:
    from ascend_infer.estimates import StepEstimate


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "step",
        help="the bound of a decode or prefill step, by operator",
        description="A lower bound of one step on one rank: each operator takes at least its "
        "compute or its memory time. Traffic that ledgers often leave out (writing the cache, "
        "partial results of split attention, elementwise operators) comes as lines of its own.",
    )
    model_options.add_model(parser)
    model_options.add_device(parser)
    model_options.add_load(parser)
    parser.add_argument(
        "--prefill",
        type=options.integer(1),
        metavar="TOKENS",
        help="a prefill step of so many new tokens per sequence, which end at --context",
    )
    parser.add_argument(
        "--kv-splits",
        type=options.integer(1),
        default=1,
        metavar="N",
        help="parts of the keys in decode attention, whose partial results are merged (default: 1)",
    )
    sweep.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the operators with their bounds."""
    from ascend_infer.estimates.step import ASSUMPTIONS, FORMULA

    return sweep.run(arguments, _answer, _point, formula=FORMULA, assumptions=ASSUMPTIONS)


def _answer(arguments: argparse.Namespace) -> envelope.Answer:
    step = _estimate(arguments)
    model, roof = model_options.decoder(arguments), model_options.roof(arguments)
    what = f"prefill of {arguments.prefill:,} tokens" if arguments.prefill else "decode"
    title = (
        f"{what}, batch {arguments.batch:,}, context {arguments.context:,}, "
        f"{model.name} on {roof.name} ({roof.bandwidth.value / 1e12:.3g} TB/s)"
    )
    return envelope.Answer(
        result={
            **model_options.described(model, arguments),
            **roof.to_dict(),
            "batch": arguments.batch,
            "context": arguments.context,
            "prefill": arguments.prefill,
            "step": step.to_dict(),
        },
        show=lambda: _print(step, title),
        notes=model.notes,
    )


def _estimate(arguments: argparse.Namespace) -> StepEstimate:
    from ascend_infer.estimates import Work, estimate_step
    from kernels_npu.errors import UsageError

    batch, context, new = arguments.batch, arguments.context, arguments.prefill
    if new is not None and new > context:
        raise UsageError(
            "AI-CLI-003",
            f"--prefill {new} with --context {context}",
            rule="the new tokens are the last ones of the context",
            fix=f"give --context {new} or more",
        )
    work = Work.batch(batch, context) if new is None else Work.prefill(new, context - new, batch)
    return estimate_step(
        model_options.decoder(arguments),
        work,
        model_options.roof(arguments),
        model_options.precision(arguments),
        model_options.parallel(arguments),
        kv_splits=arguments.kv_splits,
    )


def _point(arguments: argparse.Namespace) -> dict[str, float]:
    step = _estimate(arguments)
    return {
        "ms per step": step.seconds * 1e3,
        "tokens/s": step.rows / step.seconds,
        "attention %": 100 * step.share("attention"),
        "weights %": 100 * step.share("weights"),
        "ms of further traffic": step.further_seconds * 1e3,
    }


def _print(step: StepEstimate, title: str) -> None:
    from ascend_infer.cli import output

    columns = ("operator", "launches", "GFLOP", "weights", "KV", "activations", "ms", "share", "by")

    def rows(*, further: bool) -> list[tuple[object, ...]]:
        chosen = [line for line in step.lines if (line.kind == "further") == further]
        return [
            (
                line.name,
                line.launches,
                f"{line.flops / 1e9:,.2f}",
                *map(envelope.gigabytes, (line.weight_bytes, line.kv_bytes, line.activation_bytes)),
                envelope.milliseconds(line.seconds),
                f"{line.seconds / step.seconds:.1%}",
                line.bound,
            )
            for line in sorted(chosen, key=lambda line: -line.seconds)
        ]

    output.print_table(
        title,
        columns,
        rows(further=False),
        note=f"bound {step.seconds * 1e3:,.2f} ms: weights {step.share('weights'):.1%}, "
        f"attention {step.share('attention'):.1%}, norms {step.share('norm'):.1%}; at most "
        f"{step.rows / step.seconds:,.0f} tokens/s. {envelope.NOTE}",
    )
    output.print_table(
        "Further traffic, where it is not fused away",
        columns,
        rows(further=True),
        note=f"{step.further_seconds * 1e3:,.3f} ms on top, "
        f"{(step.seconds + step.further_seconds) * 1e3:,.2f} ms with it",
    )
    for size, what in (
        (step.metadata_bytes, "of the weights that are read are scales and zero points"),
        (step.workspace_bytes, "of workspace hold the partial results of split attention"),
        (
            step.collective_bytes,
            "are sent by each rank in two all-reduces per layer, whose time is not counted",
        ),
    ):
        if size:
            print(f"{envelope.gigabytes(size)} {what}")
