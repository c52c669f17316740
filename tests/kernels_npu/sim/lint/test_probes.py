"""One-mistake kernels: what the compiler rejects is rejected, what it misses is found."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernels_npu.errors import AscendInferError, KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import JITKernel, install_shims
from kernels_npu.sim.frontend.entry import PrimFuncObject
from kernels_npu.sim.lint import lint_kernel
from kernels_npu.sim.machine import Finding, GmArg, LaunchRecord
from kernels_npu.sim.soc import get_soc

HERE = Path(__file__).parent
PLANNED = {"tl.ascend_memory_planning": True, "tl.ascend_auto_sync": True}
#: What is said of correct kernels, too: a part of the compiler that is not reproduced.
LIMITS = {"AI-MEM-014"}


def _load(name: str, text: str | None = None, folder: Path = HERE) -> ModuleType:
    path = folder / f"{name}.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROBES: dict[str, str] = _load("probe_kernels").PROBES


@dataclass(frozen=True)
class Case:
    """A kernel under one target and setting: the compiler's verdict, and ours."""

    probe: str
    target: str
    planned: bool
    rejected: bool
    expected: str

    def __str__(self) -> str:
        return f"{self.probe} [{self.target}{' planned' if self.planned else ''}]"

    @property
    def codes(self) -> set[str]:
        return {part for part in self.expected.split() if part.startswith("AI-")}


def _cases() -> Iterator[Case]:
    text = (HERE / "probe_verdicts.tsv").read_text(encoding="utf-8").splitlines()
    rows = csv.reader((line for line in text if not line.startswith("#")), delimiter="\t")
    next(rows)
    columns = [(target, planned) for target in ("ascendc", "pto") for planned in (False, True)]
    for probe, *cells in rows:
        for (target, planned), cell in zip(columns, cells, strict=True):
            verdict, expected = cell.split(": ")
            yield Case(probe, target, planned, verdict == "reject", expected)


CASES = list(_cases())


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PrimFuncObject | Exception]:
    """Each probe as its module makes it, or the error that this raises."""
    install_shims()
    folder = tmp_path_factory.mktemp("probes")
    result: dict[str, PrimFuncObject | Exception] = {}
    for number, (probe, text) in enumerate(PROBES.items()):
        try:
            result[probe] = _load(f"probe_{number}", text, folder).make()
        except KernelSourceError as error:
            result[probe] = error
    return result


def _kernel(func: PrimFuncObject, case: Case) -> JITKernel:
    configs = PLANNED if case.planned else {}
    return JITKernel(func, out_idx=[2], target=case.target, pass_configs=configs)


def _told(findings: tuple[Finding, ...]) -> set[str]:
    return {f.code for f in findings} - LIMITS


def _launch(kernel: JITKernel) -> LaunchRecord:
    """Execute on random data; the output is poisoned."""
    rng = np.random.default_rng(20)
    args: list[GmArg | int | float] = []
    for index, tensor in enumerate(kernel.prim_func.tensors):
        shape = tuple(int(ir.as_expr(d).value) for d in tensor.shape)  # type: ignore[attr-defined]
        element = numpy_dtype(tensor.dtype)
        values = rng.uniform(1, 4, shape).astype(element)
        data = values.reshape(-1).view(np.uint8)
        if index in kernel.out_idx:
            data[...] = 0xFF
        args.append(GmArg(data, shape, tensor.dtype, tensor.name))
    return kernel.compiled.launch(args, SimConfig(on_finding="report"))


def test_every_described_kernel_is_there() -> None:
    assert {case.probe for case in CASES} == set(PROBES)
    assert len(PROBES) == 114
    assert len(CASES) == 456


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lint_says_what_is_wrong(case: Case, parsed: dict[str, PrimFuncObject | Exception]) -> None:
    func = parsed[case.probe]
    if isinstance(func, KernelSourceError):
        assert {func.code} == case.codes
        assert isinstance(func.where, SourceLocation)
        assert func.where.file.startswith("/")
        assert func.rule
        assert func.fix
        return
    assert isinstance(func, PrimFuncObject)
    report = lint_kernel(_kernel(func, case), get_soc("Ascend910B1"))
    if case.expected == "ok" or case.expected.startswith("run "):
        assert _told(report.findings) == set()
        return
    assert case.codes <= _told(report.findings)
    for finding in report.findings:
        assert finding.loc is not None
        assert finding.rule
        assert finding.fix
        if case.rejected and finding.code in case.codes:
            assert finding.severity == "error"


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.expected == "ok" or c.expected.startswith("run ")], ids=str
)
def test_execution_agrees(case: Case, parsed: dict[str, PrimFuncObject | Exception]) -> None:
    func = parsed[case.probe]
    assert isinstance(func, PrimFuncObject)
    findings = _launch(_kernel(func, case)).findings
    # A barrier too many is a hint, and these kernels have one between any two steps.
    assert _told(tuple(f for f in findings if f.severity != "hint")) == case.codes


def test_what_is_wrong_is_executed_where_findings_are_only_reported(
    parsed: dict[str, PrimFuncObject | Exception],
) -> None:
    executed = 0
    for case in CASES:
        func = parsed[case.probe]
        if not isinstance(func, PrimFuncObject):
            continue
        try:
            record = _launch(_kernel(func, case))
        except AscendInferError:
            continue  # nothing that could be executed
        executed += sum(record.counters.instructions.values()) > 0
    assert executed > len(CASES) / 2


def test_nothing_wrong_passes_unnoticed() -> None:
    """Every rejection has a code; what is neither rejected nor found is a correct kernel."""
    assert all(case.codes for case in CASES if case.rejected)
    found_by_run = {c.probe for c in CASES if c.expected.startswith("run ")}
    assert found_by_run == {"no barrier/flag between copy, add, copy (missing sync)"}
