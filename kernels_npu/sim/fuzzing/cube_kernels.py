"""Random kernels of both core types: products whose tiles the vector cores work on.

Every block multiplies some tiles of rows; a tile reaches the vector cores through a workspace, with
flags of its own or the compiler's, or through a copy for which the compiler adds the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.fuzzing.cases import Case, garbage
from kernels_npu.sim.fuzzing.draw import Draw
from kernels_npu.sim.fuzzing.forms import TILE, Array
from kernels_npu.sim.fuzzing.programs import Program, Value, draw_program
from kernels_npu.sim.fuzzing.styles import BARRIERS, COMBINE, CROSS, PLAN, SYNC, allocate
from kernels_npu.sim.fuzzing.writer import Writer

_FLAGS, _COMBINED, _CHANNEL = "flags", "combined", "channel"


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """height, width, depth: M, N and K. rows, cols, deep: of a tile. parts: vector cores.

    way: how a tile gets to the vector cores. slots: of the workspace that a block uses in turn.
    """

    height: int
    width: int
    depth: int
    rows: int
    cols: int
    deep: int
    parts: int
    blocks: int
    tiles: int
    dtype: str
    transposed: bool
    way: str
    slots: int

    @property
    def part(self) -> int:
        """Rows of a vector core."""
        return self.rows // self.parts

    @property
    def configs(self) -> dict[str, bool]:
        """Pass configs."""
        return {} if self.way == _FLAGS else dict.fromkeys((SYNC, PLAN, COMBINE, CROSS), True)


def draw_cube_kernel(draw: Draw) -> Case:
    """A correct kernel of both core types."""
    way = draw.choice((_FLAGS, _COMBINED, _CHANNEL))
    rows, cols, deep = draw.choice((32, 16)), draw.choice((16, 32, 64)), draw.choice((16, 32))
    # The compiler's flags return no credit: with them a workspace is written once.
    blocks, tiles = draw.integer(1, 3), draw.integer(1, 4) if way == _FLAGS else 1
    frame = _Frame(
        height=blocks * tiles * rows - draw.integer(0, rows - 1),
        width=cols - draw.choice((0, 0, 3, 8)),
        depth=draw.integer(1, 3) * deep - draw.choice((0, 0, 1, 5)),
        rows=rows,
        cols=cols,
        deep=deep,
        parts=1 if way == _CHANNEL else draw.choice((1, 2)),
        blocks=blocks,
        tiles=tiles,
        dtype=draw.choice(("float16", "bfloat16", "float32")),
        transposed=draw.choice((False, True)),
        way=way,
        slots=draw.choice((1, 2)) if way == _FLAGS else tiles,
    )
    product = Value("p", TILE, "float32")
    program = draw_program(draw, frame.part, cols, [product])
    program.stored = [v for v in program.stored if v.shape == TILE][:1] or [product]
    if frame.way == _CHANNEL and "{a}" not in program.steps[0].form.text:
        # The compiler loads the destination of such a copy where a tile operation reads it first.
        frame = replace(frame, way=_COMBINED)
    return _case(program, frame, np.random.default_rng(draw.integer(0, 999)))


def _case(program: Program, frame: _Frame, data: np.random.Generator) -> Case:
    # Small whole numbers: every order of adding gives the same bits.
    a = data.integers(-3, 4, (frame.height, frame.depth)).astype(numpy_dtype(frame.dtype))
    b = data.integers(-3, 4, (frame.depth, frame.width)).astype(numpy_dtype(frame.dtype))
    (stored,) = program.stored
    expected: Array = np.zeros((frame.height, frame.width), numpy_dtype(stored.dtype))
    for top in range(0, frame.height, frame.part):
        tile = np.zeros((frame.part, frame.cols), np.float32)
        rows = a[top : top + frame.part].astype(np.float32)
        tile[: len(rows), : frame.width] = rows @ b.astype(np.float32)
        part = expected[top : top + frame.part]
        part[:] = program.run({"p": tile})[stored.name][: len(part), : frame.width]
    arguments = [a, np.ascontiguousarray(b.T) if frame.transposed else b, garbage(expected)]
    if frame.way != _CHANNEL:
        shape = (frame.blocks, frame.slots, frame.rows, frame.cols)
        arguments.append(garbage(np.zeros(shape, np.float32)))
    return Case(
        text=_write(program, frame),
        arguments=tuple(arguments),
        outputs={2: expected},
        exact=program.exact,
    )


def _write(program: Program, frame: _Frame) -> str:
    write = Writer()
    (stored,) = program.stored
    second = (frame.width, frame.depth) if frame.transposed else (frame.depth, frame.width)
    declared = [
        f'a: T.Tensor(({frame.height}, {frame.depth}), "{frame.dtype}")',
        f'b: T.Tensor({second}, "{frame.dtype}")',
        f'y: T.Tensor(({frame.height}, {frame.width}), "{stored.dtype}")',
    ]
    if frame.way != _CHANNEL:
        shape = (frame.blocks, frame.slots, frame.rows, frame.cols)
        declared.append(f'workspace: T.Tensor({shape}, "float32")')
    write("from kernels_npu.sim.frontend import T, tilelang\n\n")
    with write.block("def make():"):
        write("@T.prim_func")
        with write.block(f"def kernel({', '.join(declared)}):"):
            ids, threads = ("(cid, vid)", "") if frame.parts == 2 else ("cid", ", threads=1")
            with write.block(f"with T.Kernel({frame.blocks}, is_npu=True{threads}) as {ids}:"):
                _write_body(write, program, frame)
        write(f"return tilelang.compile(kernel, pass_configs={frame.configs})")
    return write.text


def _write_body(write: Writer, program: Program, frame: _Frame) -> None:
    second = [frame.cols, frame.deep] if frame.transposed else [frame.deep, frame.cols]
    write(f'a_l1 = T.alloc_L1([{frame.rows}, {frame.deep}], "{frame.dtype}")')
    write(f'b_l1 = T.alloc_L1({second}, "{frame.dtype}")')
    write(f'c_l0 = T.alloc_L0C([{frame.rows}, {frame.cols}], "float32")')
    names = allocate(write, program, BARRIERS, 0)
    body = _Body(write, program, frame, names)
    if frame.way == _FLAGS:
        with write.blocks(['with T.Scope("C"):', f"for t in T.serial({frame.tiles}):"]):
            body.product()
        with write.blocks(['with T.Scope("V"):', f"for t in T.serial({frame.tiles}):"]):
            body.vector()
        with write.block('with T.Scope("C"):'):
            for slot in range(min(frame.slots, frame.tiles)):
                write(f"T.wait_cross_flag({frame.slots + slot})")
    else:
        with write.block(f"for t in T.serial({frame.tiles}):"):
            body.product()
            body.vector()


class _Body:
    """The statements of one tile."""

    def __init__(
        self, write: Writer, program: Program, frame: _Frame, names: dict[str, str]
    ) -> None:
        self._write, self._program, self._frame, self._names = write, program, frame, names

    def _barrier(self) -> None:
        if self._frame.way == _FLAGS:
            self._write("T.barrier_all()")

    def product(self) -> None:
        """Multiply a tile on the cube, and hand it over."""
        write, frame = self._write, self._frame
        top = f"(cid * {frame.tiles} + t) * {frame.rows}"
        deep = f"k * {frame.deep} : (k + 1) * {frame.deep}"
        with write.block(f"for k in T.serial({-(-frame.depth // frame.deep)}):"):
            write(f"T.copy(a[{top} : {top} + {frame.rows}, {deep}], a_l1)")
            place = [deep, f"0 : {frame.cols}"]
            write(f"T.copy(b[{', '.join(place[::-1] if frame.transposed else place)}], b_l1)")
            self._barrier()
            write(f"T.gemm_v0(a_l1, b_l1, c_l0, transpose_B={frame.transposed}, init=(k == 0))")
            self._barrier()
        if frame.way == _CHANNEL:
            write(f"T.copy(c_l0, {self._names['p']})")
            return
        if frame.way == _FLAGS:
            with write.block(f"if t >= {frame.slots}:"):
                self._cross("wait", frame.slots)
        write(f"T.copy(c_l0, workspace[cid, t % {frame.slots}, :, :])")
        if frame.way == _FLAGS:
            self._barrier()
            self._cross("set", 0, pipe="FIX")

    def vector(self) -> None:
        """Take a tile, compute, and store."""
        write, frame, names = self._write, self._frame, self._names
        half = f"vid * {frame.part}" if frame.parts == 2 else "0"
        if frame.way == _FLAGS:
            self._cross("wait", 0)
        if frame.way != _CHANNEL:
            rows = f"{half} : {half} + {frame.part}"
            write(f"T.copy(workspace[cid, t % {frame.slots}, {rows}, :], {names['p']})")
        self._barrier()
        if frame.way == _FLAGS:
            self._cross("set", frame.slots, pipe="MTE2")
        for step in self._program.steps:
            write(step.text(names, frame.part, frame.cols))
        self._barrier()
        top = f"(cid * {frame.tiles} + t) * {frame.rows} + {half}"
        (stored,) = self._program.stored
        # The last tile may end before the second vector core's rows.
        with write.block(f"if {top} < {frame.height}:"):
            place = f"{top} : {top} + {frame.part}, 0 : {frame.cols}"
            write(f"T.copy({names[stored.name]}, y[{place}])")
        self._barrier()

    def _cross(self, verb: str, first: int, pipe: str = "") -> None:
        """A flag of the slot that tile t uses; `first` is that of slot 0."""
        arguments = f'"{pipe}", ' if pipe else ""
        for slot in range(self._frame.slots):
            line = f"T.{verb}_cross_flag({arguments}{first + slot})"
            with self._write.block(f"if t % {self._frame.slots} == {slot}:"):
                self._write(line)
