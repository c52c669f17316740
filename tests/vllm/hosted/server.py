"""`vllm serve` on loopback as a child process, asked over HTTP as a user asks it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
START_LIMIT_S, REQUEST_LIMIT_S = 300, 120
EXTENSION = "tests.vllm.hosted.extension.TestExtension"


@dataclass(frozen=True, kw_only=True)
class Server:
    """One running server; `log` is what it printed."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def api(self) -> Any:
        """OpenAI's client."""
        import openai

        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key="-", timeout=REQUEST_LIMIT_S, max_retries=0
        )

    def complete(self, prompt: list[int], new_tokens: int, **options: Any) -> list[int]:
        """Greedy tokens of one request of token ids."""
        answer = self.post(
            "/v1/completions",
            {
                "prompt": prompt,
                "max_tokens": new_tokens,
                "temperature": 0,
                "ignore_eos": True,
                "return_token_ids": True,
                **options,
            },
        )
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens

    def workers(self, method: str, *arguments: str) -> list[Any]:
        """What a method of the workers returns, per rank."""
        asked = {"method": method, "args": list(arguments)}
        results: list[Any] = self.post("/collective_rpc", asked)["results"]
        return results

    def metric(self, name: str) -> float:
        """A number of vLLM's own, `vllm:<name>` of /metrics."""
        text = _answer(f"{self.url}/metrics").decode()
        values = re.findall(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", text, flags=re.MULTILINE)
        assert values, f"the server has no metric {name}"
        return sum(map(float, values))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON answer.

        Raises:
            OSError: `urllib.error.HTTPError` for an error status, else without an answer.
        """
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        found: dict[str, Any] = json.loads(_answer(request))
        return found

    def is_healthy(self) -> bool:
        """Whether it answers, and its engine lives."""
        try:
            _answer(f"{self.url}/health")
        except OSError:
            return False
        return True

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]


@contextmanager
def serving(
    model: Path, log: Path, environment: Mapping[str, str], **options: Any
) -> Iterator[Server]:
    """A server that is ready; `options` are those of `vllm serve`, with `_` for `-`.

    Raises:
        RuntimeError: when it does not get ready, with the end of its log.
    """
    with start(model, log, environment, **options) as server:
        wait(server)
        yield server


@contextmanager
def start(
    model: Path, log: Path, environment: Mapping[str, str], **options: Any
) -> Iterator[Server]:
    """As `serving`, without waiting."""
    port = _free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    options = {"host": "127.0.0.1", "port": port, "worker_extension_cls": EXTENSION, **options}
    for name, value in options.items():
        command += _option(name, value)
    variables = {
        **environment,
        "VLLM_SERVER_DEV_MODE": "1",  # /collective_rpc
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    with log.open("wb") as file:
        # A session of its own, so that the engine and its workers can be ended with it.
        process = subprocess.Popen(
            command, env=variables, cwd=ROOT, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield Server(process=process, url=f"http://127.0.0.1:{port}", log=log)
    finally:
        _end(process)


def wait(server: Server) -> None:
    """Until it is healthy."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end and server.process.poll() is None:
        if server.is_healthy():
            return
        time.sleep(0.5)
    raise RuntimeError(f"the server did not start (exit {server.process.poll()}): {server.tail()}")


def _answer(request: str | urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=REQUEST_LIMIT_S) as answer:
        body: bytes = answer.read()
        return body


def _option(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
