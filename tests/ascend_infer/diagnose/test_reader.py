"""Logs that are odd, damaged, huge, or not to be read: said, and never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_infer.cli import main
from ascend_infer.diagnose import diagnose_logs
from kernels_npu.errors import UsageError

ROOT = str(Path(__file__).resolve().parents[3])
LINE = "[ERROR] RUNTIME(1,py):2026-03-10-16:49:31.543.228 [a.cc:1]7 f:retCode=507015"


class Steps:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done: list[int] = []

    def stage(self, name: str, total: int | None = None) -> None:
        self.total = total

    def step(self, done: int | None = None) -> None:
        assert done is not None
        self.done.append(done)


def found(log: Path) -> list[str]:
    return [group.where for group in diagnose_logs([str(log)]).groups]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, end: str) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(f"Modèle é{end}{LINE}é{end}".encode(encoding))
    assert found(log) == [f"{log}:2"]


def test_a_compressed_log_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    log = tmp_path / "plog-1.log.gz"
    text = "".join(f"{LINE} {random.random()}\n" for _ in range(50_000)).encode()
    log.write_bytes(gzip.compress(text)[:-1000])
    (tmp_path / "whole.log").write_text("fine\n")
    diagnosis = diagnose_logs([str(tmp_path)])
    assert "plog-1.log.gz" in diagnosis.unreadable[0] and diagnosis.files == 1
    assert 10_000 < diagnosis.groups[0].count < 50_000


def test_progress_knows_its_total(tmp_path: Path) -> None:
    rng = random.Random(5)
    data = rng.randbytes(3 << 20)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(data))
    steps = Steps()
    diagnose_logs([str(tmp_path)], steps)
    assert steps.total == steps.done[-1] == 6
    assert steps.done == sorted(steps.done)


def test_folders_that_loop(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "self.log").symlink_to(tmp_path / "self.log")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nothing")
    (tmp_path / "a" / "a.log").write_text(LINE)
    assert found(tmp_path) == [f"{tmp_path}/a/a.log:1"]


def test_nothing_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", os.devnull]) == 0
    (tmp_path / "notes.md").write_text(LINE)
    for path in (tmp_path, tmp_path / "absent"):
        capsys.readouterr()
        assert main(["diagnose", "--json", str(path)]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "AI-CLI-004"
    (tmp_path / "empty.log").touch()
    assert main(["diagnose", str(tmp_path)]) == 0


def test_folders_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text(LINE)
    secret = tmp_path / "secret"
    secret.mkdir()
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path) == str(secret):
            raise PermissionError(13, "Permission denied", str(secret))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    diagnosis = diagnose_logs([str(tmp_path)])
    assert diagnosis.unreadable == [f"{secret}: Permission denied"] and diagnosis.groups
    with pytest.raises(UsageError, match="Permission denied"):
        diagnose_logs([str(secret)])


@pytest.mark.parametrize("closed", [False, True])
def test_standard_input(closed: bool) -> None:
    command = [sys.executable, "-m", "ascend_infer", "diagnose", "--json", "-"]
    shell = ["sh", "-c", 'exec "$@" <&-', "sh"] if closed else []
    done = subprocess.run(
        [*shell, *command],
        input=f"x\n{LINE}\n".encode(),
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
    )
    answer = json.loads(done.stdout)
    if closed:
        assert done.returncode == 2 and answer["error"]["code"] == "AI-CLI-004"
    else:
        assert done.returncode == 1 and answer["cause"]["where"] == "-:2"


@pytest.mark.slow
@pytest.mark.parametrize("errors", [0.001, 1.0], ids=["ordinary", "every line an error"])
def test_two_gigabytes(tmp_path: Path, errors: float) -> None:
    """By processes of their own, whose CPU time and memory are those of reading the log."""
    rng = random.Random(11)
    lines = []
    for number in range(50_000):
        level = "ERROR" if rng.random() < errors else "INFO"
        lines.append(
            f"[{level}] RUNTIME(129444,VLLM::Worker_TP1):2026-03-10-16:{number // 1000:02}:"
            f"{number % 60:02}.543.{rng.randrange(1000):03} [stream.cc:{rng.randrange(400)}]129646 "
            f"LaunchKernel:task id={number}, stream_id={rng.randrange(1984)}, addr="
            f"{rng.getrandbits(48):#x}, retCode={rng.choice(('0x7bc87', '0x7020023', '207008'))}\n"
        )
    block = "".join(lines).encode()
    log = tmp_path / "plog-1.log"
    blocks = (2 << 30) // len(block) + 1
    with open(log, "wb") as stream:
        for _ in range(blocks):
            stream.write(block)
    program = (
        "import json, re, resource, sys, time\n"
        "from ascend_infer.diagnose import diagnose_logs\n"
        "found = diagnose_logs([sys.argv[1]], workers=2)\n"
        # Not getrusage: its peak is that of the process before exec, too.
        "peak = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "others = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "cpu = time.process_time() + others.ru_utime + others.ru_stime\n"
        "print(json.dumps([sum(g.count for g in found.groups), found.dropped,\n"
        "                  cpu / 2, (peak + 2 * others.ru_maxrss) / 1024]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(log)],
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        check=True,
    )
    log.unlink()  # pytest keeps the folders of several runs
    counted, dropped, seconds, mebibytes = json.loads(done.stdout)
    assert counted + dropped == blocks * sum("[ERROR]" in line for line in lines)
    assert mebibytes < 300
    print(f"{seconds:.1f} s of two cores, {mebibytes:.0f} MiB")
    assert seconds < 60


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_further_processes_end_with_the_command(tmp_path: Path, number: int) -> None:
    """Told together, as by Ctrl-C, without a traceback; or alone. Nobody is left."""
    log = tmp_path / "a.log"
    log.write_text("ValueError: x y z\n" * 12_000_000)
    command = [sys.executable, "-m", "ascend_infer", "diagnose", str(log)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2 and process.poll() is None:
        time.sleep(0.01)
    started = children.read_text().split()
    os.kill(process.pid, number) if number == signal.SIGKILL else os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -9)
    assert number == signal.SIGKILL or b"Traceback" not in errors
    ends = time.monotonic() + 20
    while any(Path("/proc", child).exists() for child in started) and time.monotonic() < ends:
        time.sleep(0.05)
    assert started and not any(Path("/proc", child).exists() for child in started)
