"""`ascend-infer vllm verify`: what vLLM decodes with our operators and without them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ascend_infer.cli import options
from ascend_infer.verification.vllm.engine import LIMIT_S, MODES
from ascend_infer.verification.vllm.rounds import LENGTHS


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "verify",
        help="decode without and with our operators, and compare",
        description="Start stock vLLM without graphs and without our operators, then with them in "
        "each graph mode; decode the same random prompts in batches that grow and shrink, and "
        "compare tokens and logits step by step. Two tokens may be exchanged only where their "
        "logits are as near as rounding leaves them. Exit code 0: all agree and our operators "
        "served; 1: not.",
    )
    parser.add_argument("model", help="as vLLM takes it: a folder, or a name it can load")
    engines = parser.add_argument_group("engines")
    engines.add_argument(
        "--mode",
        dest="modes",
        action="append",
        choices=MODES,
        help="graph mode; repeatable (default: FULL_AND_PIECEWISE, as the host's)",
    )
    engines.add_argument(
        "--ops", default="all", help="what is replaced, as ASCEND_INFER_VLLM_OPS (default: all)"
    )
    engines.add_argument(
        "--dtype",
        default="auto",
        choices=("auto", *options.DTYPE_NAMES),
        help="of the model (default: auto, as its config says)",
    )
    engines.add_argument(
        "--engine",
        type=_arguments,
        default={},
        metavar="JSON",
        help="further arguments of vllm.LLM as an object, for example "
        "'{\"tensor_parallel_size\": 2}'; they win over all others",
    )
    engines.add_argument(
        "--limit",
        type=options.integer(1),
        default=int(LIMIT_S),
        metavar="SECONDS",
        help=f"of each engine (default: {LIMIT_S:.0f})",
    )
    extent = parser.add_argument_group("extent")
    extent.add_argument(
        "--prompt-lengths",
        type=options.integer_list(1),
        default=LENGTHS,
        metavar="N,N",
        help=f"tokens of each prompt (default: {','.join(map(str, LENGTHS))})",
    )
    extent.add_argument(
        "--new-tokens",
        type=options.integer(2),
        default=16,
        metavar="N",
        help="to decode after each prompt (default: 16)",
    )
    extent.add_argument(
        "--batch",
        type=options.integer(1),
        default=4,
        metavar="N",
        help="sequences that decode together at most (default: 4)",
    )
    extent.add_argument(
        "--tolerance",
        type=_ulps,
        metavar="ULPS",
        help="how far a gap between two logits may move, in units in the last place of the dtype "
        "(default: 4 sqrt(2 layers))",
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not an object")
    return value


def _ulps(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a distance")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run `vllm verify`; 1 when something differs or an operator did not serve."""
    from ascend_infer.cli import output, progress
    from ascend_infer.cli.verify import print_report
    from ascend_infer.verification.vllm.check import VllmOptions, verify_vllm

    chosen = VllmOptions(
        model=arguments.model,
        modes=tuple(dict.fromkeys(arguments.modes or ["FULL_AND_PIECEWISE"])),
        ops=arguments.ops,
        lengths=arguments.prompt_lengths,
        new_tokens=arguments.new_tokens,
        batch=arguments.batch,
        dtype=arguments.dtype,
        engine=arguments.engine,
        tolerance=arguments.tolerance,
        limit_s=arguments.limit,
    )
    with progress.bar(enabled=not arguments.json) as reporter:
        report = verify_vllm(chosen, reporter)
    if arguments.json:
        output.print_json(report.to_dict())
    else:
        print_report(report)
    return 0 if report.passed else 1
