"""The doctor and the dialect guard in environments with the real packages, fetched from PyPI.

Each is a virtual environment that sees this one's packages behind its own; nothing is installed
here. Without a network the tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from tests.ascend_infer.processes import ROOT
from tests.kernels_npu.dialect.installations import install

pytestmark = pytest.mark.slow
SOURCES = (
    "import tilelang.ascend.language as T\n"
    "def kernel(n):\n    with T.Kernel(n) as core:\n        T.alloc_l1((2,), 'int8')\n"
)


class Environment:
    """A virtual environment with some distributions of its own."""

    def __init__(self, folder: Path, *requirements: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "lib" / version / "site-packages"
        (self.packages / "zz-behind.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        self.python = str(folder / "bin" / "python")
        done = self.run("-m", "pip", "install", "-q", "--no-deps", *requirements)
        if done.returncode:
            pytest.skip(f"pip cannot install {requirements}: {done.stderr.splitlines()[-1:]}")

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
        return subprocess.run(
            [self.python, *arguments],
            env={**inherited, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def doctor(self, **variables: str) -> tuple[int, dict[str, Any]]:
        """Exit code and findings by name; no traceback, and under 5 seconds when warm."""
        start = time.monotonic()
        done = self.run("-m", "ascend_infer", "doctor", "--json", **variables)
        print(f"doctor took {time.monotonic() - start:.1f} s")
        assert "Traceback" not in done.stderr
        result = json.loads(done.stdout)
        return done.returncode, {
            "devices": result["devices"],
            **{f["name"]: f for f in result["findings"]},
        }


@pytest.fixture(scope="module")
def mainline(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(
        tmp_path_factory.mktemp("mainline") / "venv",
        *("tilelang==0.1.15", "apache-tvm-ffi>=0.1.11,<0.1.13", "z3-solver>=4.13,<4.15.5"),
        *("psutil", "cloudpickle", "tqdm", "typing_extensions"),
    )


def test_mainline(mainline: Environment, tmp_path: Path):
    code, found = mainline.doctor()
    assert code == 0 and found["devices"] == ["sim", "cpu"]
    finding = found["tilelang dialect"]
    assert finding["verdict"] == "warning"
    assert "AI-ENV-010: tilelang 0.1.15 in " in finding["evidence"]
    program = "from kernels_npu.dialect import T"
    assert "AI-ENV-010" in mainline.run("-c", program).stderr
    kernel = tmp_path / "kernel.py"
    kernel.write_text(SOURCES)
    refused = mainline.run("-m", "ascend_infer", "sim", "run", str(kernel))
    assert refused.returncode == 1 and "T.alloc_l1 (line 4): T.alloc_L1" in refused.stderr
    quiet = "import sys; from kernels_npu import dialect; dialect.installed()\n"
    assert mainline.run("-c", quiet + "print('tilelang' in sys.modules)").stdout == "False\n"


ROWS = """
import importlib
from kernels_npu.dialect.translations import NAMES, MAINLINE, MAINLINE_ASCEND
gpu, cuda, ascend = map(importlib.import_module, (
    "tilelang.language", "tilelang.cuda.language", "tilelang.ascend.language"))
for name, row in NAMES.items():
    there = {MAINLINE: hasattr(gpu, name) or hasattr(cuda, name),
             MAINLINE_ASCEND: hasattr(ascend, name)}
    if any(there[dialect] != (dialect in row.dialects) for dialect in there):
        print(name)
"""


def test_the_rows_of_translations_are_mainline_s_names(mainline: Environment):
    done = mainline.run("-c", ROWS)
    assert done.stdout.split() == ["annotate_padding"], done.stderr  # of early releases only


def test_mainline_under_a_copy_of_the_adapter(mainline: Environment):
    install(mainline.packages, "adapter")
    code, found = mainline.doctor()
    assert code == 1 and found["tilelang dialect"]["verdict"] == "broken"
    assert "AI-ENV-011" in found["tilelang dialect"]["evidence"]
    assert "AI-ENV-011" in mainline.run("-c", "from kernels_npu.dialect import T").stderr


def test_torch_npu_without_cann(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "torch_npu==2.13.0")
    code, found = environment.doctor()
    assert code == 1 and found["devices"] == ["sim"]
    assert found["torch_npu"]["verdict"] == "broken"
    assert found["torch_npu"]["evidence"].startswith("ImportError: libhccl.so")
    code, found = environment.doctor(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert code == 0 and found["devices"] == ["sim", "cpu"]
    assert found["torch_npu"]["verdict"] == "warning"
