"""Indices that certainly leave a buffer or tensor: interval analysis over loops and blocks.

Reported is only what must happen when the kernel runs: an index beyond the end whatever the
iteration, or the last iteration of loops with constant bounds outside every condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.lint.ranges import Ranges, Span
from kernels_npu.sim.machine.findings import ERROR, HINT, Finding
from kernels_npu.sim.machine.intervals import BLOCK_IDS
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.passes.rewriting import operand_buffer, own_expressions, subexpressions

#: What the vector unit takes per step; tiles are padded up to it.
_REPEAT_BYTES = 256


def out_of_bounds(lowered: LoweredKernel) -> list[Finding]:
    """Accesses of `lowered` that leave their buffer or tensor for certain."""
    found: dict[tuple[SourceLocation, str, str], Finding] = {}
    for vector, body in ((False, lowered.cube), (True, lowered.vector)):
        walker = _Walker(lowered.func, vector=vector)
        walker.body(body, certain=True)
        for finding in walker.findings:
            assert finding.loc is not None
            found.setdefault((finding.loc, finding.code, finding.message), finding)
    return list(found.values())


@dataclass
class _Walker:
    """Follows one core's program; `certain` means: this statement is reached in every block."""

    func: ir.PrimFunc
    vector: bool
    ranges: Ranges = field(default_factory=Ranges)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        grid = self.func.grid
        known = isinstance(grid, ir.Const)
        last = int(grid.value) - 1 if isinstance(grid, ir.Const) else BLOCK_IDS[1]
        self.ranges.bind(self.func.cid, 0, max(last, 0), reached=known)
        both = self.vector and self.func.threads != 1
        self.ranges.bind(self.func.vid, 0, 1 if both else 0, reached=True)

    def body(self, stmts: tuple[ir.Stmt, ...], *, certain: bool) -> None:
        """Check `stmts` in order."""
        for stmt in stmts:
            self._statement(stmt, certain=certain)

    def _statement(self, stmt: ir.Stmt, *, certain: bool) -> None:
        if isinstance(stmt, ir.Parallel):
            for var, extent in zip(stmt.vars, stmt.extents):
                self.ranges.bind(var, 0, extent - 1, reached=True)
            self.body(stmt.body, certain=certain)
            return
        for access in _elements(stmt):
            self._element(stmt, access, certain=certain)
        if isinstance(stmt, ir.TileOp):
            for operand in stmt.operands:
                if isinstance(operand, ir.Region):
                    self._region(stmt, operand, certain=certain)
            if stmt.op == "copy":
                self._tile_beyond_tensor(stmt)
                self._less_than_its_tile(stmt)
        if isinstance(stmt, ir.Let):
            self.ranges.let(stmt.var, stmt.value)
        elif isinstance(stmt, ir.For):
            start, stop = self.ranges.span(stmt.start), self.ranges.span(stmt.stop)
            constant = start.low == start.high and stop.low == stop.high
            runs = stop.high > start.low
            whole = not any(isinstance(s, ir.Break) for s in ir.walk(stmt.body))
            if not (constant and not runs):
                high = max(stop.high - 1, start.low)
                self.ranges.bind(stmt.var, start.low, high, reached=constant and whole)
                self.body(stmt.body, certain=certain and constant)
        elif isinstance(stmt, ir.If):
            # A branch that these sizes never take may hold anything.
            if self.ranges.can_hold(stmt.cond):
                self.body(stmt.then, certain=certain and self.ranges.must_hold(stmt.cond))
            if not self.ranges.must_hold(stmt.cond):
                self.body(stmt.orelse, certain=certain and not self.ranges.can_hold(stmt.cond))
        elif isinstance(stmt, ir.While):
            if self.ranges.can_hold(stmt.cond):
                self.body(stmt.body, certain=False)
        elif isinstance(stmt, ir.CoreScope):
            self.body(stmt.body, certain=certain)

    # ------------------------------------------------------------------ accesses

    def _element(
        self, stmt: ir.Stmt, access: tuple[ir.Buffer, tuple[ir.Expr, ...]], *, certain: bool
    ) -> None:
        buffer, indices = access
        if buffer.scope == "var":
            return
        for index, size in zip(indices, buffer.shape):
            extent = _constant(size)
            span = self.ranges.span(index)
            if extent is not None and self._leaves(span, 1, extent, certain):
                self._report(stmt, buffer, index, span, 1, extent)

    def _region(self, stmt: ir.Stmt, region: ir.Region, *, certain: bool) -> None:
        tensor = region.buffer.scope == "global"
        for start, extent, size in zip(region.mins, region.extents, region.buffer.shape):
            limit, length = _constant(size), _constant(extent)
            if limit is None:
                continue
            span = self.ranges.span(start)
            if tensor:
                # A copy is clipped at the tensor's border; a start beyond it moves nothing.
                if span.low >= limit or span.high < 0:
                    self._report(stmt, region.buffer, start, span, 1, limit)
            elif length is not None and self._leaves(span, length, limit, certain):
                self._report(stmt, region.buffer, start, span, length, limit)

    def _less_than_its_tile(self, stmt: ir.TileOp) -> None:
        """A load whose constant extents are smaller than the tile: the rest is filled."""
        source, tile = stmt.operands[:2]
        if not isinstance(source, ir.Region) or source.buffer.scope != "global":
            return
        target = operand_buffer(tile)
        if target is None or target.scope not in ("ub", "l1"):
            return
        extents = tile.extents if isinstance(tile, ir.Region) else target.shape
        ours = [n for e in source.extents if (n := _constant(e)) != 1]
        theirs = [n for e in extents if (n := _constant(e)) != 1]
        if not ours or None in ours or None in theirs or len(ours) != len(theirs):
            return  # a single element, or sizes that are not known
        pairs = [(a or 1, b or 1) for a, b in zip(ours, theirs)]
        if _beyond_padding(pairs, target.dtype) and all(a <= b for a, b in pairs):
            self.findings.append(
                Finding(
                    code="AI-BOUND-018",
                    severity=HINT,
                    message=f"copy moves {ours} of {source.buffer.name} into {theirs} of "
                    f"{target.name}; the rest of the tile is padded",
                    kernel=self.func.name,
                    loc=stmt.loc,
                )
            )

    def _tile_beyond_tensor(self, stmt: ir.TileOp) -> None:
        """A tile larger than the whole tensor: its border is padded or cut off in every block."""
        sides = [operand_buffer(o) for o in stmt.operands[:2]]
        tensors = [o for o, b in zip(stmt.operands, sides) if b is not None and b.scope == "global"]
        tiles = [b for b in sides if b is not None and b.scope != "global"]
        if len(tensors) != 1 or len(tiles) != 1 or isinstance(tensors[0], ir.Region):
            return
        tensor = operand_buffer(tensors[0])
        assert tensor is not None
        if len(tiles[0].shape) < 2 or len(tensor.shape) < 2:
            return
        sizes = zip(tensor.shape[-2:], tiles[0].shape[-2:])
        pairs = [(_constant(whole) or 2**31, _constant(part) or 1) for whole, part in sizes]
        if _beyond_padding(pairs, tiles[0].dtype):
            limits = " x ".join("?" if limit == 2**31 else str(limit) for limit, _ in pairs)
            self.findings.append(
                Finding(
                    code="AI-BOUND-016",
                    severity=HINT,
                    message=f"the tile {tiles[0].name} is {pairs[0][1]} x {pairs[1][1]}, all of "
                    f"{tensor.name} is {limits}; what lies outside is padded on a load and left "
                    "out on a store",
                    kernel=self.func.name,
                    loc=stmt.loc,
                )
            )

    def _leaves(self, span: Span, length: int, limit: int, certain: bool) -> bool:
        always = span.low + length > limit or span.high < 0
        somewhere = span.high + length > limit or span.low < 0
        return always or (somewhere and certain and span.reached)

    def _report(
        self, stmt: ir.Stmt, buffer: ir.Buffer, index: ir.Expr, span: Span, length: int, limit: int
    ) -> None:
        tensor = buffer.scope == "global"
        first, last = span.low, span.high + length - 1
        reach = f"{first}" if first == last else f"{first} to {last}"
        self.findings.append(
            Finding(
                code="AI-BOUND-001" if tensor else "AI-BOUND-002",
                severity=ERROR,
                message=f"index {format_expr(index)} of {buffer.name} reaches {reach}; "
                f"the dimension has {limit}",
                kernel=self.func.name,
                loc=stmt.loc,
                fix=f"keep the index below {limit}, or guard it with an `if`",
            )
        )


