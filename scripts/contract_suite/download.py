"""Files of releases through pip, kept between runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: What is checked by default. All have wheels for CPython 3.11 on x86_64.
RELEASES = (
    "torch_npu==2.9.0.post9",
    "torch_npu==2.11.0.post3",
    "torch_npu==2.12.0.post3",
    "torch_npu==2.13.0",
    "torch_npu==2.14.0",
    "vllm_ascend==0.18.0",
    "vllm_ascend==0.23.0",
)
_PLATFORMS = tuple(f"manylinux_2_{glibc}_x86_64" for glibc in (34, 28, 24))


def download(requirement: str, cache: Path) -> Path:
    """The wheel of `torch_npu==2.13.0`, from pip or from an earlier download.

    Raises:
        OSError: pip found none.
        ValueError: the requirement names no version.
    """
    name, _, version = requirement.partition("==")
    if not version:
        raise ValueError(f"{requirement} names no version, expected NAME==VERSION")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    found = sorted(cache.glob(pattern))
    if not found:
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(cache)]
        command += ["--only-binary", ":all:", "--python-version", "3.11"]
        for platform in _PLATFORMS:
            command += ["--platform", platform]
        done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
        found = sorted(cache.glob(pattern))
        if done.returncode or not found:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise OSError(f"pip download {requirement}: {reason}")
    return found[0]
