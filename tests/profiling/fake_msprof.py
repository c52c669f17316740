"""A stand-in for msprof and msopprof: for tests, and to try commands where there is no CANN.

    python -m tests.profiling.fake_msprof FOLDER           # writes FOLDER/msprof, FOLDER/msopprof
    PATH=FOLDER:$PATH ascend-infer profile op -- python script.py

It refuses what the tables of options say that the tool refuses, in msopprof's words, runs the
application, and leaves a tree of the tool's files with made-up figures and a manifest that says so.

Variables:
    FAKE_MSPROF_KERNELS   names that the application launches, in order, separated by commas
    FAKE_MSPROF_CHIP      910B (default), 910_93, 310P or 950
    FAKE_MSPROF_VERSION   what --version prints (default: 26.0.0)
    FAKE_MSPROF_FAULT     crash: an error of the tool's own; silent: no word and no data;
                          headers: files without rows; half: files that end in the middle;
                          untimed: tasks of unknown duration; hang: after the files
"""

from __future__ import annotations

import datetime
import fnmatch
import os
import random
import string
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernels_npu.evidence import Evidence
from profiling.collect.families import Family
from profiling.collect.modes import MODES
from profiling.collect.options import Mode, Needs
from profiling.collect.values import Names
from profiling.manifest import Manifest
from tests.profiling import fixtures
from tests.profiling.opprof_files import launch_files

KERNELS, CHIP, VERSION, FAULT = (
    f"FAKE_MSPROF_{name}" for name in ("KERNELS", "CHIP", "VERSION", "FAULT")
)
ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """\
#!{python}
import sys
sys.path.insert(0, {root!r})
from tests.profiling.fake_msprof import main
sys.exit(main([{name!r}, *sys.argv[1:]]))
"""
_INPUTS = (
    "Input parameter config, export and application can not be used together or empty at the "
    "same time"
)


class Refused(Exception):
    """The tool ends before it starts anything."""


def install(folder: Path, names: Sequence[str] = ("msprof", "msopprof")) -> Path:
    """Programs called `names` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, root=str(ROOT), name=name))
        program.chmod(0o755)
    return folder


def main(argv: Sequence[str]) -> int:
    """The tool; `argv` begins with its name."""
    mode, arguments = mode_of(argv)
    if arguments[:1] in (["--version"], ["-v"]):
        print(f"msOpProf {os.environ.get(VERSION, '26.0.0')}")
        return 0
    try:
        options, application = parse(mode, arguments)
        refuse(mode, options, application, Family(os.environ.get(CHIP, "910B")))
        return run(mode, options, application)
    except (Refused, OSError) as error:
        print(f"[ERROR] {error}", file=sys.stderr)
        return 1


def mode_of(argv: Sequence[str]) -> tuple[Mode, list[str]]:
    """The mode that the first words ask for, and the rest."""
    words = list(argv[1:])
    if argv[0] == "msprof":
        if words[:1] != ["op"]:
            return MODES["app"], words
        words = words[1:]
    if words[:1] == ["simulator"]:
        return MODES["simulator"], words[1:]
    return MODES["op"], words


def parse(mode: Mode, arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options, and the application behind them."""
    options: dict[str, str] = {}
    allowed = {*mode.by_name, "output", "application"}
    allowed |= {fixed.strip("-").partition("=")[0] for fixed in mode.fixed}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if name not in allowed:
            raise Refused(f"unrecognized option '--{name}'")
        options[name] = value if equals else rest.pop(0)
    return options, rest or options.get("application", "").split()


def refuse(
    mode: Mode, options: Mapping[str, str], application: Sequence[str], chip: Family
) -> None:
    """What the tables know, in the tool's words where they are known."""
    for name, value in options.items():
        option = mode.by_name.get(name)
        if option is None:
            continue
        if option.value.fault(value):
            is_metric = name == "aic-metrics"
            raise Refused("Invalid metric options!" if is_metric else f"Invalid --{name} {value}")
        parts = option.value.parts(value)
        if chip not in option.chips or (
            isinstance(option.value, Names)
            and any(chip not in option.value.chips[part] for part in parts)
        ):
            raise Refused(f"Unexpected argument in --{name}, maybe in wrong soc platform")
    for rule in mode.rules:
        given, other = (
            condition.option in options
            and (
                not condition.value
                or condition.value
                in mode.by_name[condition.option].value.parts(options[condition.option])
            )
            for condition in (rule.given, rule.other)
        )
        if given and other is not isinstance(rule, Needs):
            raise Refused(f"{rule.given} and {rule.other}")
    if len([name for name in mode.inputs if name in options]) + bool(application) != 1:
        raise Refused(_INPUTS)
    if len(options.get("output", "")) > 200:
        raise Refused("the length of --output is too long")


