"""Programs on a host made of a few lines, each in a process of its own, as vLLM's are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
#: What a program begins with; {known}: whether the host's text is a pinned one.
HEAD = """
import json, sys
from types import SimpleNamespace
from ascend_infer.vllm_plugin import pins, host
if {known}:
    host.differences = lambda *_: []
def chosen(kind="plain"):
    from vllm_ascend.platform import NPUPlatform
    return NPUPlatform.get_attn_backend_cls(None, kind)
def table():
    from vllm.model_executor.custom_op import op_registry_oot
    return {{key: value.__name__ for key, value in op_registry_oot.items()}}
from ascend_infer.vllm_plugin import register
"""


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write a host: relative path -> text."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(
    folder: Path, body: str, *, known: bool = True, status: int = 0, **variables: str
) -> tuple[Any, str]:
    """What a program prints as JSON, if anything, and its standard error; it ends with `status`."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD.format(known=known) + body],
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return (json.loads(done.stdout) if done.stdout else None), done.stderr
