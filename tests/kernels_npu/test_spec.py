"""Operators, their specifications, and the names of their kernels."""

from __future__ import annotations

import ast
from pathlib import Path

from kernels_npu.spec import OPERATORS, all_specs, kernel_name

PACKAGE = Path(__file__).resolve().parents[2] / "kernels_npu"


def test_specifications_have_the_names_they_are_listed_under() -> None:
    assert {name: spec.name for name, spec in all_specs().items()} == dict(
        zip(OPERATORS, OPERATORS)
    )


def test_a_kernel_has_its_operators_name() -> None:
    """What the compiler names kernels after: a profiler would not find one of another name."""
    names = set()
    for folder in {all_specs()[name].make_inputs.__module__.split(".")[1] for name in OPERATORS}:
        for file in (PACKAGE / folder).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.FunctionDef) and any(
                    "prim_func" in ast.unparse(decorator) for decorator in node.decorator_list
                ):
                    names.add(node.name)
    assert names == set(OPERATORS)
    assert kernel_name("rms_norm") == "rms_norm_kernel"