def _constant(size: ir.Expr | int) -> int | None:
    if isinstance(size, ir.Const):
        return int(size.value)
    return size if isinstance(size, int) else None


def _beyond_padding(pairs: Sequence[tuple[int, int]], dtype: str) -> bool:
    """Whether a tile is larger than what it is for, (needed, allocated) per dimension.

    Rows may be padded to what the vector unit takes at a time.
    """
    unit = _REPEAT_BYTES // max(bytes_of(dtype), 1)
    needed, allocated = pairs[-1]
    wide = allocated > -(-needed // unit) * unit
    return wide or any(part > whole for whole, part in pairs[:-1])


def _elements(stmt: ir.Stmt) -> Iterator[tuple[ir.Buffer, tuple[ir.Expr, ...]]]:
    """The element accesses of `stmt` that happen whenever it is executed."""
    if isinstance(stmt, ir.Store):
        yield stmt.buffer, stmt.indices
    for expr in own_expressions(stmt):
        for part in _unconditional(expr):
            if isinstance(part, ir.Load):
                yield part.buffer, part.indices


def _unconditional(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The parts of `expr` that are evaluated in any case."""
    if isinstance(expr, ir.Select):
        yield from _unconditional(expr.cond)
    elif isinstance(expr, ir.Binary) and expr.op in ("and", "or"):
        yield from _unconditional(expr.a)
    elif isinstance(expr, ir.Binary):
        yield from (*_unconditional(expr.a), *_unconditional(expr.b))
    else:
        yield from subexpressions(expr)
