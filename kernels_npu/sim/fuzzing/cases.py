"""A kernel as text, its arguments, and what it must leave in its outputs."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.fuzzing.forms import Array
from kernels_npu.sim.machine import CompiledKernel, GmArg, LaunchRecord
from kernels_npu.sim.machine.arguments import evaluate

_numbers = count(1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """text: a module whose `make()` returns the kernel. arguments: all of them, in order.

    outputs: position of an argument and what it holds after a launch; before, it holds garbage.
    exact: whether outputs must be equal bit by bit.
    """

    text: str
    arguments: tuple[Array | int | float, ...]
    outputs: Mapping[int, Array]
    exact: bool


def random_array(data: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Normally distributed numbers, scaled up and cut off for integers."""
    values = data.standard_normal(tuple(shape))
    return (values * 20 if dtype.startswith("int") else values).astype(numpy_dtype(dtype))


def garbage(like: Array) -> Array:
    """What an output holds before the launch: bytes that are no result."""
    return np.full(like.nbytes, 0xFF, np.uint8).view(like.dtype).reshape(like.shape)


def define(text: str) -> tuple[str, dict[str, Any]]:
    """Execute a module's text; its file name, for which tracebacks show lines, and its names."""
    file = f"<fuzzed kernel {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "fuzzed_kernel"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about literals of a damaged text
        exec(compile(text, file, "exec"), names)
    return file, names


def build(text: str) -> CompiledKernel:
    """The compiled kernel that a module's `make()` returns."""
    _, names = define(text)
    compiled: CompiledKernel = names["make"]().compiled
    return compiled


def device_arguments(
    kernel: CompiledKernel, arguments: Sequence[Array | int | float]
) -> tuple[list[GmArg | int | float], list[Array]]:
    """`arguments` in memory of their own, as a launch takes them, and that memory."""
    arrays: list[Array] = []
    given: list[GmArg | int | float] = []
    for workspace in kernel.func.tensors[len(arguments) :]:  # those that the compiler adds
        shape = [int(evaluate(dim, {})) for dim in workspace.shape]
        arguments = (*arguments, garbage(np.zeros(shape, numpy_dtype(workspace.dtype))))
    for param, value in zip(kernel.func.params, arguments):
        array = np.array(value)
        arrays.append(array)
        if not isinstance(value, np.ndarray):
            given.append(value)
            continue
        data = array.reshape(-1).view(np.uint8)
        given.append(GmArg(data, array.shape, param.dtype, param.name))
    return given, arrays


def launch(
    kernel: CompiledKernel, case: Case, schedule: tuple[str, int], checks: Checks | None = None
) -> tuple[LaunchRecord, list[Array]]:
    """Launch on the case's arguments: the record, and what the outputs hold."""
    given, arrays = device_arguments(kernel, case.arguments)
    config = SimConfig(
        schedule=schedule[0],
        seed=schedule[1],
        checks=checks or Checks(),
        on_finding="report",
    )
    record = kernel.launch(given, config)
    return record, [arrays[position] for position in case.outputs]
