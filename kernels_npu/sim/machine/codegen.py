"""Generates the Python program of a core from its statements.

Direct programs execute an instruction where it is issued; deferred ones append it to the queue of its
pipe, and the scheduler decides when it takes effect. Names in generated code: `n[site]` execution
counts, `b[site]` global bytes, `c<site>` checks, `k<site>` kernels, `f<uid>`/`w<name>` memory views,
`G<i>`/`F<i>` global tensors as declared and flat, `Q_<pipe>` pipe queues, `R` the run-time services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.expressions import ExpressionWriter
from kernels_npu.sim.machine.instruction import Instruction, LoweringContext, lower_tile_op
from kernels_npu.sim.machine.operands import Rect, View, linear, shape_of
from kernels_npu.sim.machine.ops.cube import StageQueue
from kernels_npu.sim.machine.parallel_codegen import emit_parallel
from kernels_npu.sim.machine.program import CoreProgram, ViewConstant
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.scalar_ops import is_float

_IGNORED = {"reinterpretcast", "printf", "dump_tensor", "set_deq_scale"}


class CoreCodegen:
    """Generates one program; use `generate_core_program`."""

    def __init__(
        self,
        func: ir.PrimFunc,
        core_kind: str,
        placements: Mapping[ir.Buffer, int],
        context: LoweringContext,
        checks: Checks,
        *,
        deferred: bool,
        tracked: frozenset[int],
        auto_sync: bool,
    ) -> None:
        self.func = func
        self.core_kind = core_kind
        self.placements = placements
        self.context = context
        self.checks = checks
        self.deferred = deferred
        self.tracked = tracked
        self.auto_sync = auto_sync
        self.lines: list[str] = []
        self.depth = 1
        self.sites: list[Site] = []
        self.views: dict[str, ViewConstant] = {}
        self.factories: dict[str, Callable[[], object]] = {}
        self.values: dict[str, object] = {}
        self.writer = ExpressionWriter(self._load_text)
        self.tensor_index = {b.uid: i for i, b in enumerate(func.tensors)}
        self._temporaries = 0
        self._monitored = checks.races or checks.uninitialised

    # ------------------------------------------------------------------ text

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    def value(self, expr: ir.Expr) -> str:
        """Text of `expr`, after emitting the checks that its buffer reads need."""
        self._announce_loads(expr)
        return self.writer.text(expr)

    def named(self, expr: ir.Expr) -> str:
        """Like `value`, evaluated once into a local name unless it is a literal."""
        if isinstance(expr, (ir.Const, ir.Var)):
            return self.writer.text(expr)
        name = self._temporary()
        self.emit(f"{name} = {self.value(expr)}")
        return name

    def _announce_loads(self, expr: ir.Expr) -> None:
        for load in loads_of(expr):
            if load.buffer.scope == "var":
                continue
            if load.buffer.scope == "global":
                self._announce_gm_load(load)
            else:
                self._announce_scalar_access(load.buffer, load.indices, expr, write=False)

    # ------------------------------------------------------------------ scalar access

    def _load_text(self, load: ir.Load) -> str:
        buffer = load.buffer
        if buffer.scope == "var":
            return f"s{buffer.uid}"
        convert = "float" if is_float(buffer.dtype) else "int"
        if buffer.scope == "global":
            offset = self.writer.text(_gm_linear(buffer, load.indices))
            return f"{convert}(F{self.tensor_index[buffer.uid]}[{offset}])"
        shape = shape_of(buffer, self.func.loc)
        offset = self.writer.text(linear(shape, load.indices))
        return f"{convert}({self.flat_name(buffer)}[{offset}])"

    def _announce_gm_load(self, load: ir.Load) -> None:
        index = self.tensor_index[load.buffer.uid]
        stmt = self._current
        if self.checks.bounds:
            site = self._site(stmt, "scalar load", "S", ())
            tests = [
                f"0 <= {self.writer.text(i)} < {self.writer.text(ir.as_expr(d))}"
                for i, d in zip(load.indices, load.buffer.shape)
            ]
            where = ", ".join(self.writer.text(i) for i in load.indices)
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {index}, ({where},))")
        if index in self.tracked and self._monitored:
            rect = Rect(load.buffer, load.indices, None, ir.Const(1, "int32"), ir.Const(1, "int32"))
            footprint = Footprint(rect, write=False, tensor=index)
            site = self._site(stmt, "scalar load", "S", (footprint,))
            offset = self.writer.text(_gm_linear(load.buffer, load.indices))
            self.emit(f"c{site.index}(({offset}, 1, 1, 0),)")

    def _announce_scalar_access(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], origin: ir.Expr, *, write: bool
    ) -> str:
        """Checks of one element access by the scalar unit; returns the element offset's text."""
        offset = linear(shape_of(buffer, self.func.loc), indices)
        view = View(buffer, offset, 1, 1, 1, flat=True)
        footprint = Footprint(view, write=write, address=self.placements[buffer])
        site = self._site(
            self._current, "scalar store" if write else "scalar load", "S", (footprint,)
        )
        text = self.writer.text(offset)
        if self.deferred:
            # The device compiler orders the scalar unit after the vector pipe.
            self.emit("yield ('drain', VECTOR_PIPES)")
        if self.checks.bounds:
            self._emit_run_bounds(site, view, text)
        if self._monitored:
            self.emit(f"c{site.index}()" if footprint.fixed else f"c{site.index}({text})")
        return text

    # ------------------------------------------------------------------ views

    def flat_name(self, buffer: ir.Buffer) -> str:
        """The name of the buffer's memory from its start to the end of the memory."""
        name = f"f{buffer.uid}"
        if name not in self.views:
            view = View(buffer, ir.Const(0, "int32"), 1, 1, 1, flat=True)
            self.views[name] = ViewConstant("flat", view, self.placements[buffer])
        return name

    def _view_text(self, view: View, offset: str) -> str:
        if isinstance(view.offset, ir.Const):
            name = f"w{len(self.views)}"
            self.views[name] = ViewConstant("view", view, self.placements[view.buffer])
            return name
        flat = self.flat_name(view.buffer)
        if view.flat:
            return f"{flat}[{offset}:{offset} + {view.cols}]"
        if view.contiguous:
            size = view.rows * view.cols
            return f"{flat}[{offset}:{offset} + {size}].reshape({view.rows}, {view.cols})"
        span = view.rows * view.pitch
        return (
            f"{flat}[{offset}:{offset} + {span}]"
            f".reshape({view.rows}, {view.pitch})[:, :{view.cols}]"
        )

    # ------------------------------------------------------------------ sites and checks

    def _site(
        self,
        stmt: ir.Stmt,
        op: str,
        pipe: str,
        footprints: tuple[Footprint, ...],
        instruction: Instruction | None = None,
    ) -> Site:
        site = Site(
            len(self.sites),
            stmt,
            op,
            pipe,
            footprints,
            instruction,
            cycles=instruction.cycles if instruction else 1,
            gm_path=instruction.gm_path if instruction else "",
        )
        self.sites.append(site)
        return site

    def _footprint(self, view: View | Rect, write: bool) -> Footprint | None:
        if isinstance(view, View):
            return Footprint(view, write=write, address=self.placements[view.buffer])
        index = self.tensor_index[view.buffer.uid]
        return Footprint(view, write=write, tensor=index) if index in self.tracked else None

    def _emit_run_bounds(self, site: Site, view: View, offset: str) -> None:
        """Out-of-bounds test of an on-chip view whose offset is known only at run time."""
        limit = 1
        for size in shape_of(view.buffer, self.func.loc):
            limit *= size
        last = limit - ((view.rows - 1) * view.pitch + view.cols)
        if isinstance(view.offset, ir.Const):
            if not 0 <= view.offset.value <= last:
                self.context.note(
                    "AI-BOUND-002",
                    "error",
                    f"{site.op} touches elements {view.offset.value} to "
                    f"{view.offset.value + (view.rows - 1) * view.pitch + view.cols} of "
                    f"{view.buffer.name}, which has {limit}",
                    site.stmt,
                )
            return
        self.emit(f"if not 0 <= {offset} <= {last}:")
        self.emit(f"    R.out_of_buffer({site.index}, {view.buffer.uid}, {offset}, {last})")

    def _emit_alignment(self, site: Site, view: View, offset: str) -> None:
        if view.memory != "UB" or site.pipe == "S":
            return
        message = f"{site.op} operand {view.buffer.name} starts at"
        if isinstance(view.offset, ir.Const):
            start = self.placements[view.buffer] + int(view.offset.value) * view.itemsize
            if start % 32:
                self.context.note(
                    "AI-BOUND-006",
                    "error",
                    f"{message} byte {start} of UB, not on a 32-byte boundary",
                    site.stmt,
                )
        elif not _multiple_of(view.offset, 32 // view.itemsize):
            self.emit(f"if {offset} * {view.itemsize} % 32:")
            self.emit(f"    R.misaligned({site.index}, {view.buffer.uid}, {offset})")

    # ------------------------------------------------------------------ instructions

    def _emit_instruction(self, stmt: ir.TileOp) -> None:
        instruction = lower_tile_op(stmt, self.context)
        for stage in instruction.stages or (instruction,):
            for src, dst in stage.fences_before:
                self._emit_fence(src, dst)
            self._emit_stage(stmt, stage)
            for src, dst in stage.fences_after:
                self._emit_fence(src, dst)

    def _emit_stage(self, stmt: ir.TileOp, instruction: Instruction) -> None:
        pairs = [(v, False) for v in instruction.reads] + [(v, True) for v in instruction.writes]
        footprints = tuple(
            f
            for v, w in pairs
            if not (instruction.atomic and isinstance(v, Rect))
            and (f := self._footprint(v, w)) is not None
        )
        site = self._site(stmt, stmt.op, instruction.pipe, footprints, instruction)
        if instruction.scalar_barrier:
            self._emit_barrier()
        offsets: dict[int, str] = {}
        rects: dict[int, tuple[str, str]] = {}
        for view, _ in pairs:
            if isinstance(view, View):
                if id(view.offset) not in offsets:
                    offsets[id(view.offset)] = self.named(view.offset)
            elif id(view) not in rects:
                rects[id(view)] = self._emit_rect(site, view)
        arguments = [self._argument(a, site, offsets, rects) for a in instruction.args]
        for view, _ in pairs:
            if isinstance(view, View):
                if self.checks.bounds:
                    self._emit_run_bounds(site, view, offsets[id(view.offset)])
                if self.checks.alignment:
                    self._emit_alignment(site, view, offsets[id(view.offset)])
        for name, _ in rects.values():
            self.emit(f"b[{site.index}] += {name}.nbytes")
        if self._monitored and footprints:
            self._emit_check(site, offsets, rects)
        self.emit(f"n[{site.index}] += 1")
        self.values[f"k{site.index}"] = instruction.kernel
        call = ", ".join(arguments)
        if self.deferred:
            packed = f"({call},)" if arguments else "()"
            self.emit(f"Q_{instruction.pipe}.append(('op', k{site.index}, {packed}))")
        else:
            self.emit(f"k{site.index}({call})")

    def _argument(
        self,
        argument: object,
        site: Site,
        offsets: Mapping[int, str],
        rects: Mapping[int, tuple[str, str]],
    ) -> str:
        if isinstance(argument, View):
            offset = offsets.get(id(argument.offset))
            return self._view_text(argument, offset or self.named(argument.offset))
        if isinstance(argument, Rect):
            return rects[id(argument)][0]
        if isinstance(argument, ir.Expr):
            return self.value(argument)
        if isinstance(argument, StageQueue):
            name = f"q{id(argument)}"
            self.factories[name] = argument
            return name
        return repr(argument)

    def _emit_rect(self, site: Site, rect: Rect) -> tuple[str, str]:
        """Bind the clipped rectangle of a global tensor; returns its name and its position's text."""
        index = self.tensor_index[rect.buffer.uid]
        mins = [self.named(m) for m in rect.mins]
        shape = [self.writer.text(ir.as_expr(d)) for d in rect.buffer.shape]
        cols, last = self.named(rect.cols), len(mins) - 1
        rows = self.named(rect.rows)
        if self.checks.bounds:
            tests = [f"0 <= {m} < {d}" for m, d in zip(mins, shape)]
            if rect.row_dim is not None:
                tests[rect.row_dim] = f"0 <= {mins[rect.row_dim]}"
            tests[last] = f"0 <= {mins[last]}"
            if site.instruction is not None and site.instruction.pipe != "V":
                clipped = site.gm_path in ("GM->UB", "UB->GM")
                if not clipped:
                    tests[last] += f" < {shape[last]}"
                    if rect.row_dim is not None:
                        tests[rect.row_dim] += f" < {shape[rect.row_dim]} and {rows} > 0"
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {index}, ({', '.join(mins)},))")
            row = rect.row_dim
            if row is not None and rows == "1" and tests[row] == f"0 <= {mins[row]}":
                self.emit(f"elif {mins[row]} >= {shape[row]}:")
                self.emit(f"    R.beyond_border({site.index}, {index}, ({', '.join(mins)},))")
        parts = list(mins)
        parts[last] = f"{mins[last]}:{mins[last]} + {cols}"
        name = self._temporary()
        if rect.row_dim is None:
            self.emit(f"{name} = G{index}[None, {parts[last]}]")
        else:
            row = mins[rect.row_dim]
            parts[rect.row_dim] = f"{row}:{row} + {rows}"
            self.emit(f"{name} = G{index}[{', '.join(parts)}]")
        if index not in self.tracked or not self._monitored:
            return name, ""
        position = self.writer.text(_gm_linear(rect.buffer, rect.mins))
        itemsize = f"{name}.itemsize"
        range_text = (
            f"({position}, {name}.shape[0], {name}.shape[1], {name}.strides[0] // {itemsize})"
        )
        return name, range_text

    def _emit_check(
        self, site: Site, offsets: Mapping[int, str], rects: Mapping[int, tuple[str, str]]
    ) -> None:
        dynamic: list[str] = []
        for footprint in site.footprints:
            view = footprint.view
            if isinstance(view, Rect):
                dynamic.append(rects[id(view)][1])
            elif not footprint.fixed:
                dynamic.append(offsets[id(view.offset)])
        if site.gm_path and any(isinstance(f.view, View) and not f.write for f in site.footprints):
            name = next(iter(rects.values()))[0]
            dynamic.append(f"{name}.shape")
        self.emit(f"c{site.index}({', '.join(dynamic)})")

    # ------------------------------------------------------------------ synchronisation

    def _emit_fence(self, src: str, dst: str) -> None:
        if self._monitored and not self.auto_sync:
            self.emit(f"R.fence({src!r}, {dst!r})")
        if self.deferred:
            self.emit("z += 1")
            self.emit(f"Q_{src}.append(('set', {dst!r}, ('fence', z)))")
            self.emit(f"Q_{dst}.append(('wait', {src!r}, ('fence', z)))")

    def _emit_barrier(self) -> None:
        if self._monitored:
            self.emit("R.barrier()")
        if self.deferred:
            self.emit("yield ('drain', ALL_PIPES)")

    def _sync(self, stmt: ir.Stmt) -> bool:
        """Emit a synchronisation statement; False when `stmt` is none."""
        if isinstance(stmt, ir.SetFlag):
            self._emit_set_flag(stmt)
        elif isinstance(stmt, ir.WaitFlag):
            self._emit_wait_flag(stmt)
        elif isinstance(stmt, ir.PipeBarrier):
            if stmt.pipe.upper() == "ALL":
                self._emit_barrier()
            else:
                self.emit("pass  # a single pipe executes in order")
        elif isinstance(stmt, ir.SetCrossFlag):
            site = self._site(stmt, "set_cross_flag", stmt.pipe, ())
            flag = self.value(stmt.flag_id)
            if self.deferred and stmt.pipe != "S":
                self.emit(
                    f"Q_{stmt.pipe}.append(('cross', {flag}, {stmt.mode}, {site.index}, "
                    f"R.release({stmt.pipe!r})))"
                )
            else:
                self.emit(f"R.set_cross({site.index}, {stmt.pipe!r}, {flag}, {stmt.mode})")
            self.emit("yield None")
        elif isinstance(stmt, ir.WaitCrossFlag):
            site = self._site(stmt, "wait_cross_flag", "S", ())
            flag = self.named(stmt.flag_id)
            self.emit(f"while not R.cross_ready({flag}):")
            self.emit(f"    yield ('cross', {flag}, {site.index})")
            self.emit(f"R.take_cross({flag})")
        elif isinstance(stmt, ir.SyncAll):
            site = self._site(stmt, "sync_all", "S", ())
            self._emit_barrier()
            self.emit(f"yield ('sync_all', {site.index})")
        else:
            return False
        return True

    def _emit_set_flag(self, stmt: ir.SetFlag) -> None:
        event = self.named(stmt.event_id)
        site = self._site(stmt, "set_flag", stmt.src, ())
        if self.checks.races or self.checks.flags:
            self.emit(f"R.set_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})")
        if self.deferred:
            item = f"('set', {stmt.dst!r}, {event})"
            if stmt.src == "S":
                self.emit(f"E.add(('S', {stmt.dst!r}, {event}))")
            else:
                self.emit(f"Q_{stmt.src}.append({item})")

    def _emit_wait_flag(self, stmt: ir.WaitFlag) -> None:
        event = self.named(stmt.event_id)
        site = self._site(stmt, "wait_flag", stmt.dst, ())
        if self.checks.races or self.checks.flags:
            self.emit(f"R.wait_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})")
        if self.deferred:
            if stmt.dst == "S":
                self.emit(f"yield ('flag', {stmt.src!r}, {event}, {site.index})")
            else:
                self.emit(f"Q_{stmt.dst}.append(('wait', {stmt.src!r}, {event}))")

    # ------------------------------------------------------------------ statements

    def body(self, stmts: tuple[ir.Stmt, ...]) -> None:
        before = len(self.lines)
        for stmt in stmts:
            self._current = stmt
            self._statement(stmt)
        if len(self.lines) == before:
            self.emit("pass")

    def _nested(self, stmts: tuple[ir.Stmt, ...]) -> None:
        self.depth += 1
        self.body(stmts)
        self.depth -= 1

    def _statement(self, stmt: ir.Stmt) -> None:
        if self._sync(stmt):
            return
        if isinstance(stmt, ir.TileOp):
            if stmt.op not in _IGNORED:
                self._emit_instruction(stmt)
        elif isinstance(stmt, ir.Let):
            name = f"v{stmt.var.uid}"
            self.emit(f"{name} = {self.value(stmt.value)}")
            non_negative = self.writer.non_negative(stmt.value)
            self.writer.bind(stmt.var, name, non_negative=non_negative)
        elif isinstance(stmt, ir.Store):
            self._emit_store(stmt)
        elif isinstance(stmt, ir.For):
            start, stop = self.value(stmt.start), self.value(stmt.stop)
            name = f"v{stmt.var.uid}"
            self.writer.bind(stmt.var, name, non_negative=self.writer.non_negative(stmt.start))
            self.emit(f"for {name} in range({start}, {stop}):")
            self._nested(stmt.body)
        elif isinstance(stmt, ir.If):
            self.emit(f"if {self.value(stmt.cond)}:")
            self._nested(stmt.then)
            if stmt.orelse:
                self.emit("else:")
                self._nested(stmt.orelse)
        elif isinstance(stmt, ir.While):
            self.emit("while True:")
            self.depth += 1
            self.emit(f"if not {self.value(stmt.cond)}: break")
            self.body(stmt.body)
            self.depth -= 1
        elif isinstance(stmt, ir.Break):
            self.emit("break")
        elif isinstance(stmt, ir.CoreScope):
            self.body(stmt.body)
        elif isinstance(stmt, ir.Parallel):
            emit_parallel(self, stmt)
        else:
            raise UnsupportedError(
                "AI-SRC-060",
                f"the simulator does not execute {type(stmt).__name__} statements yet",
                where=stmt.loc,
                fix="write the step with T.tile operations and serial loops",
            )

    def _emit_store(self, stmt: ir.Store) -> None:
        buffer = stmt.buffer
        value = self.value(stmt.value)
        if buffer.scope == "var":
            cast = ir.Cast(stmt.value, buffer.dtype)
            self.emit(f"s{buffer.uid} = {self.writer.text(cast)}")
            return
        if buffer.scope == "global":
            self._emit_gm_store(stmt, value)
            return
        offset = self._announce_scalar_access(buffer, stmt.indices, stmt.value, write=True)
        self.emit(f"{self.flat_name(buffer)}[{offset}] = {value}")

    def _emit_gm_store(self, stmt: ir.Store, value: str) -> None:
        index = self.tensor_index[stmt.buffer.uid]
        one = ir.Const(1, "int32")
        rect = Rect(stmt.buffer, stmt.indices, None, one, one)
        footprint = Footprint(rect, write=True, tensor=index)
        site = self._site(stmt, "scalar store", "S", (footprint,))
        offset = self.named(_gm_linear(stmt.buffer, stmt.indices))
        if self.checks.bounds:
            tests = [
                f"0 <= {self.writer.text(i)} < {self.writer.text(ir.as_expr(d))}"
                for i, d in zip(stmt.indices, stmt.buffer.shape)
            ]
            where = ", ".join(self.writer.text(i) for i in stmt.indices)
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {index}, ({where},))")
        if self._monitored:
            self.emit(f"c{site.index}(({offset}, 1, 1, 0))")
        self.emit(f"F{index}[{offset}] = {value}")


