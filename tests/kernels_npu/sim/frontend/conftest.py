"""Builds kernels from text in a file, so that errors carry a real file and line."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernels_npu.sim import frontend, ir

_counter = itertools.count()
_HEADER = """\
from kernels_npu.sim.frontend import T, tilelang
"""
_KERNEL = """\
@T.prim_func
def main(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 128), "float32"), n: T.int32):
    with T.Kernel(4, is_npu=True) as (cid, vid):
        a = T.alloc_ub((64, 128), "float32")
        b = T.alloc_ub((64, 128), "float32")
        row = T.alloc_ub((64, 1), "float32")
        v = T.alloc_ub((128,), "float32")
        mask = T.alloc_ub((1024,), "uint8")
        idx = T.alloc_ub((128,), "int32")
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], ModuleType]:
    """Imports a module from text."""

    def build(text: str) -> ModuleType:
        path = tmp_path / f"user_{next(_counter)}.py"
        path.write_text(_HEADER + textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return build


@pytest.fixture
def kernel(load: Callable[[str], ModuleType]) -> Callable[..., ir.PrimFunc]:
    """The IR of a kernel whose body is given; `before` is text of the module above it."""

    def build(body: str, before: str = "") -> ir.PrimFunc:
        text = before + "\n" + _KERNEL + textwrap.indent(textwrap.dedent(body), " " * 8)
        return frontend.parse(load(text).main)

    return build


@pytest.fixture
def script(kernel: Callable[..., ir.PrimFunc]) -> Callable[..., list[str]]:
    """The printed statements of a kernel body."""
    from kernels_npu.sim.ir_printer import format_body

    def build(body: str, before: str = "") -> list[str]:
        return format_body(kernel(body, before).body).splitlines()

    return build


def line_of(module_text: str, marker: str) -> Any:
    """The 1-based line that holds `marker`."""
    return next(i for i, line in enumerate(module_text.splitlines(), 1) if marker in line)
