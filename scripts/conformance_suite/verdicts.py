"""From what the processes of a file left behind to its verdict, and whether it was expected."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance_suite.catalogue import Judge, judge_of
from conformance_suite.runner import Execution

PASS, FINDINGS, ERRORS, FAIL, TIMEOUT, NOT_JUDGED = (
    "pass",
    "pass with findings",
    "right, but errors",
    "fail",
    "timeout",
    "not judged",
)
#: The last line of a traceback.
_RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b.*")
_CODED = re.compile(r"\b(AI-[A-Z]+-\d{3}): *(.*)")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of one file.

    reason: one line. evidence: what makes a pass a pass. killed: by the system, as when memory runs
    out. findings: of error and warning severity.
    """

    file: str
    verdict: str
    seconds: float = 0.0
    reason: str = ""
    evidence: str = ""
    launches: int = 0
    killed: bool = False
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings and of the error that ended the file, each once."""
        found = {str(f["code"]) for f in self.findings}
        return tuple(sorted(found | set(re.findall(r"AI-[A-Z]+-\d{3}", self.reason))))


def judge(file: str, executions: Sequence[Execution]) -> Verdict:
    """The verdict on `file`: that of its worst run."""
    how = judge_of(file)
    seconds = sum(e.seconds for e in executions)
    findings = tuple(f for e in executions for f in _findings(e.report))
    launches = sum(_launches(e.report) for e in executions)
    common: dict[str, Any] = {
        "file": file,
        "seconds": seconds,
        "findings": findings,
        "launches": launches,
        "killed": any(e.exit_code == -signal.SIGKILL for e in executions),
    }
    for execution in executions:
        if execution.exit_code is None:
            return Verdict(verdict=TIMEOUT, reason="stopped at the time limit", **common)
        fault = _fault(how, execution)
        if fault:
            return Verdict(verdict=FAIL, reason=fault, **common)
    evidence = "; ".join(_evidence(how, e) for e in executions)
    codes = sorted({str(f["code"]) for f in findings})
    if codes:
        errors = any(f["severity"] == "error" for f in findings)
        verdict = ERRORS if errors else FINDINGS
        return Verdict(verdict=verdict, reason=", ".join(codes), evidence=evidence, **common)
    return Verdict(verdict=PASS, evidence=evidence, **common)


def _fault(how: Judge, execution: Execution) -> str:
    """Why this run is no pass; empty when it is one."""
    evidence, tests = execution.evidence, execution.evidence.get("tests", {})
    if how.by == "pytest" and tests.get("failed"):
        return f"{tests['failed']} tests failed, {tests.get('passed', 0)} passed" + _first_code(
            execution
        )
    if execution.exit_code:
        return _error(execution)
    if evidence.get("disagreements"):
        return f"{evidence['disagreements']} comparisons disagreed, and the file went on"
    if how.by == "pytest":
        return "" if tests.get("passed") else "no test ran"
    if not _launches(execution.report):
        return "no kernel was launched"
    if how.by == "output":
        if re.search(how.failed, execution.output):
            return f"the output says {re.search(how.failed, execution.output)[0]!r}"  # type: ignore[index]
        return "" if re.search(how.passed, execution.output) else "the output does not say success"
    return "" if evidence.get("comparisons") or how.by == "extra" else "nothing was compared"


def _evidence(how: Judge, execution: Execution) -> str:
    evidence = execution.evidence
    if how.by == "pytest":
        tests = evidence.get("tests", {})
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(tests.items()))
    if how.by == "output":
        return f"the file says {re.search(how.passed, execution.output)[0]!r}"  # type: ignore[index]
    if how.by == "extra":
        return "; ".join(evidence.get("notes", []))
    return f"{evidence['comparisons']} comparisons of {evidence['elements']} elements"


def _error(execution: Execution) -> str:
    """The last coded error or exception of the output."""
    error = execution.report.get("error")
    if error:
        return f"{error['code']}: {_line(error['what'])}"
    lines = [line for line in execution.output.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        position = len(lines) - 1 - lines[::-1].index(raised[-1])
        return _line(" ".join(lines[position : position + 3]))
    return f"exit code {execution.exit_code}"


def _first_code(execution: Execution) -> str:
    found = _CODED.search(execution.output)
    return f"; first {found[1]}: {_line(found[2])}" if found else ""


def _line(text: str, limit: int = 160) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _findings(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings that say something is wrong; hints only say what could be faster."""
    return [f for f in report.get("findings", []) if f["severity"] != "hint"]


def _launches(report: dict[str, Any]) -> int:
    return sum(int(kernel["launches"]) for kernel in report.get("kernels", {}).values())


# ------------------------------------------------------------------------------ expectations


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The known result of a file that does not simply pass, and why it is right."""

    verdict: str
    codes: tuple[str, ...]
    why: str


def read_expectations(path: Path) -> dict[str, Expectation]:
    """Rows of a table with the columns file, verdict, codes, why, separated by tabulators."""
    rows: dict[str, Expectation] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        if line.strip():
            file, verdict, codes, why = line.split("\t")
            rows[file] = Expectation(verdict=verdict, codes=tuple(codes.split()), why=why)
    return rows


def surprise(verdict: Verdict, expected: dict[str, Expectation]) -> str:
    """How the verdict differs from the expected one; empty when it does not."""
    known = expected.get(verdict.file, Expectation(verdict=PASS, codes=(), why=""))
    if verdict.verdict != known.verdict:
        return f"expected: {known.verdict}"
    if known.verdict in (FINDINGS, ERRORS, FAIL) and verdict.codes != known.codes:
        return f"expected: {' '.join(known.codes) or 'no code'}"
    return ""
