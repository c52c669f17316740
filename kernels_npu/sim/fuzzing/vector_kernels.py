"""Random kernels of the vector cores: tiles of two-dimensional tensors, in all ways to synchronise.

Rows are shared out over blocks and vector cores; each of them goes through the columns in a loop.
The last tiles of both directions reach over the border.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.fuzzing.cases import Case, garbage, random_array
from kernels_npu.sim.fuzzing.draw import Draw
from kernels_npu.sim.fuzzing.forms import TILE, Array
from kernels_npu.sim.fuzzing.programs import Program, Value, draw_program
from kernels_npu.sim.fuzzing.styles import BARRIERS, STYLES, Style, allocate, write_tiles
from kernels_npu.sim.fuzzing.writer import Writer


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """height, width: of the tensors. rows, cols: of a tile. parts: vector cores per block."""

    height: int
    width: int
    rows: int
    cols: int
    parts: int
    symbolic: bool
    threads: str

    @property
    def steps(self) -> int:
        """Tiles in a row."""
        return -(-self.width // self.cols)

    def shape(self, value: Value) -> tuple[int, int]:
        """Of the tensor that a value is loaded from or stored to."""
        return (self.height, self.width) if value.shape == TILE else (self.steps, self.height)


def draw_vector_kernel(draw: Draw) -> Case:
    """A correct kernel of the vector cores."""
    style = draw.choice(STYLES)
    rows, cols = draw.choice((8, 16)), draw.choice((16, 32, 48, 64))
    parts = 1 if style.halved else draw.choice((1, 2))
    frame = _Frame(
        # With threads=2 each core takes half of every tile, and a short last tile leaves none.
        height=rows * draw.integer(1, 3) if style.halved else draw.integer(1, 4 * rows),
        width=draw.integer(1, 5) * cols - draw.choice((0, 0, 1, 5, 8)),
        rows=rows,
        cols=cols,
        parts=parts,
        symbolic=draw.choice((False, True)),
        threads="" if parts == 2 else ", threads=2" if style.halved else ", threads=1",
    )
    dtypes = ("float32", "float16", "int32", *(() if style.halved else ("bfloat16",)))
    loaded = [Value(f"a{i}", TILE, draw.choice(dtypes)) for i in range(draw.integer(1, 3))]
    program = draw_program(draw, rows, cols, loaded, halved=style.halved)
    if program.scalar and style.name == "flags":
        style = BARRIERS  # the flags order no scalar unit
    return _case(program, frame, style, np.random.default_rng(draw.integer(0, 999)))


def _case(program: Program, frame: _Frame, style: Style, data: np.random.Generator) -> Case:
    given = [random_array(data, frame.shape(v), v.dtype) for v in program.loaded]
    expected = [np.zeros(frame.shape(v), numpy_dtype(v.dtype)) for v in program.stored]
    for top in range(0, frame.height, frame.rows):
        for step in range(frame.steps):
            _compute(program, frame, given, expected, top, step)
    return Case(
        text=_write(program, frame, style),
        arguments=(*given, *map(garbage, expected)),
        outputs=dict(enumerate(expected, start=len(given))),
        exact=program.exact,
    )


def _compute(
    program: Program, frame: _Frame, given: list[Array], stored: list[Array], top: int, step: int
) -> None:
    """One tile: what lies over the border is zero on a load and left out on a store."""
    rows, cols = slice(top, top + frame.rows), slice(step * frame.cols, (step + 1) * frame.cols)
    tiles = {}
    for value, tensor in zip(program.loaded, given):
        part = tensor[rows, cols]
        tiles[value.name] = np.zeros((frame.rows, frame.cols), tensor.dtype)
        tiles[value.name][: part.shape[0], : part.shape[1]] = part
    values = program.run(tiles)
    for value, tensor in zip(program.stored, stored):
        if value.shape == TILE:
            part = tensor[rows, cols]
            part[:] = values[value.name][: part.shape[0], : part.shape[1]]
        else:
            line = tensor[step, rows]
            line[:] = values[value.name][: len(line)]


def _write(program: Program, frame: _Frame, style: Style) -> str:
    write = Writer()
    write("from kernels_npu.sim.frontend import T, tilelang\n\n")
    with write.block("def make():"):
        write('height = T.symbolic("height")' if frame.symbolic else f"height = {frame.height}")
        write("@T.prim_func")
        parameters = [(f"x_{v.name}", v) for v in program.loaded]
        parameters += [(f"y_{v.name}", v) for v in program.stored]
        declared = ", ".join(f"{name}: {_tensor(v, frame)}" for name, v in parameters)
        with write.block(f"def kernel({declared}):"):
            _write_body(write, program, frame, style)
        configs = dict.fromkeys(style.configs, True)
        write(f"return tilelang.compile(kernel, pass_configs={configs})")
    return write.text


def _tensor(value: Value, frame: _Frame) -> str:
    extents = f"height, {frame.width}" if value.shape == TILE else f"{frame.steps}, height"
    return f'T.Tensor(({extents}), "{value.dtype}")'


def _write_body(write: Writer, program: Program, frame: _Frame, style: Style) -> None:
    rows, cols, parts = frame.rows, frame.cols, frame.parts
    ids = "(cid, vid)" if parts == 2 else "cid"
    grid = f"T.ceildiv(height, {rows * parts})"
    with write.block(f"with T.Kernel({grid}, is_npu=True{frame.threads}) as {ids}:"):
        names = [allocate(write, program, style, slot) for slot in range(style.slots)]
        write(f"top = (cid * 2 + vid) * {rows}" if parts == 2 else f"top = cid * {rows}")
        place = f"top : top + {rows}, t * {cols} : (t + 1) * {cols}"

        def load(slot: int) -> None:
            for value in program.loaded:
                write(f"T.copy(x_{value.name}[{place}], {names[slot][value.name]})")

        def compute(slot: int) -> None:
            for step in program.steps:
                write(step.text(names[slot], rows, cols))

        def store(slot: int) -> None:
            for value in program.stored:
                where = place if value.shape == TILE else f"t, top : top + {rows}"
                write(f"T.copy({names[slot][value.name]}, y_{value.name}[{where}])")

        # The second vector core of the last block may have no rows.
        headers = ['with T.Scope("V"):'] * style.manual + ["if top < height:"] * (parts == 2)
        with write.blocks(headers):
            reloads = any(value in program.loaded for value in program.stored)
            write_tiles(write, style, frame.steps, (load, compute, store), reloads=reloads)
