"""Inside the process of one file: run it unmodified and write down which comparisons it made.

`python -m ascend_infer sim run -m conformance_suite.observe EVIDENCE.json BY FILE [ARGS]`
"""

from __future__ import annotations

import functools
import json
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conformance_suite import extra_checks

#: Functions with which files judge their kernels: (module, name, raises on a difference).
COMPARISONS: tuple[tuple[Any, str, bool], ...] = (
    (torch.testing, "assert_close", True),
    (np.testing, "assert_allclose", True),
    (np.testing, "assert_array_equal", True),
    (torch, "allclose", False),
    (torch, "equal", False),
    (np, "allclose", False),
    (np, "array_equal", False),
)


def _count(value: Any) -> int:
    return int(value.numel()) if isinstance(value, torch.Tensor) else int(np.size(value))


class Evidence:
    """What a file compared.

    comparisons: calls that agreed. disagreements: calls of a raising function that raised.
    elements: compared in those that agreed. tests: pytest outcomes. notes: skips and their reasons,
    and what an extra check measured.
    """

    def __init__(self) -> None:
        self.comparisons = 0
        self.disagreements = 0
        self.elements = 0
        self.tests: Counter[str] = Counter()
        self.notes: list[str] = []

    def watched(self, compare: Callable[..., Any], *, raises: bool) -> Callable[..., Any]:
        """`compare`, with every call written down."""

        @functools.wraps(compare)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                result = compare(*args, **kwargs)
            except AssertionError:
                self.disagreements += 1
                raise
            if (raises or result) and args[0] is not args[1]:
                self.comparisons += 1
                self.elements += _count(args[0])
            return result

        return call

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Write down the comparisons made in the body."""
        originals = [(module, name, getattr(module, name)) for module, name, _ in COMPARISONS]
        for module, name, raises in COMPARISONS:
            setattr(module, name, self.watched(getattr(module, name), raises=raises))
        try:
            yield
        finally:
            for module, name, original in originals:
                setattr(module, name, original)

    # ---------------------------------------------------------------- as a plugin of pytest

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test once: by its call, or by the phase that kept it from being called."""
        if report.when == "call" or not report.passed:
            self.tests[report.outcome] += 1
            if report.skipped:
                # An expected failure counts as skipped, and has a traceback in place of a reason.
                expected = getattr(report, "wasxfail", None)
                why = report.longrepr[-1] if expected is None else f"expected to fail: {expected}"
                self.notes.append(f"skipped {report.nodeid}: {why}")

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported has no tests to fail."""
        if report.failed:
            self.tests["failed"] += 1


def main(destination: str, by: str, file: str, *arguments: str) -> int:
    """Run `file` with `arguments`, write the evidence to `destination`; the exit code."""
    evidence = Evidence()
    sys.path.insert(0, str(Path(file).parent))
    sys.argv = [file, *arguments]
    try:
        with evidence.watching():
            return _run(evidence, by, file)
    finally:
        Path(destination).write_text(json.dumps(vars(evidence)), encoding="utf-8")


def _run(evidence: Evidence, by: str, file: str) -> int:
    if by == "pytest":
        import pytest

        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-rfE", "--tb=short"]
        return int(pytest.main([*options, file], plugins=[evidence]))
    if by == "extra":
        evidence.notes.append(extra_checks.run(file))
        return 0
    runpy.run_path(file, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
