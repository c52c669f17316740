"""What the scripts that make an environment decide before pip is asked for anything."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def bash(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", **variables}
    text = f"set -euo pipefail; source {shlex.quote(str(SCRIPTS / '_venv.sh'))}; {program}"
    return subprocess.run(
        ["bash", "-c", text], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("given", "release", "rest"),
    [
        ("", "none", ""),
        ("--install --host 0.18.0", "0.18.0", "--install"),
        ("--host=0.18.0 --mode FULL --json", "0.18.0", "--mode FULL --json"),
        ("--json -- vllm serve --host 0.0.0.0", "none", "--json -- vllm serve --host 0.0.0.0"),
        ("--host 1 -- serve --host=2", "1", "-- serve --host=2"),
    ],
)  # fmt: skip
def test_the_host_is_named_anywhere_before_a_command(given, release, rest):
    done = bash(f'HOST_RELEASE=none; take_host {given}; echo "$HOST_RELEASE|${{REST[*]}}"')
    assert done.stdout.strip() == f"{release}|{rest}"


@pytest.mark.parametrize("script", ["vllm-sim", "vllm-cpu"])
@pytest.mark.parametrize("given", [["--host"], ["--host", "0.19.0"], ["--install", "--host=x"]])
def test_a_release_that_does_not_exist_is_wrong_use(script, given):
    done = subprocess.run(
        [SCRIPTS / script, *given], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "--host" in done.stderr


@pytest.mark.parametrize(
    ("python", "oldest", "says"),
    [
        (sys.executable, 10, None),
        (sys.executable, 99, f"is Python {sys.version.split()[0]}, and Python 3.99 to"),
        ("/nowhere/python", 10, "PYTHON=/nowhere/python is no Python, and Python 3.10 to"),
    ],
)
def test_the_named_python_is_used_or_refused(python, oldest, says):
    done = bash(f"OLDEST_PYTHON={oldest}; find_python", PYTHON=python)
    if says is None:
        assert done.stdout == python
    else:
        assert done.returncode == 2 and says in done.stderr


def test_another_torch_begins_anew_instead_of_lying_over_a_cuda_build(tmp_path):
    """Pip takes the CUDA build that is there for the release that was asked for."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = f"VENV={shlex.quote(str(tmp_path))}; needs_venv && echo anew || echo kept"
    index = {"ASCEND_INFER_TORCH_INDEX": "https://packages.example/cpu"}
    assert bash(program, **index).stdout.strip() == "kept"
    (tmp_path / "lib/python3.11/site-packages/nvidia").mkdir(parents=True)
    assert bash(program, **index).stdout.strip() == "anew"
    assert bash(program).stdout.strip() == "kept"
    (tmp_path / "bin" / "python").unlink()
    assert bash(program).stdout.strip() == "anew"
