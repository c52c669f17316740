"""The CUDA kernels against the references, on a device or in Triton's interpreter on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernels_npu import cuda, reference

CASES = Path(__file__).with_name("cases.py")


def cases() -> dict[str, Callable[[torch.device, torch.dtype], None]]:
    spec = importlib.util.spec_from_file_location("cuda_cases", CASES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Callable[[torch.device, torch.dtype], None]] = module.CASES
    return found


NAMES = (
    "add_rms_norm",
    "attention",
    "cache",
    "fused_add_rms_norm",
    "rms_norm",
    "rotary",
    "silu_and_mul",
    "split_norm_rope",
)


@pytest.fixture(scope="module")
def on_device() -> dict[str, Callable[[torch.device, torch.dtype], None]]:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return cases()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_on_the_device(
    on_device: dict[str, Callable[[torch.device, torch.dtype], None]],
    name: str,
    dtype: torch.dtype,
) -> None:
    on_device[name](torch.device("cuda:0"), dtype)


@pytest.mark.skipif(not cuda.has_triton(), reason="Triton is not installed")
def test_in_the_interpreter() -> None:
    """float16 only: the interpreter truncates where the device rounds to bfloat16."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, str(CASES)], env=environment, check=True, timeout=300)


def test_what_has_no_kernel_runs_the_reference() -> None:
    rows = torch.ones(2, 8)
    assert cuda.implementation("rms_norm", (rows, rows[0], 1e-6)) is None
    wide = torch.ones(1, 1, cuda.MAX_HEAD_DIM + 8, dtype=torch.float16)
    assert cuda.implementation("paged_decode_attention", (wide,)) is None
    assert set(cuda.OPERATORS) == set(reference.__all__)
