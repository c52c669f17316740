"""Running the command in a process of its own: the simulated NPU is one per process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
needs_simulator = pytest.mark.skipif(
    tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2]) < (2, 13),
    reason="the simulated NPU needs torch >= 2.13",
)


def command(
    *arguments: str, before: str = "", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `ascend-infer` with `arguments`; packages in folder `before` hide installed ones."""
    inherited = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    path = os.pathsep.join(filter(None, [before, str(ROOT)]))
    return subprocess.run(
        [sys.executable, "-m", "ascend_infer", *arguments],
        env={**inherited, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
