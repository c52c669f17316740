"""`ascend-infer verify`: operators, the decode block, or a whole model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascend_infer import devices
from ascend_infer.cli import options

if TYPE_CHECKING:
    from ascend_infer.progress import Reporter
    from ascend_infer.session import SessionOptions
    from ascend_infer.verification.replay import ReplayOptions
    from ascend_infer.verification.result import CheckReport, CheckResult

#: Prompts of different lengths: a batch of three is padded to bucket 4.
_PROMPTS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "List three colours, one per line, and say for each of them where it is found in nature.",
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "verify",
        help="check operators, the decode block or a model",
        description="ops: every kernel against its reference, the same bits under every schedule. "
        "block: one decode step of a few layers, likewise, and eager against replay. "
        "model: decoded steps against transformers, a batch against its rows alone, eager against "
        "replay.",
    )
    parser.add_argument("scope", choices=("ops", "block", "model"))
    options.add_device(parser)
    options.add_model(parser)
    options.add_simulation(parser)
    group = parser.add_argument_group("extent")
    group.add_argument(
        "--op", action="append", default=[], help="ops: only this operator; repeatable"
    )
    group.add_argument(
        "--max-bytes",
        type=options.integer(1),
        default=4 << 20,
        help="ops: leave out workloads that move more (default: 4 MiB)",
    )
    group.add_argument(
        "--layers", type=options.integer(1), default=2, help="block: layers (default: 2)"
    )
    group.add_argument(
        "--steps", type=options.integer(1), default=32, help="model: decode steps (default: 32)"
    )
    group.add_argument(
        "--rounds",
        type=options.integer(1),
        default=3,
        help="block, model: rounds of eager vs replay per bucket (default: 3)",
    )
    group.add_argument(
        "--invariance",
        action="store_true",
        help="block, model: also report whether a row's bits depend on the batch it is in",
    )
    group.add_argument(
        "--soak",
        type=options.integer(1),
        default=0,
        metavar="N",
        help="block, model: replay the same steps N times and look for drift and leaks "
        "(1000 is plenty)",
    )
    group.add_argument(
        "--batch", type=options.integer(1), default=3, help="block, model: sequences (default: 3)"
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the checks; 1 when one of them failed."""
    devices.require_torch()
    from ascend_infer.cli import output, progress

    scopes = {"ops": _ops, "block": _block, "model": _model}
    with progress.bar(enabled=not arguments.json) as reporter:
        report = scopes[arguments.scope](arguments, reporter)
    if arguments.json:
        output.print_json(report.to_dict())
    else:
        print_report(report)
    return 0 if report.passed else 1


def print_report(report: CheckReport) -> None:
    """One row per check; operators have too many cases for that, so theirs are summed up."""
    from ascend_infer.cli import output

    rows = _by_operator(report) if report.scope == "ops" else list(map(_row, report.results))
    output.print_table(
        f"verify {report.scope} on {report.device}",
        ("subject", "check", "verdict", "detail", "evidence"),
        rows,
        note="; ".join(report.notes),
    )


def _row(result: CheckResult) -> tuple[str, ...]:
    verdict = "passed" if result.passed else "FAILED"
    return (result.subject, result.check, verdict, result.detail, str(result.evidence))


def _by_operator(report: CheckReport) -> list[tuple[str, ...]]:
    """Per operator and check one row for all that passed, and one for each that failed."""
    passed: dict[tuple[str, str], list[CheckResult]] = {}
    for result in report.results:
        if result.passed:
            passed.setdefault((result.subject.split()[0], result.check), []).append(result)
    rows = []
    for (operator, check), results in passed.items():
        detail = f"{len(results)} cases"
        if check == "reference":
            worst = max(result.values["share_of_tolerance"] for result in results)
            detail += f", worst at {worst:.0%} of its tolerance"
        elif check == "schedules":
            detail += f", same bits under {', '.join(results[0].values['schedules'])}"
        rows.append((operator, check, "passed", detail, str(results[0].evidence)))
    return rows + [_row(result) for result in report.results if not result.passed]


def _ops(arguments: argparse.Namespace, reporter: Reporter) -> CheckReport:
    from ascend_infer.verification.ops import OpsOptions, verify_ops

    chosen = OpsOptions(
        names=tuple(arguments.op),
        max_bytes=arguments.max_bytes,
        checks=arguments.checks,
        precise=arguments.precise,
    )
    return verify_ops(devices.open_device(arguments.device), chosen, reporter)


def _block(arguments: argparse.Namespace, reporter: Reporter) -> CheckReport:
    from ascend_infer.model.catalogue import resolve
    from ascend_infer.verification.block import verify_block

    location = resolve(arguments.model)
    device = devices.open_device(arguments.device)
    return verify_block(
        location.open(),
        device,
        _session_options(arguments, device, arguments.batch, 2 * arguments.block_size),
        layers=arguments.layers,
        replay=_replay_options(arguments),
        simulation=options.simulation(arguments),
        reporter=reporter,
    )


def _model(arguments: argparse.Namespace, reporter: Reporter) -> CheckReport:
    from ascend_infer.model.catalogue import resolve
    from ascend_infer.tokenizer import load_tokenizer
    from ascend_infer.verification.model import verify_model

    location = resolve(arguments.model)
    tokenizer = load_tokenizer(location)
    encode = tokenizer.encode if tokenizer.chat_template is None else tokenizer.encode_chat
    texts = [_PROMPTS[row % len(_PROMPTS)] for row in range(arguments.batch)]
    prompts = [encode(text) for text in texts]
    longest = max(map(len, prompts)) + arguments.steps + 1
    device = devices.open_device(arguments.device)
    return verify_model(
        location.open(),
        device,
        _session_options(arguments, device, len(prompts), longest),
        prompts,
        steps=arguments.steps,
        replay=_replay_options(arguments),
        simulation=options.simulation(arguments),
        reporter=reporter,
    )


def _replay_options(arguments: argparse.Namespace) -> ReplayOptions:
    from ascend_infer.verification.replay import ReplayOptions

    return ReplayOptions(
        rounds=arguments.rounds, invariance=arguments.invariance, soak=arguments.soak
    )


def _session_options(
    arguments: argparse.Namespace, device: devices.Device, max_batch: int, max_tokens: int
) -> SessionOptions:
    from ascend_infer.session import SessionOptions

    return SessionOptions(
        dtype=arguments.dtype,
        # A fallback would make the result meaningless where there are kernels to verify.
        strict=device.name in ("npu", "sim"),
        max_batch=max_batch,
        max_tokens=max_tokens,
        block_size=arguments.block_size,
        num_blocks=arguments.num_blocks or 0,
    )