def loads_of(expr: ir.Expr) -> list[ir.Load]:
    """Buffer reads inside `expr`, innermost first."""
    if isinstance(expr, ir.Load):
        return [load for i in expr.indices for load in loads_of(i)] + [expr]
    if isinstance(expr, ir.Binary):
        return loads_of(expr.a) + loads_of(expr.b)
    if isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        return loads_of(expr.a)
    if isinstance(expr, ir.Select):
        return loads_of(expr.cond) + loads_of(expr.a) + loads_of(expr.b)
    return []


def _gm_linear(buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> ir.Expr:
    offset: ir.Expr = ir.Const(0, "int32")
    for index, size in zip(indices, buffer.shape):
        offset = (
            index if isinstance(offset, ir.Const) and offset.value == 0 else offset * size + index
        )
    return offset


def _multiple_of(expr: ir.Expr, factor: int) -> bool:
    """Whether `expr` is provably a multiple of `factor`."""
    if factor <= 1:
        return True
    if isinstance(expr, ir.Const):
        return int(expr.value) % factor == 0
    if isinstance(expr, ir.Binary):
        if expr.op in ("add", "sub"):
            return _multiple_of(expr.a, factor) and _multiple_of(expr.b, factor)
        if expr.op == "mul":
            return _multiple_of(expr.a, factor) or _multiple_of(expr.b, factor)
    return False


def generate_core_program(
    codegen: CoreCodegen, body: tuple[ir.Stmt, ...], parameters: list[str]
) -> CoreProgram:
    """Run `codegen` over `body`; `parameters` are the generated function's arguments."""
    func = codegen.func
    codegen.writer.bind(func.cid, "cid", non_negative=True)
    codegen.writer.bind(func.vid, "vid", non_negative=True)
    codegen.body(body)
    registers = [f"    s{b.uid} = 0" for b in func.allocs if b.scope == "var"]
    header = [f"def program({', '.join(parameters)}):", "    z = 0", *registers]
    source = "\n".join([*header, *codegen.lines, "    if False: yield", ""])
    code = compile(source, f"<{func.name} {codegen.core_kind}>", "exec")
    return CoreProgram(
        core_kind=codegen.core_kind,
        source=source,
        code=code,
        sites=tuple(codegen.sites),
        views=codegen.views,
        factories=codegen.factories,
        values=codegen.values,
        deferred=codegen.deferred,
    )
