"""Generates the Python program of a core from its statements.

Direct programs execute an instruction where it is issued; deferred ones append it to the queue
of its pipe, and the scheduler decides when it takes effect. Names in generated code: `n[site]`
execution counts, `b[site]` global bytes, `c<site>` checks, `k<site>` kernels,
`g<number>` stretches of checks, `f<uid>`/`w<name>` memory views, `G<i>`/`F<i>` global tensors as
declared and flat, `Q_<pipe>` pipe queues, `R` the run-time services, `X` the timeline of a traced
launch.
"""

from __future__ import annotations

from kernels_npu.errors import AscendInferError, UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine.debug_codegen import emit_debug
from kernels_npu.sim.machine.instruction import lower_tile_op
from kernels_npu.sim.machine.instruction_codegen import InstructionCodegen
from kernels_npu.sim.machine.intervals import BLOCK_IDS
from kernels_npu.sim.machine.parallel_codegen import emit_parallel
from kernels_npu.sim.machine.print_codegen import emit_print
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.stretch_steps import merge_steps
from kernels_npu.sim.machine.sync_codegen import emit_sync


class CoreCodegen(InstructionCodegen):
    """Generates one program; use `generate_core_program`."""

    def body(self, stmts: tuple[ir.Stmt, ...]) -> None:
        """Emit `stmts` at the current depth."""
        before = len(self.lines)
        for stmt in stmts:
            self.current = stmt
            if self.context.refused is None:
                self._statement(stmt)
            else:
                self._attempt(stmt, self.context.refused)
        if len(self.lines) == before:
            self.emit("pass")

    def _attempt(self, stmt: ir.Stmt, refused: list[AscendInferError]) -> None:
        """Emit `stmt`, or note why that is not possible and leave it out."""
        depth, length = self.depth, len(self.lines)
        try:
            self._statement(stmt)
        except AscendInferError as error:
            refused.append(error)
            self.depth = depth
            del self.lines[length:]

    def _nested(self, stmts: tuple[ir.Stmt, ...]) -> None:
        outer = self.current
        self.depth += 1
        self.body(stmts)
        self.depth -= 1
        self.current = outer

    def _statement(self, stmt: ir.Stmt) -> None:
        if emit_sync(self, stmt) or emit_print(self, stmt):
            return
        if isinstance(stmt, ir.TileOp):
            if stmt.op == "set_deq_scale":
                self.emit(f"dq = {self.value(stmt.operands[0])}")  # type: ignore[arg-type]
            elif stmt.op != "reinterpretcast":
                self.emit_instruction(stmt, lower_tile_op(stmt, self.context))
        elif isinstance(stmt, ir.Let):
            name = f"v{stmt.var.uid}"
            self.emit(f"{name} = {self.value(stmt.value)}")
            self.writer.bind(stmt.var, name, self.writer.values(stmt.value))
        elif isinstance(stmt, ir.Store):
            self._emit_store(stmt)
        elif isinstance(stmt, ir.For):
            self._emit_for(stmt)
        elif isinstance(stmt, ir.If):
            self.emit(f"if {self.value(stmt.cond)}:")
            self._nested(stmt.then)
            if stmt.orelse:
                self.emit("else:")
                self._nested(stmt.orelse)
        elif isinstance(stmt, ir.While):
            site = self.site(stmt, "while", "S", ())
            count = self.temporary()
            self.emit(f"{count} = R.loop_limit()")
            self.emit("while True:")
            self.depth += 1
            # Other cores go on between two iterations: the loop may wait for what they store.
            self.emit("yield None")
            self.emit(f"{count} -= 1")
            self.emit(f"if {count} < 0: R.endless({site.index})")
            self.emit(f"if not {self.value(stmt.cond)}: break")
            self.depth -= 1
            self._nested(stmt.body)
        elif isinstance(stmt, ir.Break):
            self.emit("break")
        elif isinstance(stmt, ir.CoreScope):
            self.body(stmt.body)
        elif isinstance(stmt, ir.Parallel):
            emit_parallel(self, stmt)
        elif isinstance(stmt, ir.Debug):
            emit_debug(self, stmt)
        else:
            raise UnsupportedError(
                "AI-SRC-060",
                f"the simulator does not execute {type(stmt).__name__} statements yet",
                where=stmt.loc,
                fix="write the step with T.tile operations and serial loops",
            )

    def _emit_for(self, stmt: ir.For) -> None:
        start, stop = self.value(stmt.start), self.value(stmt.stop)
        name = f"v{stmt.var.uid}"
        first, last = self.writer.values(stmt.start)[0], self.writer.values(stmt.stop)[1] - 1
        self.emit(f"for {name} in range({start}, {stop}):")
        self.writer.bind(stmt.var, name, (first, max(first, last)))
        self._nested(stmt.body)

    def _emit_store(self, stmt: ir.Store) -> None:
        buffer = stmt.buffer
        self.element_reads.clear()
        value = self.value(ir.Cast(stmt.value, buffer.dtype))
        reads = list(self.element_reads) if self.checks.uninitialised else []
        written = " and ".join(f"u{site}({offset})" for site, offset in reads)
        if buffer.scope == "var":
            self.emit(f"s{buffer.uid} = {value}")
            return
        for index in stmt.indices:
            self._announce(index)
        if buffer.scope == "global":
            self.emit_element_bounds(buffer, stmt.indices, "scalar store")
            if self.monitored:
                self.emit_gm_element_check(buffer, stmt.indices, write=True)
            if written:
                self.emit(f"if not ({written}): R.stores_unwritten({reads[0][0]})")
            offset = self.writer.address(stmt.indices, buffer.shape)
            flat = self.tensor_name(buffer, flat=True)
            self.emit_element_store(buffer, flat, offset, value)
            return
        offset = self.announce_scalar_access(buffer, stmt.indices, write=True, written=written)
        self.emit_element_store(buffer, self.flat_name(buffer), offset, value)


