"""A process that has imported the host and forks itself for each run: importing is half a start.

Plugins, worker and model are loaded in the fork, in the order in which a process of its own loads
them. vLLM keeps its graphs in module globals, hence a fork per run.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from ascend_infer.verification.vllm import child
from ascend_infer.verification.vllm.engine import Decoded, EngineEnded, Request
from profiling.child_process import Ended

#: What an engine in one process imports before it loads plugins, and much of what it does after.
_IMPORTED = (
    *("vllm.entrypoints.llm", "vllm.v1.engine.core", "vllm.v1.executor.uniproc_executor"),
    *("vllm.model_executor.models.qwen3", "torch._inductor.compile_fx"),
)


class Preloaded:
    """Such a process. variables: its environment, to which each run may add."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=variables,
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, request: Request, log: Path, *, variables: Mapping[str, str], limit_s: float
    ) -> Decoded:
        """As `engine.run`, for an engine that starts no processes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="vllm-run-") as folder:
            result = Path(folder, "result.json")
            asked = {
                "request": asdict(request),
                "variables": dict(variables),
                "limit_s": limit_s,
                "log": str(log),
                "result": str(result),
            }
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            status = int(self._process.stdout.readline() or "1")
            if status != 0 or not result.exists():
                ended = Ended(status=status, timed_out=status == -signal.SIGALRM)
                raise EngineEnded(ended, log, limit_s)
            return Decoded.from_json(result.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Import; then fork for each line of standard input, and answer with the exit status."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for module in _IMPORTED:
        importlib.import_module(module)
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            _serve(**json.loads(line))
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _serve(
    request: dict[str, object], variables: dict[str, str], limit_s: float, log: str, result: str
) -> NoReturn:
    """One run, and the end of the fork."""
    signal.alarm(int(limit_s))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for printed in (1, 2):
        os.dup2(descriptor, printed)
    os.environ.update(variables)
    sys.path[:0] = variables.get("PYTHONPATH", "").split(os.pathsep)
    try:
        found = child.decode(**request)  # type: ignore[arg-type]
        Path(result).write_text(json.dumps(found), encoding="utf-8")
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, a fork must not go on as its parent
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
