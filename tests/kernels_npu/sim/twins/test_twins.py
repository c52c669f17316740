"""Every seeded mistake is found under every schedule; without it nothing is said at all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import AscendInferError
from tests.kernels_npu.sim.machine.conftest import launch_kernel
from tests.kernels_npu.sim.twins import (
    cross_cores,
    developer_mode,
    flags,
    memory,
    operands,
    serving,
)
from tests.kernels_npu.sim.twins.twin import TWINS, Twin

MODULES = (cross_cores, developer_mode, flags, memory, operands, serving)

every_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)


def test_there_are_at_least_thirty_twins_of_different_kinds() -> None:
    assert {twin.file for twin in TWINS} == {module.__file__ for module in MODULES}
    assert len({twin.name for twin in TWINS}) == len(TWINS) >= 30
    assert all(twin.named for twin in TWINS)


@every_twin
def test_clean_kernel_is_right_and_silent(
    twin: Twin, rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    given = twin.inputs(rng)
    expected = twin.expected(*(np.copy(value) for value in given))
    expected = expected if isinstance(expected, tuple) else (expected,)
    result = launch_kernel(twin.build(False), *given)
    assert result.record.findings == (), "\n".join(map(str, result.record.findings))
    changed = [value for value in given if isinstance(value, np.ndarray)]
    outputs = [*result.outputs, *changed[: len(expected) - len(result.outputs)]]
    assert len(outputs) == len(expected)
    for output, value in zip(outputs, expected):
        if twin.exact:
            np.testing.assert_array_equal(output, value)
        else:
            np.testing.assert_allclose(output, value, rtol=1e-5, atol=1e-5)


@every_twin
def test_mistake_is_found_with_its_lines(
    twin: Twin, rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    said = complaints(twin, twin.inputs(rng))
    about = [text for code, text in said if code in twin.codes]
    assert about, said
    assert any(twin.named <= lines(text, twin.file) for text in about), about


def complaints(twin: Twin, given: tuple[Any, ...]) -> list[tuple[str, str]]:
    """(code, text) of everything said about the broken kernel, when it is built or launched."""
    try:
        result = launch_kernel(twin.build(True), *given)
    except AscendInferError as error:
        return [(error.code, str(error))]
    return [(finding.code, str(finding)) for finding in result.record.findings]


def lines(text: str, file: str) -> set[int]:
    """The lines of `file` that a message names."""
    return {int(line) for line in re.findall(re.escape(file) + r":(\d+)", text)}