def _tensor_views(codegen: CoreCodegen) -> list[str]:
    """Arrays of tensors that the kernel sees with another shape or dtype."""
    lines = []
    for uid, buffer in codegen.tensor_views.items():
        codegen.values[f"dtype{uid}"] = numpy_dtype(buffer.dtype)
        sizes = "".join(f"{codegen.writer.text(ir.as_expr(d))}, " for d in buffer.shape)
        flat = f"F{codegen.tensor_of(buffer)}.view(dtype{uid})"
        lines.append(f"    Gv{uid} = {flat}[:math.prod(({sizes}))].reshape({sizes})")
        lines.append(f"    Fv{uid} = Gv{uid}.reshape(-1)")
    return lines


def generate_core_program(
    codegen: CoreCodegen, body: tuple[ir.Stmt, ...], parameters: list[str]
) -> CoreProgram:
    """Run `codegen` over `body`; `parameters` are the generated function's arguments."""
    func = codegen.func
    blocks = (
        BLOCK_IDS if not isinstance(func.grid, ir.Const) else (0, max(0, int(func.grid.value) - 1))
    )
    codegen.writer.bind(func.cid, "cid", blocks)
    codegen.writer.bind(func.vid, "vid", (0, 1))
    codegen.body(body)
    registers = [
        f"    s{b.uid} = {'0.0' if b.dtype.startswith(('float', 'bfloat')) else '0'}"
        for b in func.allocs
        if b.scope == "var"
    ]
    header = [f"def program({', '.join(parameters)}):", "    z = 0", "    dq = 1.0", *registers]
    header += _tensor_views(codegen)
    lines, stretches = merge_steps(codegen.lines) if codegen.merged else (codegen.lines, [])
    source = "\n".join([*header, *(line.text for line in lines), "    if False: yield", ""])
    filename = f"<{func.name} {codegen.core_kind}>"
    return CoreProgram(
        core_kind=codegen.core_kind,
        source=source,
        code=compile(source, filename, "exec"),
        filename=filename,
        line_stmts={n: line.stmt for n, line in enumerate(lines, start=len(header) + 1)},
        sites=tuple(codegen.sites),
        stretches=tuple(stretches),
        views=codegen.views,
        factories=codegen.factories,
        values=codegen.values,
        deferred=codegen.deferred,
        traced=codegen.traced,
        empty=not body,
    )
