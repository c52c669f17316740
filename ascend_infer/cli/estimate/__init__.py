"""`ascend-infer estimate`: ledgers and plans from formulas, without a device."""

from __future__ import annotations

import argparse

from ascend_infer.cli.estimate import (
    advice,
    boundary,
    buckets,
    capacity,
    kv,
    moe,
    quant,
    roofline,
    step,
    weights,
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and the estimates it can make."""
    parser = commands.add_parser(
        "estimate",
        help="weights, KV cache, steps, capacity and graphs from formulas, without a device",
        description="Estimates from formulas with named constants; every figure is `modelled`.",
    )
    estimates = parser.add_subparsers(title="estimates", metavar="WHAT", required=True)
    for module in (weights, kv, roofline, step, capacity, boundary, quant, advice, moe, buckets):
        module.add_command(estimates)
