"""Malformed kernels give coded errors with the author's line, and nothing else."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim.frontend import JITKernel, install_shims
from kernels_npu.sim.frontend.entry import PrimFuncObject
from kernels_npu.sim.lint import lint_kernel
from kernels_npu.sim.soc import get_soc

HERE = Path(__file__).parent


def _probes() -> list[str]:
    spec = importlib.util.spec_from_file_location("probe_texts", HERE / "probe_kernels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.PROBES.values())


TEXTS = _probes()
NUMBERS = [
    "0",
    "-1",
    "1",
    "3",
    "7",
    "32",
    "65",
    "1000",
    "2.5",
    "None",
    "True",
    "(2, 3)",
    "cid",
    "a",
]
NAMES = ["a", "b", "c", "A", "C", "i", "vid", "m", "nowhere"]
DTYPES = ['"float16"', '"int32"', '"uint8"', '"int8"', '"float64"', '"bool"', '"half"', '"fp99"']
OPS = ["exp", "div", "cast", "select", "topk", "transpose", "gather", "axpy", "fill", "nothing"]
SLICES = ["[0:8, :]", "[:8, :]", "[3, :]", "[:, 3]", "[cid, :]", "[0]", "[0, 0, 0]", "[cid:8, :]"]

#: What is replaced, and by which of the given texts.
EDITS: dict[str, tuple[str, list[str]]] = {
    "number": (r"\b\d+(\.\d+)?\b", NUMBERS),
    "name": (r"\b[abcABCmijr]\b", NAMES),
    "dtype": (r'"[a-z]+\d*"', DTYPES),
    "operation": (r"(?<=T\.tile\.)\w+", OPS),
    "slice": (r"(?<=\b[acAC])(?=[,)])", SLICES),
    "argument": (r"(?<=[(,]) ?[\w.]+(?=[,)])", ["", " x=1", " a", " *A", " 'text'", " [a]"]),
    "character": (r"[^\s\w]", ["(", ")", "]", ",", ":", ".", "=", "+", ""]),
}


@st.composite
def malformed(draw: st.DrawFn) -> str:
    """A kernel's module with one to three edits inside the kernel."""
    text = draw(st.sampled_from(TEXTS))
    start = text.index("@T.prim_func")
    for _ in range(draw(st.integers(1, 3))):
        pattern, replacements = EDITS[draw(st.sampled_from(sorted(EDITS)))]
        places = [m for m in re.finditer(pattern, text) if m.start() > start]
        if places:
            place = draw(st.sampled_from(places))
            text = text[: place.start()] + draw(st.sampled_from(replacements)) + text[place.end() :]
    return text


def _made(file: Path) -> object:
    """What the module's `make` returns, or the exception that ends it."""
    namespace: dict[str, Callable[[], object]] = {}
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
        return namespace["make"]()
    except Exception as error:  # noqa: BLE001 - what is raised is what is looked at
        return error


def _raised_in(error: BaseException) -> str:
    """The file whose line raised `error`."""
    frames = error.__traceback__
    assert frames is not None
    while frames.tb_next is not None:
        frames = frames.tb_next
    return frames.tb_frame.f_code.co_filename


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=malformed())
def test_only_coded_errors(tmp_path: Path, target: str, text: str) -> None:
    install_shims()
    file = tmp_path / "malformed.py"
    file.write_text(text, encoding="utf-8")
    made = _made(file)
    if isinstance(made, KernelSourceError):
        assert isinstance(made.where, SourceLocation), made
        assert made.where.file == str(file)
        assert 1 <= made.where.line <= len(text.splitlines())
        assert made.rule
    elif isinstance(made, SyntaxError):
        assert made.filename == str(file)
    elif isinstance(made, Exception):
        # Python evaluates annotations itself, before the kernel is parsed.
        assert _raised_in(made) == str(file), made
    else:
        assert isinstance(made, PrimFuncObject)
        for finding in lint_kernel(JITKernel(made, target=target), get_soc("Ascend910B1")).findings:
            assert finding.loc is not None, finding
            assert finding.loc.file == str(file)
