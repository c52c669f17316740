"""Arguments of `tilelang.jit` and `tilelang.compile`, checked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.values import describe

BACKENDS = ("cython", "ctypes", "dlpack")


def parameter_positions(name: str, value: Any, func: ir.PrimFunc) -> tuple[int, ...]:
    """Parameter indices as non-negative ints in the given order."""
    if value is None:
        return ()
    given = [value] if isinstance(value, int) else list(value)
    count = len(func.params)
    for index in given:
        if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
            fail(
                "AI-SRC-036",
                f"{name} names parameter {index!r} of {func.name}, which has {count} parameters",
                rule=f"{name} holds parameter positions; negative ones count from the end",
                fix=f"use positions from {-count} to {count - 1}",
            )
        if not isinstance(func.params[index], ir.Buffer):
            fail(
                "AI-SRC-036",
                f"{name} names the scalar parameter {func.params[index].name} of {func.name}",
                rule="only tensors are allocated",
                fix="name a T.Tensor parameter",
            )
    return tuple(index % count for index in given)


def execution_backend_of(name: Any) -> str:
    """The name of an execution backend that exists."""
    if name not in BACKENDS:
        fail(
            "AI-SRC-036",
            f"execution_backend={name!r}",
            rule="execution backends are "
            + ", ".join(BACKENDS)
            + "; only cython follows the stream",
            fix='use execution_backend="cython"',
        )
    return str(name)


def freeze(value: Any) -> Hashable:
    """A hashable key of an argument; equal numbers of different types stay different."""
    if isinstance(value, Mapping):
        return ("dict", tuple(sorted((str(k), freeze(v)) for k, v in value.items())))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(freeze(v) for v in value))
    try:
        hash(value)
    except TypeError:
        fail(
            "AI-SRC-036",
            f"a factory argument is {describe(value)}, which cannot be hashed",
            rule="compiled kernels are cached by the factory's arguments",
            fix="pass numbers, strings, or tuples of them",
        )
    return (type(value), value)


def refuse(name: str, why: str) -> Any:
    """Refuse a part of `tilelang` that the simulated NPU does not have."""
    raise UnsupportedError(
        "AI-SRC-037",
        f"{name} is not available here: {why}",
        rule="the simulated NPU executes kernels; "
        "it reports bytes, instructions and modelled cycles",
        fix="run this on an Ascend host, or use the simulator's counters",
    )