def run(mode: Mode, options: Mapping[str, str], application: Sequence[str]) -> int:
    """Run the application and leave the files of what it launched."""
    fault = os.environ.get(FAULT, "")
    quiet = subprocess.DEVNULL if fault == "silent" else None
    succeeded = True
    if application:
        done = subprocess.run(application, stdout=quiet, stderr=quiet, check=False)
        succeeded = done.returncode == 0
    if fault == "silent":
        return 0
    if fault == "crash":
        raise Refused("inner error of the profiler")
    launched = os.environ.get(KERNELS, "main_kernel_mix_aic").split(",")
    kernels = selected(launched, options) if succeeded and mode.name != "app" else launched
    if not succeeded or not kernels:
        print("[WARN] Profiling results are empty. No kernel profiling data was generated")
        return 0
    files = cut(files_of(mode, kernels, os.environ.get(CHIP, "910B")), fault)
    root = Path(
        options.get("output", "."), _folder_name("PROF" if mode.name == "app" else "OPPROF")
    )
    fixtures.write(root, files)
    Manifest(evidence=Evidence.SIMULATED, made_by="a stand-in for msprof").write(root)
    if fault == "hang":
        time.sleep(600)
    print("[INFO] Profiling running finished. All task success.")
    print(f"[INFO] Profiling results saved in {root}")
    return 0


def selected(launched: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """The launches that are collected: first skipped, then named, then counted."""
    left = list(launched)[int(options.get("launch-skip-before-match", "0")) :]
    if "kernel-name" in options:
        patterns = [f"{pattern}*" for pattern in options["kernel-name"].split("|")]
        chosen = [k for k in left if any(fnmatch.fnmatchcase(k, p) for p in patterns)]
        for kernel in left:
            if kernel not in chosen:
                print(f"[WARN] Kernel {kernel} skipped: not selected via --kernel-name.")
        if not chosen:
            print(
                f"[WARN] No profiling data matched --kernel-name={options['kernel-name']}. "
                "All kernels were filtered out"
            )
        left = chosen
    return left[: int(options.get("launch-count", "1"))]


def files_of(mode: Mode, kernels: Sequence[str], chip: str) -> dict[str, str]:
    """Path -> text, as the mode lays them out."""
    stamp = datetime.datetime.now().strftime("%Y%m%d%H%M%S")
    if mode.name == "app":
        texts = {
            "op_summary": fixtures.OP_SUMMARY.replace("k_main", kernels[0]),
            "op_statistic": fixtures.OP_STATISTIC,
            "api_statistic": fixtures.API_STATISTIC,
            "task_time": fixtures.TASK_TIME.replace("k_main", kernels[0]),
        }
        folder = "mindstudio_profiler_output"
        return {f"{folder}/{name}_{stamp}.csv": text for name, text in texts.items()}
    files = {}
    for number, kernel in enumerate(kernels):
        earlier = kernels[:number].count(kernel)
        folder = f"{kernel}/{earlier}/" if len(kernels) > 1 else ""
        suffix = f"_{stamp}{number:03d}" if len(kernels) > 1 else ""
        if mode.name == "simulator":
            files |= dict(_simulated(folder, suffix))
        else:
            texts = launch_files(kernel, chip)
            files |= {f"{folder}{metric}{suffix}.csv": text for metric, text in texts.items()}
        files[f"{folder}dump/op_basic_info.txt"] = f"op_name={kernel}\n"
    return files


def _simulated(folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    core = "core0.veccore0"
    yield f"{folder}simulator/{core}/{core}_instr_exe{suffix}.csv", fixtures.INSTRUCTIONS
    yield f"{folder}simulator/{core}/trace.json", fixtures.SIMULATOR_TRACE
    yield f"{folder}simulator/trace.json", fixtures.SIMULATOR_TRACE


def cut(files: Mapping[str, str], fault: str) -> dict[str, str]:
    """The files as a tool leaves them that had nothing to write, or could not."""
    if fault == "headers":
        headers = {name: text.partition("\n")[0] + "\n" for name, text in files.items()}
        return {n: '{"traceEvents":[]}' if n.endswith(".json") else t for n, t in headers.items()}
    if fault == "untimed":
        return {name: text.replace(",12.250000,", ",NA,") for name, text in files.items()}
    if fault == "half":
        return {name: text[: len(text) * 2 // 3] for name, text in files.items()}
    return dict(files)


def _folder_name(kind: str) -> str:
    stamp = datetime.datetime.now().strftime("%Y%m%d%H%M%S")
    return f"{kind}_{stamp}_{''.join(random.choices(string.ascii_uppercase, k=16))}"


if __name__ == "__main__":
    print(install(Path(sys.argv[1])))
