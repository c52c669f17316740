"""Time one of our kernels with `msprof op`: runs the collection and says where the files are.

    python scripts/npu/collect_msprof.py --op rms_norm [--case llama-3-8b-decode-32]
    python scripts/npu/collect_msprof.py --op rms_norm --dry-run   # only prints the command

The profiled application is this file with `--launch`, which launches the kernel and nothing else
of ours; `--kernel-name` keeps msprof from timing the first kernel that it meets instead.

Exit status: 0 collected, 1 msprof failed or collected nothing, 2 wrong use or no msprof.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from ascend_infer.cli import output
from ascend_infer.devices import open_device
from ascend_infer.verification.ops import inputs_of
from kernels_npu import ops, registry
from kernels_npu.errors import AscendInferError, EnvironmentProblem, UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.spec import OpSpec, Workload, all_specs

#: What msprof takes, from its argument checks.
MOST_LAUNCHES, MOST_WARM_UPS, LONGEST_OUTPUT = 5000, 500, 200
#: `OpBasicInfo.csv`, or with the time of the collection where several kernels were collected.
BASIC_INFO = re.compile(r"OpBasicInfo(_\d{17})?\.csv")


def command(options: argparse.Namespace) -> list[str]:
    """The collection as an argument list. The application has to stand at its end."""
    return [
        "msprof",
        "op",
        f"--output={options.output}",
        "--aic-metrics=Default",
        # The adapter's compiler names a kernel after its prim_func, which has the operator's name.
        f"--kernel-name={options.op}_kernel*",
        f"--launch-count={options.launch_count}",
        f"--warm-up={options.warm_up}",
        sys.executable,
        str(Path(__file__).resolve()),
        "--launch",
        f"--op={options.op}",
        f"--case={options.case}",
        f"--dtype={options.dtype}",
        f"--launch-count={options.launch_count}",
        f"--device={options.device}",
    ]


def collect(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Run msprof; one row per collected kernel.

    Raises:
        EnvironmentProblem: AI-PROF-001 to 004.
        UsageError: AI-CLI-004 when the output cannot be written there.
    """
    if shutil.which("msprof") is None:
        raise EnvironmentProblem(
            "AI-PROF-001",
            "there is no msprof on the PATH",
            rule="msprof comes with CANN's toolkit",
            fix="source CANN's set_env.sh; --dry-run prints the command without it",
        )
    visible = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if visible is not None:
        raise EnvironmentProblem(
            "AI-PROF-004",
            f"ASCEND_RT_VISIBLE_DEVICES={visible}",
            rule="CANN documents this variable as not supported together with profiling",
            fix="unset it and choose the device with --device npu:N",
        )
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        before = set(options.output.iterdir())
    except OSError as error:
        raise UsageError(
            "AI-CLI-004",
            f"--output {options.output}: {error.strerror}",
            rule="msprof writes into a folder",
            fix="name a folder that can be written to, such as --output msprof",
        ) from error
    try:
        subprocess.run(command(options), stdout=sys.stderr, check=True)
    except subprocess.CalledProcessError as error:
        raise EnvironmentProblem(
            "AI-PROF-002",
            f"msprof ended with exit code {error.returncode}; its messages are above",
            fix="run the part of --dry-run behind msprof's options alone: it has to work first",
        ) from error
    except OSError as error:
        raise EnvironmentProblem(
            "AI-PROF-002",
            f"{shutil.which('msprof')} cannot be started: {error.strerror}",
            fix="source CANN's set_env.sh: another file called msprof is first on the PATH",
        ) from error
    new = sorted(set(options.output.iterdir()) - before)
    rows = [row for folder in new for row in collected(folder)]
    if not rows:
        raise EnvironmentProblem(
            "AI-PROF-003",
            f"msprof left no OpBasicInfo file with a kernel under {options.output}",
            rule="without a match of --kernel-name msprof collects nothing",
            fix="look for `--kernel-name` in the messages above, and at the names of kernels there",
        )
    return rows


def collected(folder: Path) -> Iterator[tuple[str, ...]]:
    """Name, duration and origin of each kernel below `folder`; columns are found by name."""
    files = folder.rglob("*.csv") if folder.is_dir() else ()
    for file in sorted(files):
        if BASIC_INFO.fullmatch(file.name):
            with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
                for row in csv.DictReader(lines):
                    duration = row.get("Task Duration(us)") or "NA"
                    yield row.get("Op Name") or "?", duration, str(Evidence.NPU_MEASURED), str(file)


def launch(options: argparse.Namespace, spec: OpSpec, workload: Workload) -> None:
    """What is profiled."""
    device = open_device(options.device)
    inputs = inputs_of(spec, workload, options.dtype, device.torch_device, seed=0)
    with torch.no_grad(), registry.strict():
        for _ in range(options.launch_count):
            getattr(ops, spec.name)(**inputs)
    torch.get_device_module(device.torch_device).synchronize()


def chosen(options: argparse.Namespace) -> tuple[OpSpec, Workload]:
    """The operator and its workload; fills in the first workload when none is named.

    Raises:
        UsageError: AI-CLI-001 for a name that does not exist, or a value that msprof refuses.
    """
    specs = all_specs()
    limits = {
        "--op": options.op in specs,
        "--launch-count": 1 <= options.launch_count <= MOST_LAUNCHES,
        "--warm-up": 0 <= options.warm_up <= MOST_WARM_UPS,
        "--output": len(str(options.output)) <= LONGEST_OUTPUT,
    }
    workloads = {w.name: w for w in specs[options.op].workloads} if limits["--op"] else {}
    options.case = options.case or next(iter(workloads), None)
    limits["--case"] = options.case in workloads
    wrong = [option for option, fits in limits.items() if not fits]
    if wrong:
        raise UsageError(
            "AI-CLI-001",
            f"{wrong[0]} {getattr(options, wrong[0].lstrip('-').replace('-', '_'))}",
            rule=f"--op: {', '.join(specs)}; --case: {', '.join(workloads) or 'of the operator'}; "
            f"--launch-count: 1 to {MOST_LAUNCHES}; --warm-up: 0 to {MOST_WARM_UPS}; --output: "
            f"{LONGEST_OUTPUT} characters at most",
            fix=f"correct {wrong[0]}",
        )
    return specs[options.op], workloads[options.case]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", default="rms_norm", help="operator (default: rms_norm)")
    parser.add_argument("--case", help="one of its workloads (default: the first)")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16"))
    parser.add_argument("--output", type=Path, default=Path("msprof"), help="default: ./msprof")
    parser.add_argument("--launch-count", type=int, default=1, help="launches to collect")
    parser.add_argument("--warm-up", type=int, default=5, help="replays before measuring")
    parser.add_argument("--device", default="npu", help="npu, npu:1; sim with --launch")
    parser.add_argument("--dry-run", action="store_true", help="print the command")
    parser.add_argument("--launch", action="store_true", help="only launch the kernel")
    options = parser.parse_args()
    try:
        case = chosen(options)
        if options.dry_run:
            print(shlex.join(command(options)))
        elif options.launch:
            launch(options, *case)
        else:
            columns = ("kernel", "Task Duration(us)", "evidence", "file")
            output.print_table("collected by msprof op", columns, collect(options))
    except AscendInferError as error:
        output.print_error(error, as_json=False)
        return 1 if error.code in ("AI-PROF-002", "AI-PROF-003") else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
