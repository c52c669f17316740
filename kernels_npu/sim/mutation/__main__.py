"""`scripts/mutate-sync`: deletes synchronisation in the files of a clone and tabulates verdicts."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from kernels_npu.errors import UsageError
from kernels_npu.sim.mutation.selection import find_files
from kernels_npu.sim.mutation.table import print_file, print_header, print_totals, survivors

#: A file's process is ended when it has been there this many times its limit of computing.
_GRACE = 30


def run(files: Sequence[Path], results: dict[str, Any], options: argparse.Namespace) -> None:
    """Judge `files` in processes of their own; fills `results` and keeps it on disk."""
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = {pool.submit(_judge, file, options): file for file in files}
        for job in as_completed(jobs):
            file = jobs[job]
            results[_name(file, options.clone)] = {"digest": _digest(file), **job.result()}
            _save(options.json, results)
            print_file(_name(file, options.clone), results[_name(file, options.clone)])


def _judge(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    root = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (root, environment.get("PYTHONPATH", "")))
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "kernels_npu.sim.mutation.worker", str(file)]
        command += ["--out", str(out), "--timeout", str(options.timeout)]
        command += ["--sample", str(options.sample), "--launches", str(options.launches)]
        if options.driver:
            command += ["--driver", options.driver]
        try:
            done = subprocess.run(
                command,
                cwd=file.parent,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_GRACE * options.timeout,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return {"failed": "out of time"}
        if not out.exists():
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            return {"failed": last[0]}
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return result


def _name(file: Path, clone: Path) -> str:
    return str(file.relative_to(clone)) if file.is_relative_to(clone) else str(file)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _load(path: Path | None) -> dict[str, Any]:
    if path is None or not path.is_file():
        return {}
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _save(path: Path | None, results: dict[str, Any]) -> None:
    if path is None:
        return
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _to_do(files: Sequence[Path], results: dict[str, Any], clone: Path) -> Iterator[Path]:
    """The files without a complete result, or changed since."""
    for file in files:
        known = results.get(_name(file, clone))
        if known is None or "failed" in known or known["digest"] != _digest(file):
            yield file


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit code 0 when fewer than 2% of the deletions survive unexplained."""
    parser = argparse.ArgumentParser(
        prog="mutate-sync",
        description="Delete each flag pair, half of one, barrier and cross-core flag of the "
        "kernels in a clone of tilelang-ascend, one at a time, and say who notices: a check, a "
        "wrong value, or nobody because it was redundant. The clone is not changed.",
    )
    parser.add_argument("clone", type=Path, metavar="CLONE_DIR")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="only these files")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="computing time per file (default: 600)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write verdicts here; files in it are not repeated"
    )
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N deletions per file")
    parser.add_argument(
        "--launches", type=int, default=1, metavar="N", help="launches per kernel (default: 1)"
    )
    parser.add_argument(
        "--driver",
        metavar="MODULE:FUNCTION",
        help="function of a file's path that uses its kernels as another program would, or returns "
        "False: the file is then run as a script",
    )
    options = parser.parse_intermixed_args(argv)
    options.clone = options.clone.resolve()
    if not options.clone.is_dir():
        error = UsageError(
            "AI-DEV-012",
            f"{options.clone} is not a folder",
            fix="pass the folder of a clone of tilelang-ascend",
        )
        print(error, file=sys.stderr)
        return 2
    files = [_located(file, options.clone) for file in options.files] or find_files(options.clone)
    results = _load(options.json)
    print_header()
    for name in sorted({_name(f, options.clone) for f in files} & set(results)):
        print_file(name, results[name])
    run(list(_to_do(files, results, options.clone)), results, options)
    chosen = {name: results[name] for name in (_name(f, options.clone) for f in files)}
    print_totals(chosen)
    return 1 if survivors(chosen) >= 0.02 else 0


def _located(file: Path, clone: Path) -> Path:
    """A file as given, or relative to the clone."""
    return file.resolve() if file.is_file() else clone / file


if __name__ == "__main__":
    sys.exit(main())
