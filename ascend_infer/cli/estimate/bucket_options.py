"""The options of `ascend-infer estimate buckets`."""

from __future__ import annotations

import argparse

from ascend_infer.cli import options

#: As in `graphs.planning`, which is not imported until the command runs.
_RULES = ("vllm", "vllm-exact", "vllm-ascend")
_MODES = ("full", "piecewise", "full-and-piecewise")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare them, in groups: traffic, sizes, device, model."""
    _add_traffic(parser)
    _add_sizes(parser)
    _add_device(parser)
    _add_model(parser)


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("traffic")
    group.add_argument(
        "--max-batch",
        type=options.integer(1),
        metavar="N",
        help="largest batch, max_num_seqs (default: the largest of the traffic or of --sizes)",
    )
    counts = group.add_mutually_exclusive_group()
    counts.add_argument(
        "--histogram",
        metavar="FILE|SIZE:STEPS,...",
        help="decode steps per batch size, as pairs or a JSON object",
    )
    counts.add_argument(
        "--trace",
        metavar="FILE|SIZE,...",
        help="batch size of every decode step, or batch:blocks pairs; as words or a JSON list",
    )


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sizes")
    given = group.add_mutually_exclusive_group()
    given.add_argument(
        "--sizes", type=options.integer_list(1), metavar="LIST", help="check these sizes"
    )
    given.add_argument(
        "--vllm-defaults",
        nargs="?",
        choices=_RULES,
        const="vllm-ascend",
        metavar="RULE",
        help="check the sizes that vLLM takes by itself: vllm, vllm-exact (since September 2026), "
        "vllm-ascend (default)",
    )
    given.add_argument(
        "--graphs",
        type=options.integer(1),
        metavar="N",
        help="plan at most so many (default: as many as vllm-ascend's list has, if streams allow)",
    )
    group.add_argument(
        "--dispatch",
        choices=("runner", "vllm"),
        help="who picks the graph: the runner uses any size that is large enough, vLLM none above "
        "max_num_seqs (default: vllm for a list that is checked, else runner)",
    )
    group.add_argument(
        "--multiple-of",
        type=options.integer(1),
        default=1,
        metavar="K",
        help="plan multiples of K only, as sequence parallelism needs (default: 1)",
    )
    group.add_argument(
        "--max-blocks",
        type=options.integer(1),
        metavar="M",
        help="plan over two axes: rows, and cache blocks of the longest sequence up to "
        "M; counts cells of the block table",
    )
    group.add_argument(
        "--free-rows",
        type=options.integer(0),
        default=0,
        metavar="R",
        help="rows up to which a step costs the same, while it is bound by weights (default: 0)",
    )
    group.add_argument(
        "--step-cost", type=float, default=0, metavar="C", help="cost of a step without its rows"
    )
    group.add_argument(
        "--row-cost", type=float, default=1, metavar="C", help="cost of one row (default: 1)"
    )


def _add_device(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("device")
    group.add_argument(
        "--soc", default="Ascend910B1", help="chip whose streams count (default: Ascend910B1)"
    )
    group.add_argument(
        "--mode",
        choices=_MODES,
        default="full",
        help="what is captured per size: the whole step, the pieces between attention operators, "
        "or both (default: full)",
    )
    group.add_argument(
        "--piecewise", dest="mode", action="store_const", const="piecewise", help="--mode piecewise"
    )
    group.add_argument(
        "--comm-groups",
        type=options.integer(0),
        metavar="N",
        help="communication groups inside the graph (default: 1 with tensor parallelism, else 0)",
    )
    group.add_argument(
        "--aiv",
        action="store_true",
        help="collectives run on vector cores (HCCL_OP_EXPANSION_MODE=AIV): half their streams",
    )
    group.add_argument(
        "--side-streams",
        type=options.integer(0),
        default=0,
        metavar="N",
        help="further streams that are joined to a capture (default: 0)",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", metavar="NAME|FILE", help="config.json or model: adds memory and attention"
    )
    group.add_argument(
        "--layers", type=options.integer(1), metavar="N", help="instead of --model, for the streams"
    )
    group.add_argument(
        "--context", type=options.integer(1), metavar="TOKENS", help="tokens per sequence"
    )
    group.add_argument(
        "--block-size",
        type=options.integer(16),
        default=128,
        help="tokens per block (default: 128)",
    )
    group.add_argument(
        "--weight-bits", type=options.integer(1), default=16, help="per weight (default: 16)"
    )
    group.add_argument(
        "--kv-bits", type=options.integer(1), default=16, help="per cached element (default: 16)"
    )
    group.add_argument(
        "--tensor-parallel", type=options.integer(1), default=1, metavar="N", help="ranks"
    )
