"""`scripts/conformance`: run the suite, print a table, compare with what is expected."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conformance_suite import catalogue, verdicts
from conformance_suite.runner import execute_all, stop_all
from conformance_suite.verdicts import Verdict
from conformance_suite.waiting import Waiting

EXPECTED = Path(__file__).with_name("expected.tsv")


def main() -> int:
    """Exit code 0 when every verdict is the expected one, 1 when one is not, 2 for wrong use."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    clone = options.clone.resolve()
    chosen = _choose(clone, options.files, options.only)
    if not chosen:
        print(f"error: no file to judge below {clone}", file=sys.stderr)
        return 2
    expected = verdicts.read_expectations(EXPECTED)
    logs = options.logs or Path(tempfile.mkdtemp(prefix="conformance-logs-"))
    logs.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    results, surprises = [], {}
    judged = [file for file in chosen if catalogue.reason_not_judged(clone, file) is None]
    for verdict in _verdicts(clone, judged, options.jobs, options.timeout, logs):
        results.append(verdict)
        surprises[verdict.file] = verdicts.surprise(verdict, expected)
        _print_row(verdict, surprises[verdict.file])
    for file in chosen:
        reason = catalogue.reason_not_judged(clone, file)
        if reason is not None:
            results.append(Verdict(file=file, verdict=verdicts.NOT_JUDGED, reason=reason))
    results.sort(key=lambda result: result.file)
    unexpected = [file for file, what in surprises.items() if what]
    _print_summary(results, unexpected, time.monotonic() - started, logs)
    if options.json:
        _write_json(options.json, clone, results, surprises)
    return 1 if unexpected else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/conformance",
        description="Run the files of a clone of tilelang-ascend unmodified on the simulated NPU.",
    )
    parser.add_argument("clone", type=Path, metavar="CLONE_DIR")
    parser.add_argument("files", nargs="*", metavar="FILE", help="paths in the clone")
    parser.add_argument("--only", metavar="GLOB", help="files whose path matches")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time"
    )
    parser.add_argument(
        "--timeout", type=float, default=600, metavar="S", help="seconds per file (default: 600)"
    )
    parser.add_argument("--json", type=Path, metavar="OUT.json", help="write the results")
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="where the logs go (default: a temporary folder)"
    )
    return parser.parse_intermixed_args()


def _choose(clone: Path, named: list[str], only: str | None) -> list[str]:
    wanted = {
        Path(name).resolve().relative_to(clone).as_posix() if Path(name).is_absolute() else name
        for name in named
    }
    return [
        file
        for file in catalogue.files(clone)
        if (not wanted or file in wanted) and (not only or fnmatch.fnmatch(file, only))
    ]


def _verdicts(
    clone: Path, files: list[str], jobs: int, timeout: float, logs: Path
) -> Iterator[Verdict]:
    """The verdicts as they come; an interrupted run leaves no process behind.

    What the system killed, as it does when memory runs out, has another try when nothing else runs.
    """
    waiting = Waiting(catalogue.in_order(files), catalogue.HEAVY)
    finished: queue.SimpleQueue[Verdict | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            while (file := waiting.take()) is not None:
                try:
                    verdict = _judge(clone, file, timeout, logs)
                finally:
                    waiting.done(file)
                finished.put(verdict)
        except BaseException as error:  # noqa: BLE001 - raised where the verdicts are awaited
            finished.put(error)

    killed = []
    try:
        for _ in range(jobs):
            threading.Thread(target=work, daemon=True).start()
        for _ in files:
            result = finished.get()
            if isinstance(result, BaseException):
                raise result
            if result.killed and jobs > 1:
                killed.append(result.file)
            else:
                yield result
        for file in killed:
            yield _judge(clone, file, timeout, logs)
    finally:
        waiting.stop()
        stop_all()


def _judge(clone: Path, file: str, timeout: float, logs: Path) -> Verdict:
    return verdicts.judge(file, execute_all(clone, file, timeout=timeout, logs=logs))


def _print_row(verdict: Verdict, surprise: str) -> None:
    mark = "!" if surprise else " "
    detail = verdict.reason or verdict.evidence
    note = f"  [{surprise}]" if surprise else ""
    print(
        f"{mark} {verdict.verdict:<18} {verdict.seconds:7.1f} s  {verdict.file}  {detail}{note}",
        flush=True,
    )


def _print_summary(
    results: list[Verdict], unexpected: list[str], seconds: float, logs: Path
) -> None:
    counts = Counter(result.verdict for result in results)
    print(
        f"\n{', '.join(f'{count} {verdict}' for verdict, count in counts.items())}; "
        f"{seconds:.0f} s; logs in {logs}"
    )
    if unexpected:
        print(f"{len(unexpected)} not as expected: {', '.join(unexpected)}")


def _write_json(path: Path, clone: Path, results: list[Verdict], surprises: dict[str, str]) -> None:
    """Write under a temporary name, then move: the file is complete or absent."""
    rows = [
        {**dataclasses.asdict(r), "codes": r.codes, "surprise": surprises.get(r.file, "")}
        for r in results
    ]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(
        json.dumps({"commit": _commit(clone), "files": rows}, indent=1) + "\n", encoding="utf-8"
    )
    os.replace(temporary, path)


def _commit(clone: Path) -> str | None:
    done = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
