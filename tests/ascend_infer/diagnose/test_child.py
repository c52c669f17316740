"""`diagnose run`: the command's environment, streams, exit status, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_infer.cli import main

LOG = """
import os, pathlib, sys
folder = pathlib.Path(os.environ['ASCEND_PROCESS_LOG_PATH'], 'debug', 'plog')
folder.mkdir(parents=True)
(folder / 'plog-1.log').write_text('capture model execute, model_id=4!')
"""


def report(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict, str]:
    status = main(["diagnose", *arguments])
    out, err = capfd.readouterr()
    return status, json.loads(out), err


def test_the_log_of_a_command_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = LOG + "assert os.environ['ASCEND_GLOBAL_LOG_LEVEL'] == '1'\nraise KeyError('k')\n"
    options = ["--json", "--log-dir", str(tmp_path), "run", "--"]
    status, found, err = report(capfd, *options, sys.executable, "-c", script)
    assert status == found["child_status"] == 1
    assert found["captures"]["executed"] == 1 and found["cause"]["key"] == "KeyError"
    assert "KeyError: 'k'" in err
    assert main(["diagnose", "run", "no-such-command"]) == 2


def test_a_temporary_folder_stays_where_the_report_names_its_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = ["--json", "run", "--", sys.executable, "-c"]
    status, _, _ = report(capfd, *run, LOG)
    assert status == 0
    assert main(["diagnose", "run", "no-such-command"]) == 2
    assert not list(tmp_path.iterdir())
    status, found, _ = report(capfd, *run, LOG + "raise KeyError('k')")
    file, line = found["cause"]["where"].rsplit(":", 1)
    assert status == 1 and "KeyError" in Path(file).read_text().splitlines()[int(line) - 1]


def test_options_may_follow_run_and_older_logs_are_not_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.log").write_text("ValueError: an older run\n" * 3)
    for _ in range(2):
        options = ["run", "--json", "--log-dir", str(tmp_path), "--"]
        status, found, _ = report(capfd, *options, sys.executable, "-c", LOG, "--json")
        assert status == 0 and found["captures"]["executed"] == 1
    assert len(list(tmp_path.glob("run-*/debug/plog/*.log"))) == 2


def test_standard_output_and_error_are_kept_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "import sys; print('to out'); print('to err', file=sys.stderr); sys.exit(3)"
    command = ["run", "--log-dir", str(tmp_path), "--", sys.executable, "-c", script]
    assert main(["diagnose", *command]) == 1
    out, err = capfd.readouterr()
    assert out.startswith("to out\n") and err == "to err\n" and "ended with status 3" in out
    assert [f.read_text() for f in sorted(tmp_path.glob("run-*/output.*"))] == [
        "to err\n", "to out\n",
    ]  # fmt: skip
    status, _, err = report(capfd, "--json", *command)
    # Both go to one stream now, whenever they arrive.
    assert status == 1 and sorted(err) == sorted("to err\nto out\n")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_whole_group_ends_when_we_are_interrupted(tmp_path: Path, number: int) -> None:
    """A child that ignores the interrupt, and one of its own that would outlive it."""
    pids = tmp_path / "pids"
    script = (
        "import os, pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        f"pathlib.Path({str(pids)!r} + '.tmp').write_text(f'{{os.getpid()}} {{grandchild.pid}}')\n"
        f"os.rename({str(pids)!r} + '.tmp', {str(pids)!r})\n"
        "time.sleep(99)\n"
    )
    command = [sys.executable, "-m", "ascend_infer", "diagnose", "run", "--"]
    root = str(Path(__file__).resolve().parents[3])
    ours = subprocess.Popen(
        [*command, sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": root},
    )
    deadline = time.monotonic() + 60
    while not pids.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    children = [int(pid) for pid in pids.read_text().split()]
    assert all(map(alive, children))
    ours.send_signal(number)
    out, _ = ours.communicate(timeout=60)
    assert ours.returncode == 128 + number
    assert (b"the command ended with status 130" in out) == (number == signal.SIGINT)
    assert not any(map(alive, children))
