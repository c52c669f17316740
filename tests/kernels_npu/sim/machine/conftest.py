"""`launch`: run a JIT kernel on NumPy arrays, without the PyTorch device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from kernels_npu.sim.config import Checks, current_config
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import JITKernel
from kernels_npu.sim.machine import Finding, GmArg, LaunchRecord
from kernels_npu.sim.machine.rules import rule_of

Array = npt.NDArray[np.generic]


@dataclass
class Launched:
    """What a launch gave: output arrays in the order of `out_idx`, and its record."""

    outputs: list[Array]
    record: LaunchRecord

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.record.findings if f.severity == "error"]

    @property
    def codes(self) -> set[str]:
        return {f.code for f in self.record.findings}


def launch_kernel(
    kernel: JITKernel,
    *inputs: Array | int | float,
    checks: Checks | None = None,
    schedule: tuple[str, int] | None = None,
) -> Launched:
    """Launch on `inputs`; outputs and workspaces are allocated and poisoned."""
    given = iter(inputs)
    args: list[GmArg | int | float] = []
    outputs: list[Array] = []
    given_params = len(kernel.prim_func.params)
    for index, param in enumerate(kernel.compiled.func.params):  # automatic workspaces at the end
        if index in (*kernel.out_idx, *kernel.workspace_idx) or index >= given_params:
            element = numpy_dtype(param.dtype)
            shape = [int(d.value) for d in map(_const, param.shape)]
            poison = np.full(int(np.prod(shape)) * element.itemsize, 0xFF, np.uint8)
            array = poison.view(element).reshape(shape)
            if index in kernel.out_idx:
                outputs.append(array)
        else:
            value = next(given)
            if not isinstance(value, np.ndarray):
                args.append(value)
                continue
            array = value
        data = array.reshape(-1).view(np.uint8)
        args.append(GmArg(data, array.shape, param.dtype, param.name))
    name, seed = schedule or (current_config().schedule, current_config().seed)
    config = dataclasses.replace(
        current_config(),
        schedule=name,
        seed=seed,
        checks=checks or Checks(),
        on_finding="report",
    )
    record = kernel.compiled.launch(args, config)
    for finding in record.findings:
        assert finding.severity in rule_of(finding.code).severity, str(finding)
        assert finding.rule and finding.fix
    return Launched(outputs, record)


def _const(dim: object) -> object:
    from kernels_npu.sim import ir

    return ir.as_expr(dim)  # type: ignore[arg-type]


@pytest.fixture
def launch() -> Callable[..., Launched]:
    return launch_kernel


#: Schedules under which every correct kernel gives the same bits.
AGREEING = (("eager", 0), ("late", 0), ("random", 1), ("random", 2))


def run_agreeing(
    make: Callable[[], JITKernel] | JITKernel, *inputs: Array | int | float
) -> list[Array]:
    """Launch under all of `AGREEING`, with and without checks: no error, and equal bits.

    Returns the outputs, followed by the input arrays as the kernel left them.
    """
    kernel = make if isinstance(make, JITKernel) else make()
    reference: list[Array] | None = None
    for schedule in AGREEING:
        for checks in (Checks(), Checks.none()):
            given = [i.copy() if isinstance(i, np.ndarray) else i for i in inputs]
            result = launch_kernel(kernel, *given, schedule=schedule, checks=checks)
            assert result.errors == [], "\n".join(map(str, result.errors))
            arrays = result.outputs + [g for g in given if isinstance(g, np.ndarray)]
            if reference is None:
                reference = arrays
            for a, b in zip(arrays, reference):
                np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    assert reference is not None
    return reference


@pytest.fixture
def agreeing() -> Callable[..., list[Array]]:
    return run_agreeing
