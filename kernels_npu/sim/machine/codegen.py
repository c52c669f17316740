"""Generates the Python program of a core from its statements.

Direct programs execute an instruction where it is issued; deferred ones append it to the queue of its
pipe, and the scheduler decides when it takes effect. Names in generated code: `n[site]` execution
counts, `b[site]` global bytes, `c<site>` checks, `k<site>` kernels, `f<uid>`/`w<name>` memory views,
`G<i>`/`F<i>` global tensors as declared and flat, `Q_<pipe>` pipe queues, `R` the run-time services.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.instruction import Instruction, lower_tile_op
from kernels_npu.sim.machine.operands import Rect, View, gm_linear
from kernels_npu.sim.machine.ops.cube import StageQueue
from kernels_npu.sim.machine.parallel_codegen import emit_parallel
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.machine.sync_codegen import emit_barrier, emit_fence, emit_sync

_IGNORED = {"reinterpretcast", "printf", "dump_tensor", "set_deq_scale"}


class CoreCodegen(AccessCodegen):
    """Generates one program; use `generate_core_program`."""

    def _emit_instruction(self, stmt: ir.TileOp) -> None:
        instruction = lower_tile_op(stmt, self.context)
        for stage in instruction.stages or (instruction,):
            for src, dst in stage.fences_before:
                emit_fence(self, src, dst)
            self._emit_stage(stmt, stage)
            for src, dst in stage.fences_after:
                emit_fence(self, src, dst)

    def _emit_stage(self, stmt: ir.TileOp, instruction: Instruction) -> None:
        pairs = [(v, False) for v in instruction.reads] + [(v, True) for v in instruction.writes]
        footprints = tuple(
            f
            for v, w in pairs
            if not (instruction.atomic and isinstance(v, Rect))
            and (f := self.footprint(v, w)) is not None
        )
        site = self.site(stmt, stmt.op, instruction.pipe, footprints, instruction)
        if instruction.scalar_barrier:
            emit_barrier(self)
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
                    self.emit_run_bounds(site, view, offsets[id(view.offset)])
                if self.checks.alignment:
                    self.emit_alignment(site, view, offsets[id(view.offset)])
        for name, _ in rects.values():
            self.emit(f"b[{site.index}] += {name}.nbytes")
        if self.monitored and footprints:
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
            return self.view_text(argument, offset or self.named(argument.offset))
        if isinstance(argument, Rect):
            return rects[id(argument)][0]
        if isinstance(argument, ir.Expr):
            return self.value(argument)
        if isinstance(argument, StageQueue):
            name = f"q{id(argument)}"
            self.factories[name] = argument
            return name
        return repr(argument)

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

    # ------------------------------------------------------------------ statements

    def body(self, stmts: tuple[ir.Stmt, ...]) -> None:
        before = len(self.lines)
        for stmt in stmts:
            self.current = stmt
            self._statement(stmt)
        if len(self.lines) == before:
            self.emit("pass")

    def _nested(self, stmts: tuple[ir.Stmt, ...]) -> None:
        self.depth += 1
        self.body(stmts)
        self.depth -= 1

    def _statement(self, stmt: ir.Stmt) -> None:
        if emit_sync(self, stmt):
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
        offset = self.announce_scalar_access(buffer, stmt.indices, stmt.value, write=True)
        self.emit(f"{self.flat_name(buffer)}[{offset}] = {value}")

    def _emit_gm_store(self, stmt: ir.Store, value: str) -> None:
        index = self.tensor_index[stmt.buffer.uid]
        one = ir.Const(1, "int32")
        rect = Rect(stmt.buffer, stmt.indices, None, one, one)
        footprint = Footprint(rect, write=True, tensor=index)
        site = self.site(stmt, "scalar store", "S", (footprint,))
        offset = self.named(gm_linear(stmt.buffer, stmt.indices))
        if self.checks.bounds:
            tests = [
                f"0 <= {self.writer.text(i)} < {self.writer.text(ir.as_expr(d))}"
                for i, d in zip(stmt.indices, stmt.buffer.shape)
            ]
            where = ", ".join(self.writer.text(i) for i in stmt.indices)
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {index}, ({where},))")
        if self.monitored:
            self.emit(f"c{site.index}(({offset}, 1, 1, 0))")
        self.emit(f"F{index}[{offset}] = {value}")


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
