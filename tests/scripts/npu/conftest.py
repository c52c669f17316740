"""The programs of scripts/npu as modules, on the simulated device."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kernels_npu.sim import device as simulated

FOLDER = Path(__file__).resolve().parents[3] / "scripts" / "npu"


@pytest.fixture
def program(monkeypatch, request):
    """Load a program by its name, with its neighbours importable."""
    if request.node.get_closest_marker("gpu") is None:
        simulated.enable()
    monkeypatch.syspath_prepend(FOLDER)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    before = set(sys.modules)
    yield load
    for name in set(sys.modules) - before:
        if not name.startswith(("torch", "kernels_npu", "graphs", "ascend_infer")):
            del sys.modules[name]


@pytest.fixture
def call(monkeypatch, capfd):
    """Run a program's `main` with arguments; its exit status, standard output and error."""

    def run(module: ModuleType, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        status = module.main()
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run
