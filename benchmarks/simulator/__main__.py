"""How fast this machine simulates kernels, as ratios within one run.

    python benchmarks/simulator [--tiles 32] [--rounds 7] [--json FILE]

* The loop of flash attention (a 64 x 128 tile of queries, blocks of 128 keys) on the simulated NPU
  with and without checks, beside the same loop in NumPy and in the Triton interpreter.
* A million scalar stores to UB.
* Peak memory of a launch, beside its tensors and the on-chip memories.

Times are CPU time of this process, one thread. The engines take turns, so ratios hold on a busy
machine; the digits do not. None of this is, or suggests, the speed of an NPU. Triton:
`pip install ".[bench]"`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from kernels_npu.sim.config import Checks, configure
from kernels_npu.sim.device.setup import enable

HERE = Path(__file__).parent


def tile_loop(dtype: str, tiles: int, rounds: int, console: Console) -> dict[str, object]:
    """The attention loop: a table, and its figures.

    Each engine runs the loop with `tiles` and with 4 KV tiles; the difference is the cost of the
    tiles, what is left is the cost of a launch.
    """
    from tile_loop import measure

    few = 4
    short, long = (measure(dtype, length, rounds) for length in (few, tiles))
    per_tile, per_launch = {}, {}
    for less, more in zip(short, long):
        low, high = (statistics.median(engine.seconds) for engine in (less, more))
        per_tile[more.name] = (high - low) / (tiles - few)
        per_launch[more.name] = max(0.0, low - few * per_tile[more.name])
    checked = per_tile["simulated NPU, all checks on"]
    table = Table(title=f"attention loop, {dtype}, {few} and {tiles} KV tiles")
    columns = ("ms per KV tile", "ms per launch", "all checks on / engine", "largest difference")
    for heading in ("engine", *columns):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    for engine in long:
        cost = per_tile[engine.name]
        table.add_row(
            engine.name,
            f"{cost * 1e3:.3f}",
            f"{per_launch[engine.name] * 1e3:.2f}",
            f"{checked / cost:.3g}",
            f"{engine.error:.1e}",
        )
    console.print(table)
    if "Triton interpreter" not in per_tile:
        console.print('Triton is not installed: pip install ".[bench]"')
    return {
        "dtype": dtype,
        "tiles": [few, tiles],
        "cpu_seconds": {e.name: [s.seconds, e.seconds] for s, e in zip(short, long)},
        "cpu_seconds_per_tile": per_tile,
        "cpu_seconds_per_launch": per_launch,
    }


def scalar_stores(rounds: int, console: Console) -> dict[str, object]:
    """A million scalar stores: a table, and its figures."""
    from scalar_kernel import STORES, scalar_stores_kernel

    kernel = scalar_stores_kernel()
    seconds: dict[str, list[float]] = {"all checks on": [], "checks off": []}
    for turn in range(rounds + 1):
        for name, checks in (("all checks on", Checks()), ("checks off", Checks.none())):
            with configure(checks=checks):
                started = time.process_time()
                kernel()
                torch.npu.synchronize()
                if turn > 0:
                    seconds[name].append(time.process_time() - started)
    table = Table(title=f"{STORES:,} scalar stores to UB")
    table.add_column("simulated NPU")
    table.add_column("CPU s", justify="right")
    for name, values in seconds.items():
        table.add_row(name, f"{statistics.median(values):.3f}")
    console.print(table)
    return {"stores": STORES, "cpu_seconds": seconds}


def memory(console: Console) -> dict[str, object]:
    """Peak memory of a launch with all checks on: a table, and its figures."""
    table = Table(title="peak memory of one launch, all checks on")
    for heading in ("kernel", "tensors MB", "on-chip MB", "growth MB", "ratio"):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    figures: dict[str, object] = {}
    for name in ("attention", "elementwise"):
        command = [sys.executable, str(HERE / "memory.py"), name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = figures[name] = json.loads(done.stdout)
        megabytes = [found[key] / 1e6 for key in ("tensors", "on_chip", "growth")]
        ratio = found["growth"] / (found["tensors"] + found["on_chip"])
        table.add_row(name, *(f"{value:.1f}" for value in megabytes), f"{ratio:.2f}")
    console.print(table)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks/simulator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tiles", type=int, default=32, help="blocks of 128 keys, more than 4 (default: 32)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns per engine (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples")
    arguments = parser.parse_args()
    if arguments.tiles <= 4 or arguments.rounds < 1:
        parser.error("--tiles must be above 4, and --rounds at least 1")
    torch.set_num_threads(1)
    enable()
    console = Console()
    result = {
        "tile_loop": [
            tile_loop(dtype, arguments.tiles, arguments.rounds, console)
            for dtype in ("float32", "float16")
        ],
        "scalar_stores": scalar_stores(min(arguments.rounds, 3), console),
        "memory": memory(console),
        "machine": {"cores": os.cpu_count(), "torch": torch.__version__},
    }
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        temporary = arguments.json.with_name(f".{arguments.json.name}.{os.getpid()}")
        temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        temporary.replace(arguments.json)


if __name__ == "__main__":
    main()
