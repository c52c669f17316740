"""Straight-line programs over tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.fuzzing.draw import Draw
from kernels_npu.sim.fuzzing.forms import FORMS, PER_COLUMN, PER_ROW, TILE, Array, Form

_CONSTANTS = (1, 2, 3, -1, -2)


@dataclass(frozen=True)
class Value:
    """A buffer of the program: its name, shape and dtype."""

    name: str
    shape: str
    dtype: str

    def extents(self, rows: int, cols: int) -> tuple[int, ...]:
        """The buffer's shape for a tile of `rows` by `cols`."""
        return {TILE: (rows, cols), PER_ROW: (rows,), PER_COLUMN: (cols,)}[self.shape]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One statement: a form with its operands."""

    form: Form
    target: Value
    sources: tuple[Value, ...]
    constant: int

    def text(self, names: Mapping[str, str], rows: int, cols: int) -> str:
        """The statement, with the buffers' names replaced by `names`."""
        operands = {key: names[v.name] for key, v in zip("ab", self.sources)}
        number = str(self.constant) if self.target.dtype == "int32" else f"{self.constant}.0"
        return self.form.text.format(
            d=names[self.target.name],
            k=number,
            rows=rows,
            cols=cols,
            count=rows * cols,
            mask=names["mask"],
            **operands,
        )

    def compute(self, values: dict[str, Array], rows: int, cols: int) -> None:
        """Execute the statement on `values`."""
        arguments: list[Any] = [values[source.name] for source in self.sources]
        if self.form.constant:
            arguments.append(numpy_dtype(self.target.dtype).type(self.constant))
        if self.form.takes != TILE and self.form.gives == TILE:
            arguments.append((rows, cols))
        values[self.target.name] = self.form.compute(*arguments)


@dataclass(kw_only=True)
class Program:
    """Loaded values, statements, and values to store.

    exact: whether every order of computing gives the same bits.
    """

    rows: int
    cols: int
    loaded: list[Value]
    buffers: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stored: list[Value] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether every order of computing gives the same bits."""
        return all(step.form.exact for step in self.steps)

    @property
    def masked(self) -> bool:
        """Whether a buffer of packed bits is needed."""
        return any("{mask}" in step.form.text for step in self.steps)

    @property
    def scalar(self) -> bool:
        """Whether the scalar unit takes part."""
        return any(step.form.scalar for step in self.steps)

    def run(self, loaded: Mapping[str, Array]) -> dict[str, Array]:
        """The values of all buffers after the program, from the loaded tiles."""
        values = dict(loaded)
        with np.errstate(all="ignore"):
            for step in self.steps:
                step.compute(values, self.rows, self.cols)
        return values


def draw_program(
    draw: Draw, rows: int, cols: int, loaded: list[Value], *, halved: bool = False
) -> Program:
    """A program on the `loaded` tiles; `halved`: only of what the automatic split covers."""
    program = Program(rows=rows, cols=cols, loaded=loaded, buffers=list(loaded))
    defined = list(loaded)
    for _ in range(draw.integer(1, 7)):
        step = _draw_step(draw, program, defined, halved)
        program.steps.append(step)
        if step.target not in program.buffers:
            program.buffers.append(step.target)
        if step.target not in defined:
            defined.append(step.target)
    computed = [step.target for step in program.steps if step.target.shape != PER_COLUMN]
    last = computed[-1:] or loaded[:1]
    program.stored = list(dict.fromkeys([*last, draw.choice(computed or loaded)]))
    return program


def _draw_step(draw: Draw, program: Program, defined: list[Value], halved: bool) -> Step:
    forms = [form for form in FORMS if _fits(form, program, defined, halved)]
    form = draw.choice(forms)
    first = draw.choice(_candidates(form, defined))
    same = [v for v in defined if (v.shape, v.dtype) == (first.shape, first.dtype)]
    sources = (first,) if form.sources == 1 else (first, draw.choice(same))
    dtype = form.dtype or first.dtype
    number = len(program.buffers)
    targets = [Value(f"t{number}", form.gives, dtype)]
    targets += [
        v
        for v in program.buffers
        if (v.shape, v.dtype) == (form.gives, dtype) and not (form.fresh and v in sources)
    ]
    return Step(
        form=form,
        target=draw.choice(targets),
        sources=sources,
        constant=draw.choice(_CONSTANTS),
    )


def _fits(form: Form, program: Program, defined: list[Value], halved: bool) -> bool:
    if halved and not form.halved:
        return False
    # A choice between values that are not exact could go either way.
    if "compare" in form.text and not program.exact:
        return False
    return bool(_candidates(form, defined))


def _candidates(form: Form, defined: list[Value]) -> list[Value]:
    return [v for v in defined if v.shape == form.takes and v.dtype in form.dtypes]
