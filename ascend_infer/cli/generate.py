"""`ascend-infer generate`: decode a real model, and prove what was decoded."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ascend_infer import devices
from ascend_infer.cli import options
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.generation import GenerateOptions, GenerateResult
    from ascend_infer.step_profile import ProfileOptions


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "generate",
        help="decode a real model",
        description="Decode one or several prompts as one batch, through captured graphs where the "
        "device has them.",
    )
    _add_prompt(parser)
    options.add_device(parser)
    options.add_model(parser)
    _add_sampling(parser)
    _add_graphs(parser)
    options.add_opprof(parser)
    options.add_simulation(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 when a verification failed."""
    _refuse_contradictions(arguments)
    devices.require_torch()
    chosen = _options(arguments)
    from ascend_infer.cli import output, progress
    from ascend_infer.generation import generate

    with progress.bar(enabled=not arguments.json) as reporter:
        result = generate(chosen, reporter)
    if arguments.json:
        output.print_json(result.to_dict())
    else:
        _print(result)
    if arguments.opprof is not None and (result.profile is None or not result.profile.written):
        from ascend_infer.step_profile import nothing_profiled

        # What was decoded is on standard output already.
        output.print_error(nothing_profiled(), as_json=False)
        return 1
    return 0 if result.passed else 1


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt")
    group.add_argument(
        "--prompt", action="append", metavar="TEXT", help="repeat for a batch of several prompts"
    )
    group.add_argument(
        "--prompt-token-ids",
        action="append",
        type=options.integer_list(0),
        metavar="IDS",
        help="token ids separated by commas, instead of --prompt; needs no tokenizer",
    )
    style = group.add_mutually_exclusive_group()
    style.add_argument(
        "--chat", action="store_true", help="format prompts by the model's chat template (default)"
    )
    style.add_argument("--raw", action="store_true", help="use prompts as they stand")
    group.add_argument(
        "--max-new-tokens",
        type=options.integer(1),
        default=32,
        help="limit per prompt (default: 32)",
    )
    group.add_argument(
        "--ignore-eos", action="store_true", help="continue past the end-of-sequence token"
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--temperature", type=float, default=0.0, help="0 takes the most likely token (default)"
    )
    group.add_argument("--top-k", type=options.integer(0), default=0, help="0 is off (default)")
    group.add_argument("--top-p", type=float, default=1.0, help="1 is off (default)")
    group.add_argument(
        "--seed", type=options.integer(0), default=0, help="of the draws (default: 0)"
    )


def _add_graphs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("graphs and proof")
    mode = group.add_mutually_exclusive_group()
    mode.add_argument(
        "--graph",
        action="store_true",
        help="replay captured graphs where the device has them (default)",
    )
    mode.add_argument("--eager", action="store_true", help="run every decode step eagerly")
    group.add_argument(
        "--buckets",
        type=options.integer_list(1),
        default=(),
        help="captured batch sizes (default: 1,2,4,... up to the batch)",
    )
    group.add_argument(
        "--verify",
        action="store_true",
        help="compare eager with replay, and the decoded logits with transformers in float32",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        help="an eager decode step or a fallback implementation is an error",
    )


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """What argparse cannot say, before anything is imported."""
    if bool(arguments.prompt) == bool(arguments.prompt_token_ids):
        raise UsageError(
            "AI-CLI-003",
            "both --prompt and --prompt-token-ids are given"
            if arguments.prompt
            else "no prompt is given",
            fix="pass --prompt TEXT (or --prompt-token-ids 1,2,3), repeatedly for a batch",
        )
    if arguments.strict and arguments.eager:
        raise UsageError(
            "AI-CLI-003",
            "--strict refuses eager decode steps, --eager asks for them",
            fix="leave out one of the two",
        )


