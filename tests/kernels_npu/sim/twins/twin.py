"""A seeded-bug twin: one kernel, with and without one mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_npu.sim.frontend import JITKernel

Inputs = Callable[[np.random.Generator], tuple[Any, ...]]

#: The comment on a line that the finding must name.
MARK = "# named"

TWINS: list[Twin] = []


@dataclass(frozen=True, kw_only=True)
class Twin:
    """A kernel builder that makes one mistake when it is told to.

    codes: of the finding; more than one where the schedule decides which side comes first.
    build: the kernel, broken or not. inputs: its arguments that are no outputs, in order.
    expected: outputs of the clean kernel, then what it leaves in those inputs that it changes.
    exact: whether outputs equal `expected` bit by bit.
    """

    codes: tuple[str, ...]
    build: Callable[[bool], JITKernel]
    inputs: Inputs
    expected: Callable[..., Any]
    exact: bool

    @property
    def name(self) -> str:
        """The builder's name says what the mistake is."""
        return self.build.__name__

    @property
    def file(self) -> str:
        """Where the kernel stands."""
        return self.build.__code__.co_filename

    @property
    def named(self) -> set[int]:
        """The lines that a finding about the mistake must name."""
        lines, first = inspect.getsourcelines(self.build)
        return {first + i for i, line in enumerate(lines) if line.rstrip().endswith(MARK)}


def twin(
    *codes: str, inputs: Inputs, expected: Callable[..., Any], exact: bool = True
) -> Callable[[Callable[[bool], JITKernel]], Callable[[bool], JITKernel]]:
    """Enter a builder in `TWINS`."""

    def enter(build: Callable[[bool], JITKernel]) -> Callable[[bool], JITKernel]:
        TWINS.append(Twin(codes=codes, build=build, inputs=inputs, expected=expected, exact=exact))
        return build

    return enter


def floats(*shape: int, dtype: str = "float32") -> Inputs:
    """One tensor of normally distributed numbers."""
    return lambda rng: (rng.standard_normal(shape).astype(dtype),)
