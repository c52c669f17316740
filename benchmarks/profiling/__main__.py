"""How long does a kernel_details.csv of a million rows take, here and with msprof-analyze?

python -m benchmarks.profiling SAMPLE.csv --msprof-analyze PROGRAM [--rows N] [--runs N]

SAMPLE is a real kernel_details.csv, whose rows are repeated; PROGRAM is msprof-analyze of an
environment of its own. It compares kernels with the sample itself, which is its analysis that reads
nothing else; `profile show` prints operators and sentences. Both start as processes, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.profiling.generate import generate


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process: seconds of the clock, seconds of the CPU, MiB of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def measure(command: Sequence[str], log: Path) -> Run:
    """Run the command to its end; its output goes to `log`."""
    begin = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{command[0]} ended with {process.returncode}:\n{log.read_text()[-2000:]}"
        )
    return Run(
        wall_s=time.perf_counter() - begin,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
    )


def torch_profile(folder: Path, kernel_details: Path) -> Path:
    """A folder as torch_npu's profiler leaves it, with kernels and nothing else."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    shutil.move(kernel_details, output / "kernel_details.csv")
    (output / "trace_view.json").write_text("[]")
    (folder / "profiler_info_0.json").write_text("{}")
    return folder


def compare(options: argparse.Namespace, work: Path) -> dict[str, list[Run]]:
    """All runs of both, in turns."""
    big, small = work / "big.csv", work / "small.csv"
    generate(options.sample, big, options.rows)
    shutil.copy(options.sample, small)
    profile = torch_profile(work / "big_ascend_pt", big)
    baseline = torch_profile(work / "small_ascend_pt", small)
    theirs = f"{options.msprof_analyze} compare -d {profile} -bp {baseline} "
    theirs += f"--enable_kernel_compare --force -o {work / 'compared'}"
    file = profile / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    commands = {
        "profile show": [sys.executable, "-m", "ascend_infer", "profile", "show", str(file)],
        "msprof-analyze compare": theirs.split(),
    }
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(options.runs):
        for name, command in commands.items():
            runs[name].append(measure(command, work / "log.txt"))
    if not list((work / "compared").glob("*.xlsx")):
        raise SystemExit("msprof-analyze wrote no comparison")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profiling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sample", type=Path)
    parser.add_argument("--msprof-analyze", required=True, help="the program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        runs = compare(options, Path(work))
    table = Table("", "wall s", "CPU s", "peak MiB", title=f"{options.rows:,} rows, medians")
    for name, samples in runs.items():
        figures = [
            f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
            for values in zip(*(asdict(run).values() for run in samples), strict=True)
        ]
        table.add_row(name, *figures)
    Console().print(table)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        told = {name: [asdict(run) for run in samples] for name, samples in runs.items()}
        options.json.write_text(json.dumps({"rows": options.rows, **told}, indent=2) + "\n")


if __name__ == "__main__":
    main()