def _options(arguments: argparse.Namespace) -> GenerateOptions:
    """The options as data."""
    from ascend_infer.generation import GenerateOptions
    from ascend_infer.sampling import SamplingParams

    return GenerateOptions(
        model=arguments.model,
        device=arguments.device,
        prompts=tuple(arguments.prompt or ()),
        prompt_token_ids=tuple(arguments.prompt_token_ids or ()),
        chat=not arguments.raw,
        max_new_tokens=arguments.max_new_tokens,
        ignore_eos=arguments.ignore_eos,
        sampling=SamplingParams(
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            seed=arguments.seed,
        ),
        graph=not arguments.eager,
        strict=arguments.strict,
        verify=arguments.verify,
        buckets=arguments.buckets,
        dtype=arguments.dtype,
        block_size=arguments.block_size,
        num_blocks=arguments.num_blocks or 0,
        simulation=options.simulation(arguments),
        profile=_profile(arguments),
    )


def _profile(arguments: argparse.Namespace) -> ProfileOptions | None:
    """Where the profile of a decode step goes, found out to be possible before anything runs."""
    if arguments.opprof is None:
        return None
    from ascend_infer.step_profile import ProfileOptions
    from profiling.simulated.tree import Tree

    Tree(arguments.opprof).discard()
    return ProfileOptions(
        folder=arguments.opprof,
        launches=arguments.opprof_launches,
        model=f"{arguments.model}; weights, activations and KV cache in {arguments.dtype}",
    )


def _print(result: GenerateResult) -> None:
    from ascend_infer.cli import output

    for sequence in result.sequences:
        if len(result.sequences) > 1:
            print(f"> {sequence.prompt or list(sequence.prompt_token_ids)}")
        print(sequence.text if sequence.text is not None else list(sequence.output_token_ids))
        print()
    sys.stdout.flush()
    output.print_table("What ran", ("", "result", "evidence"), _rows(result))


def _rows(result: GenerateResult) -> list[tuple[str, str, str]]:
    """One table: device, graphs, launches and verification, each with its evidence level."""
    graph, level = result.graph, str(result.evidence)
    tokens = sum(len(s.output_token_ids) for s in result.sequences)
    rows = [
        ("device", f"{result.device} ({result.device_reason})", ""),
        ("model", f"{result.model}, {result.dtype}", ""),
        ("tokens", f"{tokens} in {len(result.sequences)} sequence(s)", level),
        ("graph buckets", ", ".join(map(str, graph["buckets"])) or "none", ""),
        (
            "decode steps",
            f"{graph['replays']} replayed, {graph['eager_steps']} eager"
            + "".join(f" ({reason}: {n})" for reason, n in graph["fallbacks"].items()),
            level,
        ),
    ]
    rows += [
        (f"launches {op}", ", ".join(f"{n} {name}" for name, n in by.items()), level)
        for op, by in result.launches.items()
    ]
    if result.profile is not None and result.profile.written:
        rows.append(
            (
                "profile of a step",
                f"{result.profile.folder}: {result.profile.summary()}",
                f"{level}, cycles modelled",
            )
        )
    return rows + _verification_rows(result.verify, level)


def _verification_rows(verify: dict[str, Any] | None, level: str) -> list[tuple[str, str, str]]:
    if verify is None:
        return []
    rows = []
    replay, reference = verify["eager_vs_replay"], verify["reference"]
    if replay is None:
        rows.append(("eager vs replay", "not run: no graphs were captured", ""))
    else:
        same = (
            "bitwise equal" if replay["bitwise_equal"] else f"differ by {replay['max_abs_diff']:g}"
        )
        verdict = "passed" if replay["passed"] else "FAILED"
        rows.append(
            (
                "eager vs replay",
                f"{verdict}: {same}, {replay['rounds']} rounds, buckets "
                f"{', '.join(map(str, replay['buckets']))}",
                level,
            )
        )
    rows.append(("vs transformers fp32", _reference_words(reference), level))
    return rows


def _reference_words(reference: dict[str, Any]) -> str:
    if "error" in reference:
        return f"FAILED: {reference['error']['code']}: {reference['error']['what']}"
    verdict = "passed" if reference["passed"] else "FAILED"
    return (
        f"{verdict}: top-1 equal in {reference['top1_agreement']:.0%} of {reference['steps']} "
        f"decode steps, worst logit difference {reference['max_abs_logit_diff']:.4f}, in prefill "
        f"{reference['prefill_max_abs_logit_diff']:.4f} (tolerance {reference['tolerance']:.4f})"
    )
