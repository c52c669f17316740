"""The part of code generation that issues instructions: operands, checks, counters, queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.instruction import DEQ_SCALE, Instruction, MemoryFrom, OutsideReport
from kernels_npu.sim.machine.operands import Rect, View
from kernels_npu.sim.machine.ops.cube import PerCore
from kernels_npu.sim.machine.rect_codegen import emit_rect
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.machine.stretch_steps import SiteStep, UsedEventsStep
from kernels_npu.sim.machine.sync_codegen import emit_barrier, emit_fence


@dataclass
class _Operands:
    """Texts of an instruction's operands: offsets by `id(view.offset)`, rects by `id(rect)`."""

    offsets: dict[int, str] = field(default_factory=dict)
    rects: dict[int, tuple[str, str]] = field(default_factory=dict)


class InstructionCodegen(AccessCodegen):
    """Issues instructions."""

    def emit_instruction(self, stmt: ir.TileOp, instruction: Instruction) -> None:
        """Issue all stages of an operation, with the fences that it contains."""
        for stage in instruction.stages or (instruction,):
            self._emit_events(stmt, stage)
            for src, dst in stage.fences_before:
                emit_fence(self, src, dst)
            self._emit_stage(stmt, stage)
            for src, dst in stage.fences_after:
                emit_fence(self, src, dst)

    def _emit_events(self, stmt: ir.TileOp, instruction: Instruction) -> None:
        """Warn when a flag that the operation uses itself is set: the program uses it as well."""
        if not self.checks.flags or self.auto_sync:
            return
        shared = [e for e in instruction.events if e[:2] in self.flag_pairs]
        if shared:
            site = self.site(stmt, stmt.op, instruction.pipe, ())
            self.emit(
                f"R.hidden_events({site.index}, {tuple(shared)!r})",
                UsedEventsStep(site.index, tuple(shared)),
            )

    def _emit_stage(self, stmt: ir.TileOp, instruction: Instruction) -> None:
        site = self.site(
            stmt, stmt.op, instruction.pipe, tuple(self._footprints(instruction)), instruction
        )
        if instruction.scalar_barrier:
            emit_barrier(self)
        operands = _Operands()
        views = [*instruction.reads, *instruction.data_reads, *instruction.writes]
        views += instruction.reads_unless[1] if instruction.reads_unless else ()
        for view in views:
            if isinstance(view, View):
                if id(view.offset) not in operands.offsets:
                    operands.offsets[id(view.offset)] = self.named(view.offset)
            elif id(view) not in operands.rects:
                operands.rects[id(view)] = emit_rect(self, site, view)
        arguments = [self._argument(a, site, operands) for a in instruction.args]
        for view in views:
            if isinstance(view, View):
                if self.checks.bounds:
                    self.emit_run_bounds(site, view, operands.offsets[id(view.offset)])
                if self.checks.alignment:
                    self.emit_alignment(site, view, operands.offsets[id(view.offset)])
        for name, _ in operands.rects.values():
            self._emit_fit(site, instruction, name, operands)
            self.emit(f"b[{site.index}] += {name}.nbytes", inert=True)
        if instruction.prologue is not None:
            self._emit_prologue(stmt, instruction, operands)
        if self.monitored and site.footprints:
            self._emit_check(site, instruction, operands)
        moved = " + ".join(f"{name}.nbytes" for name, _ in operands.rects.values())
        self._emit_call(site, instruction, arguments, moved or "0")

    def _emit_call(
        self, site: Site, instruction: Instruction, arguments: list[str], moved: str = "0"
    ) -> None:
        self.emit_issue(site, moved)
        self.values[f"k{site.index}"] = instruction.kernel
        call = ", ".join(arguments)
        if self.deferred:
            packed = f"({call},)" if arguments else "()"
            self.emit(f"Q_{instruction.pipe}.append(('op', k{site.index}, {packed}, {site.index}))")
        else:
            self.emit(f"k{site.index}({call})", inert=True)

    def _footprints(self, instruction: Instruction) -> Iterator[Footprint]:
        for views, write, data_only, conditional in (
            (instruction.reads, False, False, False),
            (instruction.data_reads, False, True, False),
            (instruction.reads_unless[1] if instruction.reads_unless else (), False, False, True),
            (instruction.writes, True, False, False),
        ):
            for view in views:
                if instruction.atomic and isinstance(view, Rect):
                    continue
                plain = self.footprint(view, write)
                if plain is None:
                    continue
                yield Footprint(
                    plain.view,
                    write=write,
                    address=plain.address,
                    tensor=plain.tensor,
                    data_only=data_only,
                    conditional=conditional,
                    clobbers=view in instruction.clobbers,
                )

    def _argument(self, argument: object, site: Site, operands: _Operands) -> str:
        if isinstance(argument, View):
            offset = operands.offsets.get(id(argument.offset))
            return self.view_text(argument, offset or self.named(argument.offset))
        if isinstance(argument, Rect):
            return operands.rects[id(argument)][0]
        if isinstance(argument, ir.Expr):
            return self.value(argument)
        if isinstance(argument, PerCore):
            name = f"q{id(argument)}"
            self.factories[name] = argument
            return name
        if argument is DEQ_SCALE:
            return "dq"
        if isinstance(argument, MemoryFrom):
            start = argument.view.offset
            offset = operands.offsets.get(id(start)) or self.named(start)
            return f"{self.flat_name(argument.view.buffer)}[{offset}:]"
        if isinstance(argument, OutsideReport):
            if not self.checks.bounds:
                return "None"
            return f"R.outside_memory({site.index}, {argument.buffer.name!r})"
        return repr(argument)

    def _emit_check(self, site: Site, instruction: Instruction, operands: _Operands) -> None:
        dynamic: list[str] = []
        for footprint in site.footprints:
            view = footprint.view
            if isinstance(view, Rect):
                dynamic.append(operands.rects[id(view)][1])
            elif not footprint.fixed:
                dynamic.append(operands.offsets[id(view.offset)])
        if site.clips:
            name = next(iter(operands.rects.values()))[0]
            dynamic.append(f"{name}.shape")
        if instruction.reads_unless is not None:
            dynamic.append(f"not {self.value(instruction.reads_unless[0])}")
        constant = not dynamic and instruction.tail is None
        self.emit(
            f"c{site.index}({', '.join(dynamic)})", SiteStep(site.index) if constant else None
        )

    # ------------------------------------------------------------------ moves with global memory

    def _emit_fit(
        self, site: Site, instruction: Instruction, rect: str, operands: _Operands
    ) -> None:
        """The moved rectangle must fit the on-chip tile; one row may fill it as a flat run."""
        sides = [v for v in (*instruction.reads, *instruction.writes) if isinstance(v, View)]
        rects = [v for v in (*instruction.reads, *instruction.writes) if isinstance(v, Rect)]
        if not sides or not rects or not self.checks.bounds:
            return
        tile = instruction.tile or sides[0]
        if tile.open:
            end = (
                f"{operands.offsets[id(tile.offset)]} + ({rect}.shape[0] - 1) * {tile.pitch} + "
                f"{rect}.shape[1]"
            )
            self.emit(f"if {rect}.size and {end} > {self.size_of(tile.buffer)}:")
            self.emit(f"    R.does_not_fit({site.index}, {rect}.shape, {(tile.rows, tile.cols)})")
            return
        rows, cols = (self.writer.values(e)[1] for e in (rects[0].rows, rects[0].cols))
        if rows <= tile.rows and cols <= tile.cols:
            return
        flat = tile.count if tile.contiguous else tile.cols
        self.emit(
            f"if {rect}.shape[0] > {tile.rows} or {rect}.shape[1] > "
            f"({flat} if {rect}.shape[0] == 1 else {tile.cols}):"
        )
        self.emit(f"    R.does_not_fit({site.index}, {rect}.shape, {(tile.rows, tile.cols)})")

    def _emit_prologue(
        self, stmt: ir.TileOp, instruction: Instruction, operands: _Operands
    ) -> None:
        """What precedes a move that the tensor's border clips: the fill with the pad value."""
        prologue = instruction.prologue
        assert prologue is not None
        (tile,) = (v for v in prologue.writes if isinstance(v, View))
        site = self.site(stmt, stmt.op, prologue.pipe, tuple(self._footprints(prologue)), prologue)
        arguments = [self._argument(a, site, operands) for a in prologue.args]
        rect = next(iter(operands.rects.values()))[0]
        self.emit(f"if {rect}.shape != ({tile.rows}, {tile.cols}):")
        self.depth += 1
        self._emit_events(stmt, prologue)
        for src, dst in prologue.fences_before:
            emit_fence(self, src, dst)
        if self.monitored:
            self._emit_check(site, prologue, operands)
        self._emit_call(site, prologue, arguments)
        for src, dst in prologue.fences_after:
            emit_fence(self, src, dst)
        self.depth -= 1
