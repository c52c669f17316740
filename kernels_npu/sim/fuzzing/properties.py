"""What must hold for every kernel: each function raises `Violation` when it does not."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable

import numpy as np

from kernels_npu.errors import AscendInferError, SourceLocation
from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.frontend import JITKernel
from kernels_npu.sim.fuzzing.arguments import check_arguments
from kernels_npu.sim.fuzzing.cases import Case, build, define, device_arguments, launch
from kernels_npu.sim.fuzzing.cube_kernels import draw_cube_kernel
from kernels_npu.sim.fuzzing.damage import damaged
from kernels_npu.sim.fuzzing.draw import Draw
from kernels_npu.sim.fuzzing.forms import Array
from kernels_npu.sim.fuzzing.vector_kernels import draw_vector_kernel
from kernels_npu.sim.mutation.capture import Captured, Snapshot
from kernels_npu.sim.mutation.deletions import deletions
from kernels_npu.sim.mutation.trial import SURVIVOR, Trial

#: Of half precision, after a few operations on a value that differs in its last bit.
_RELATIVE, _ABSOLUTE = 2e-2, 2e-2


class Violation(AssertionError):
    """A property does not hold for a kernel's text."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{what}\n\n{text}")


def check_correct(case: Case, seed: int) -> None:
    """Under every schedule: no error or warning, the expected values, equal without checks."""
    kernel = build(case.text)
    for schedule in (("eager", 0), ("late", 0), ("random", seed)):
        record, outputs = launch(kernel, case, schedule)
        findings = [str(f) for f in record.findings if f.severity != "hint"]
        if findings:
            raise Violation(f"{schedule}: {findings[0]}", case.text)
        for output, expected in zip(outputs, case.outputs.values()):
            if not _agree(output, expected, exact=case.exact):
                raise Violation(f"{schedule}: {output} is not {expected}", case.text)
        unchecked = launch(kernel, case, schedule, Checks.none())[1]
        if any(a.tobytes() != b.tobytes() for a, b in zip(outputs, unchecked)):
            raise Violation(f"{schedule}: other values without checks", case.text)


def _agree(output: Array, expected: Array, *, exact: bool) -> bool:
    if exact:
        return bool(np.array_equal(output, expected, equal_nan=True))
    one, other = output.astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True))


def check_deletion(case: Case, draw: Draw) -> str | None:
    """Without one flag or barrier: found, or redundant by the happens-before graph.

    Returns the outcome, None where there is nothing to delete.
    """
    kernel = build(case.text)
    arguments, _ = device_arguments(kernel, case.arguments)
    trial = Trial(Captured(kernel, Snapshot(arguments)))
    wanted = deletions(trial.places, trial.pairs)
    if not wanted:
        return None
    deletion = draw.choice(wanted)
    verdict = trial.judge(deletion)
    if verdict.outcome == SURVIVOR:
        raise Violation(f"nobody misses {deletion}: {verdict.reason}", case.text)
    return verdict.outcome


def check_damaged(case: Case, draw: Draw) -> str:
    """A damaged text is accepted, or refused by a coded error with the text's line.

    Returns the code, or what else became of it. Python's own errors count as the user's when they
    arise in the text itself.
    """
    text = damaged(case.text, draw)
    try:
        file, names = define(text)
    except SyntaxError:
        return "no Python"
    try:
        kernel = names["make"]()
        return _launch_damaged(kernel, case)
    except AscendInferError as error:
        where = error.where
        if not isinstance(where, SourceLocation) or where.file != file:
            raise Violation(f"no line of the text: {error}", text) from error
        return error.code
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if frames[-1].filename != file:
            raise Violation("".join(traceback.format_exception(error)), text) from error
        return type(error).__name__


def _launch_damaged(kernel: object, case: Case) -> str:
    if not isinstance(kernel, JITKernel):
        return "no kernel"
    arguments, _ = device_arguments(kernel.compiled, case.arguments)
    record = kernel.compiled.launch(arguments, SimConfig(on_finding="report"))
    unplaced = [f for f in record.findings if f.loc is None and not f.accesses]
    if unplaced:
        raise Violation(f"no line of the text: {unplaced[0]}", case.text)
    return record.findings[0].code if record.findings else "accepted"


#: A property of the kernels that a draw makes.
Property = Callable[[Draw], object]

_MAKERS: dict[str, Callable[[Draw], Case]] = {
    "vector": draw_vector_kernel,
    "cube": draw_cube_kernel,
}


def properties() -> dict[str, Property]:
    """All properties of all kinds of kernels, by name."""
    checks: dict[str, Callable[[Case, Draw], object]] = {
        "correct": lambda case, draw: check_correct(case, draw.integer(0, 99)),
        "deletion": check_deletion,
        "damaged": check_damaged,
        "arguments": check_arguments,
    }
    return {
        f"{kind}: {name}": functools.partial(_of_a_kernel, make, check)
        for kind, make in _MAKERS.items()
        for name, check in checks.items()
    }


def _of_a_kernel(
    make: Callable[[Draw], Case], check: Callable[[Case, Draw], object], draw: Draw
) -> object:
    return check(make(draw), draw)
