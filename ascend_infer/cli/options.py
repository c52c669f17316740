"""Groups of options that several commands share, and the checks that argparse can make."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ascend_infer.devices import DEVICES, parse_device
from ascend_infer.simulation import SimulationOptions
from kernels_npu.errors import UsageError

DTYPE_NAMES = ("float16", "bfloat16", "float32")
SCHEDULES = ("eager", "late", "random")


def add_common(parser: argparse.ArgumentParser) -> None:
    """`--json` and `--verbose`, which every command has."""
    parser.add_argument(
        "--json", action="store_true", help="print exactly one JSON object on standard output"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log decisions to standard error"
    )


def add_device(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, default: str = "auto"
) -> None:
    """`--device`."""
    parser.add_argument(
        "--device",
        type=_device,
        metavar="{" + ",".join(DEVICES) + "}[:N]",
        default=default,
        help="npu: real Ascend device; sim: simulated NPU; cpu: plain torch references; "
        "cuda: Triton kernels; auto: npu when torch_npu is installed, else sim; "
        f"npu, sim and cuda take a number, 0 unless given (default: {default})",
    )


def _device(text: str) -> str:
    try:
        parse_device(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.what}; {error.rule}") from error
    return text


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, and how its cache and graphs are laid out."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        default="smollm2",
        help="built-in name, directory with config.json, or .gguf file (default: smollm2)",
    )
    group.add_argument(
        "--dtype",
        choices=DTYPE_NAMES,
        default="float16",
        help="weights, activations and KV cache (default: float16; float32 on cpu and cuda only)",
    )
    group.add_argument(
        "--block-size",
        type=integer(16),
        default=128,
        help="tokens per KV cache block (default: 128)",
    )
    group.add_argument(
        "--num-blocks",
        type=integer(1),
        help="KV cache blocks (default: enough for all prompts at once)",
    )


def add_opprof(parser: argparse.ArgumentParser) -> None:
    """`--opprof` with its limit."""
    group = parser.add_argument_group("profile")
    group.add_argument(
        "--opprof",
        type=Path,
        metavar="DIR",
        help="write what the simulated NPU counted as a profile in the layout of msprof op, into a "
        "new folder: bytes, instructions and modelled cycles, never time",
    )
    group.add_argument(
        "--opprof-launches",
        type=integer(1),
        default=256,
        metavar="N",
        help="launches that the profile takes (default: the first 256)",
    )


def add_simulation(parser: argparse.ArgumentParser, *, on_finding: str = "raise") -> None:
    """How the simulated NPU executes. on_finding: what `--on-finding` says by default."""
    group = parser.add_argument_group("simulated NPU")
    group.add_argument(
        "--checks",
        default="on",
        metavar="on|off|NAME,...",
        help="look for races, missing flags, uninitialised data, ... (default: on; off is faster; "
        "or the names of the checks to make)",
    )
    group.add_argument(
        "--on-finding",
        choices=("raise", "report"),
        default=on_finding,
        help="what a launch with an error does: raise an exception, or go on and report it at the "
        f"end (default: {on_finding})",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="eager",
        help="when asynchronous effects land: at once, as late as possible, or in a random order",
    )
    group.add_argument(
        "--schedule-seed",
        type=integer(0),
        default=0,
        help="seed of the random schedule (default: 0)",
    )
    group.add_argument(
        "--precise",
        action="store_true",
        help="keep float16 and bfloat16 values in float32 within a launch: what still fails is the "
        "algorithm, not its precision",
    )


def simulation(arguments: argparse.Namespace) -> SimulationOptions:
    """The options of `add_simulation` as data."""
    return SimulationOptions(
        checks=arguments.checks,
        schedule=arguments.schedule,
        seed=arguments.schedule_seed,
        on_finding=arguments.on_finding,
        precise=arguments.precise,
    )


def integer(smallest: int) -> Callable[[str], int]:
    """An argparse type: a whole number of at least `smallest`."""

    def parse(text: str) -> int:
        value = int(text)
        if value < smallest:
            raise argparse.ArgumentTypeError(f"{value} is below {smallest}")
        return value

    parse.__name__ = "whole number"
    return parse


def integer_list(smallest: int) -> Callable[[str], tuple[int, ...]]:
    """An argparse type: whole numbers of at least `smallest`, separated by commas or spaces."""
    one = integer(smallest)

    def parse(text: str) -> tuple[int, ...]:
        numbers = tuple(one(part) for part in text.replace(",", " ").split())
        if not numbers:
            raise argparse.ArgumentTypeError("there is no number in it")
        return numbers

    parse.__name__ = "list of whole numbers"
    return parse
