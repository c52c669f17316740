"""Builds kernels as IR by hand, so that the passes are tested without a front end.

Every statement gets a line of its own, counted from 1, in the file `kernel.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.passes import LoweredKernel, lower
from kernels_npu.sim.soc import get_soc

Extent = ir.Expr | int


class Kernel:
    """A kernel under construction."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.params: list[ir.Buffer | ir.Var] = []
        self.allocs: list[ir.Buffer] = []
        self.addresses: dict[ir.Buffer, int] = {}
        self.threads: int | None = None
        self.cid = ir.Var("cid")
        self.vid = ir.Var("vid")
        self._line = 0
        self._blocks: list[list[ir.Stmt]] = [[]]

    def loc(self) -> SourceLocation:
        self._line += 1
        return SourceLocation("kernel.py", self._line)

    def gm(self, name: str, shape: Sequence[Extent], dtype: str = "float32") -> ir.Buffer:
        buffer = ir.Buffer(name, "global", tuple(shape), dtype, self.loc())
        self.params.append(buffer)
        return buffer

    def alloc(
        self,
        name: str,
        shape: Sequence[Extent],
        dtype: str = "float32",
        scope: str = "ub",
        address: int | None = None,
    ) -> ir.Buffer:
        buffer = ir.Buffer(name, scope, tuple(shape), dtype, self.loc())
        self.allocs.append(buffer)
        if address is not None:
            self.addresses[buffer] = address
        return buffer

    def emit(self, stmt: ir.Stmt) -> ir.Stmt:
        self._blocks[-1].append(stmt)
        return stmt

    def op(self, op: str, *operands: ir.Operand, **attrs: ir.Attr) -> ir.Stmt:
        return self.emit(ir.TileOp(loc=self.loc(), op=op, operands=operands, attrs=attrs))

    def copy(self, source: ir.Operand, destination: ir.Operand) -> ir.Stmt:
        return self.op("copy", source, destination)

    def let(self, name: str, value: ir.Expr) -> ir.Var:
        var = ir.Var(name, value.dtype)
        self.emit(ir.Let(loc=self.loc(), var=var, value=value))
        return var

    def store(self, buffer: ir.Buffer, index: ir.ScalarLike, value: ir.ScalarLike) -> ir.Stmt:
        return self.emit(
            ir.Store(
                loc=self.loc(),
                buffer=buffer,
                indices=(ir.as_expr(index),),
                value=ir.as_expr(value, buffer.dtype),
            )
        )

    def set_flag(self, src: str, dst: str, event: int = 0) -> ir.Stmt:
        return self.emit(
            ir.SetFlag(loc=self.loc(), src=src, dst=dst, event_id=ir.Const(event, "int32"))
        )

    def barrier(self) -> ir.Stmt:
        return self.emit(ir.PipeBarrier(loc=self.loc(), pipe="ALL"))

    def set_cross(self, pipe: str, flag: int) -> ir.Stmt:
        return self.emit(
            ir.SetCrossFlag(loc=self.loc(), pipe=pipe, flag_id=ir.Const(flag, "int32"))
        )

    def wait_cross(self, flag: int) -> ir.Stmt:
        return self.emit(ir.WaitCrossFlag(loc=self.loc(), flag_id=ir.Const(flag, "int32")))

    @contextmanager
    def loop(
        self, name: str, stop: Extent, kind: str = "serial", **attrs: ir.Attr
    ) -> Iterator[ir.Var]:
        var, loc = ir.Var(name), self.loc()
        self._blocks.append([])
        yield var
        body = tuple(self._blocks.pop())
        self.emit(
            ir.For(
                loc=loc,
                var=var,
                start=ir.Const(0, "int32"),
                stop=ir.as_expr(stop),
                body=body,
                kind=kind,
                attrs=attrs,
            )
        )

    @contextmanager
    def branch(self, cond: ir.Expr) -> Iterator[None]:
        loc = self.loc()
        self._blocks.append([])
        yield
        self.emit(ir.If(loc=loc, cond=cond, then=tuple(self._blocks.pop())))

    @contextmanager
    def scope(self, core: str) -> Iterator[None]:
        loc = self.loc()
        self._blocks.append([])
        yield
        self.emit(ir.CoreScope(loc=loc, core=core, body=tuple(self._blocks.pop())))

    def parallel(
        self,
        destination: ir.Buffer,
        extents: Sequence[int],
        value: ir.Expr,
        variables: Sequence[ir.Var],
        indices: Sequence[ir.Expr] | None = None,
    ) -> ir.Stmt:
        store = ir.Store(
            loc=self.loc(),
            buffer=destination,
            indices=tuple(variables if indices is None else indices),
            value=value,
        )
        return self.emit(
            ir.Parallel(
                loc=self.loc(), vars=tuple(variables), extents=tuple(extents), body=(store,)
            )
        )

    def func(self) -> ir.PrimFunc:
        return ir.PrimFunc(
            name=self.name,
            params=tuple(self.params),
            grid=ir.Const(1, "int32"),
            cid=self.cid,
            vid=self.vid,
            threads=self.threads,
            allocs=tuple(self.allocs),
            body=tuple(self._blocks[0]),
            addresses=self.addresses,
            layouts={},
            loc=SourceLocation("kernel.py", 1),
        )

    def lower(self, target: str = "ascendc", soc: str = "A2", **configs: bool) -> LoweredKernel:
        """Lower with pass configs by their short names: auto_cv_combine=True, ..."""
        keys = {f"tl.ascend_{name}": value for name, value in configs.items()}
        return lower(self.func(), target, keys, get_soc(soc))


def load(buffer: ir.Buffer, *indices: ir.ScalarLike) -> ir.Load:
    """`buffer[indices]`."""
    return ir.Load(buffer, tuple(ir.as_expr(i) for i in indices), buffer.dtype)


def region(buffer: ir.Buffer, *bounds: tuple[int, int]) -> ir.Region:
    """`buffer[a:b, c:d]` from (a, b), (c, d)."""
    return ir.Region(
        buffer,
        tuple(ir.Const(low, "int32") for low, _ in bounds),
        tuple(ir.Const(high - low, "int32") for low, high in bounds),
    )


def shape_of(program: Sequence[ir.Stmt]) -> list[object]:
    """A program as nested lists of short names, for comparison: op names, `for i`, `set 0` ..."""
    out: list[object] = []
    for stmt in program:
        if isinstance(stmt, ir.TileOp):
            out.append(stmt.op)
        elif isinstance(stmt, ir.SetCrossFlag):
            out.append(f"set {ir_int(stmt.flag_id)} {stmt.pipe}")
        elif isinstance(stmt, ir.WaitCrossFlag):
            out.append(f"wait {ir_int(stmt.flag_id)}")
        elif isinstance(stmt, ir.For):
            out.append([f"for {stmt.var.name}", *shape_of(stmt.body)])
        elif isinstance(stmt, ir.If):
            out.append(["if", *shape_of(stmt.then)])
        elif isinstance(stmt, ir.Let):
            out.append(f"let {stmt.var.name}")
        elif isinstance(stmt, ir.Store):
            out.append(f"store {stmt.buffer.name}")
        else:
            out.append(type(stmt).__name__)
    return out


def ir_int(expr: ir.Expr) -> int:
    assert isinstance(expr, ir.Const)
    return int(expr.value)


def codes(lowered: LoweredKernel) -> list[str]:
    """The codes of all notes."""
    return [note.code for note in lowered.notes]


def addresses(lowered: LoweredKernel) -> dict[str, int]:
    """Placements by buffer name."""
    return {buffer.name: address for buffer, address in lowered.placements.items()}
