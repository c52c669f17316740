"""The options of `ascend-infer simulate-serving`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ascend_infer.cli import options

ARRIVALS = ("at-once", "closed", "poisson", "bursts")
BATCHINGS = ("static", "continuous", "chunked")
PRESETS = ("textbook", "chat")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare them; defaults are those of the preset, so that one can be told from the other."""
    parser.add_argument(
        "--preset", choices=PRESETS, help="settings with a name; other options prevail over it"
    )
    _add_traffic(parser)
    _add_scheduler(parser)
    _add_cache(parser)
    _add_step(parser)
    _add_results(parser)


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("traffic")
    whole, text = options.integer, "N, uniform:LOW-HIGH, geometric:MEAN, lognormal:MEAN,SIGMA, "
    group.add_argument("--requests", type=whole(1), metavar="N", help="how many (default: 64)")
    group.add_argument(
        "--arrivals", choices=ARRIVALS, help="how they come (default: at-once, all of them)"
    )
    group.add_argument("--rate", type=float, metavar="R", help="poisson: requests per second")
    group.add_argument(
        "--concurrency", type=whole(1), metavar="N", help="closed: clients (default: most --slots)"
    )
    group.add_argument(
        "--think-ms", type=float, metavar="MS", help="closed: between two requests (default: 0)"
    )
    group.add_argument(
        "--burst-size", type=whole(1), metavar="N", help="bursts: requests (default: 16)"
    )
    group.add_argument(
        "--burst-every-s", type=float, metavar="S", help="bursts: seconds between (default: 1)"
    )
    group.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="requests from a CSV or JSON-lines file: arrival_s, prompt_tokens, output_tokens, "
        "and where prompts begin alike prefix, prefix_tokens",
    )
    group.add_argument(
        "--prompt",
        metavar="LENGTHS",
        help=f"{text}discrete:N=WEIGHT,... (default: uniform:128-1024); without a shared prefix",
    )
    group.add_argument(
        "--output",
        metavar="LENGTHS",
        help="likewise (default: discrete:16,64,256,1024)",
    )
    group.add_argument(
        "--prefixes",
        type=whole(0),
        metavar="N",
        help="shared prefixes that prompts begin with (default: 0)",
    )
    group.add_argument(
        "--prefix-tokens", type=whole(0), metavar="N", help="length of each (default: 0)"
    )
    group.add_argument("--seed", type=whole(0), metavar="N", help="of all that is drawn")


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scheduler")
    group.add_argument(
        "--batching",
        metavar="LIST",
        help=f"{', '.join(BATCHINGS)}: which to compare on the same traffic (default: all three)",
    )
    group.add_argument(
        "--slots",
        type=options.integer_list(1),
        metavar="LIST",
        help="sequences at a time, each number with each batching (default: 8)",
    )
    group.add_argument(
        "--token-budget",
        type=options.integer(2),
        metavar="N",
        help="chunked: tokens in a step (default: 2048)",
    )
    group.add_argument(
        "--max-waiting",
        type=options.integer(0),
        metavar="N",
        help="turn away what comes while so many wait (default: no limit)",
    )
    group.add_argument(
        "--buckets",
        type=options.integer_list(1),
        metavar="LIST",
        help="batch sizes with a graph: decode steps are padded to the next (default: no padding)",
    )
    group.add_argument(
        "--eager-ms", type=float, metavar="MS", help="of a step too large for a graph (default: 0)"
    )


def _add_cache(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("KV cache")
    group.add_argument(
        "--kv-blocks",
        type=options.integer(1),
        metavar="N",
        help="blocks (default: enough; with --model what memory holds beside the weights)",
    )
    group.add_argument(
        "--block-size", type=options.integer(1), metavar="N", help="tokens each (default: 16)"
    )
    group.add_argument(
        "--watermark", type=float, metavar="SHARE", help="admission leaves it free (default: 0)"
    )
    group.add_argument(
        "--reserve-output",
        action="store_true",
        help="admit only with blocks for the whole output: nothing is preempted",
    )
    group.add_argument(
        "--no-prefix-cache", action="store_true", help="compute shared prefixes every time"
    )


def _add_step(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("time of a step, unless --model is given")
    group.add_argument("--step-ms", type=float, metavar="MS", help="of a decode step (default: 8)")
    group.add_argument(
        "--context-ns",
        type=float,
        metavar="NS",
        help="further, per token of context of all sequences (default: 0)",
    )
    group.add_argument(
        "--prefill-us", type=float, metavar="US", help="per token of a prompt (default: 12)"
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    for name, what in (("ttft", "first token"), ("tpot", "each further one"), ("e2e", "the end")):
        group.add_argument(
            f"--slo-{name}-ms", type=float, metavar="MS", help=f"a good request's limit to {what}"
        )
    group.add_argument(
        "--min-good-share",
        type=float,
        metavar="SHARE",
        help="exit with 1 when fewer requests are good, in any of the compared",
    )
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="batch, cache and first tokens as PNG or SVG"
    )
    options.add_common(parser)
