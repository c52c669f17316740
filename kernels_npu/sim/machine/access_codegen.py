"""The part of code generation that reaches memory: views, element accesses, their checks and sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.expressions import ExpressionWriter, loads_of, multiple_of
from kernels_npu.sim.machine.instruction import Instruction, LoweringContext
from kernels_npu.sim.machine.operands import Rect, View, gm_linear, linear, shape_of
from kernels_npu.sim.machine.program import ViewConstant
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.scalar_ops import is_float


class AccessCodegen:
    """Program text under construction, with what its names must be bound to.

    tracked: parameter indices of tensors that the kernel writes. deferred: instructions are queued per
    pipe. auto_sync: the compiler orders the pipes of a core.
    """

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
        self.current: ir.Stmt
        self._temporaries = 0
        self.monitored = checks.races or checks.uninitialised

    # ------------------------------------------------------------------ text

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def temporary(self) -> str:
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
        name = self.temporary()
        self.emit(f"{name} = {self.value(expr)}")
        return name

    def _announce_loads(self, expr: ir.Expr) -> None:
        for load in loads_of(expr):
            if load.buffer.scope == "var":
                continue
            if load.buffer.scope == "global":
                self._announce_gm_load(load)
            else:
                self.announce_scalar_access(load.buffer, load.indices, expr, write=False)

    # ------------------------------------------------------------------ scalar access

    def _load_text(self, load: ir.Load) -> str:
        buffer = load.buffer
        if buffer.scope == "var":
            return f"s{buffer.uid}"
        convert = "float" if is_float(buffer.dtype) else "int"
        if buffer.scope == "global":
            offset = self.writer.text(gm_linear(buffer, load.indices))
            return f"{convert}(F{self.tensor_index[buffer.uid]}[{offset}])"
        shape = shape_of(buffer, self.func.loc)
        offset = self.writer.text(linear(shape, load.indices))
        return f"{convert}({self.flat_name(buffer)}[{offset}])"

    def _announce_gm_load(self, load: ir.Load) -> None:
        index = self.tensor_index[load.buffer.uid]
        stmt = self.current
        if self.checks.bounds:
            site = self.site(stmt, "scalar load", "S", ())
            tests = [
                f"0 <= {self.writer.text(i)} < {self.writer.text(ir.as_expr(d))}"
                for i, d in zip(load.indices, load.buffer.shape)
            ]
            where = ", ".join(self.writer.text(i) for i in load.indices)
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {index}, ({where},))")
        if index in self.tracked and self.monitored:
            rect = Rect(load.buffer, load.indices, None, ir.Const(1, "int32"), ir.Const(1, "int32"))
            footprint = Footprint(rect, write=False, tensor=index)
            site = self.site(stmt, "scalar load", "S", (footprint,))
            offset = self.writer.text(gm_linear(load.buffer, load.indices))
            self.emit(f"c{site.index}(({offset}, 1, 1, 0),)")

    def announce_scalar_access(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], origin: ir.Expr, *, write: bool
    ) -> str:
        """Checks of one element access by the scalar unit; returns the element offset's text."""
        offset = linear(shape_of(buffer, self.func.loc), indices)
        view = View(buffer, offset, 1, 1, 1, flat=True)
        footprint = Footprint(view, write=write, address=self.placements[buffer])
        site = self.site(
            self.current, "scalar store" if write else "scalar load", "S", (footprint,)
        )
        text = self.writer.text(offset)
        if self.deferred:
            # The device compiler orders the scalar unit after the vector pipe.
            self.emit("yield ('drain', VECTOR_PIPES)")
        if self.checks.bounds:
            self.emit_run_bounds(site, view, text)
        if self.monitored:
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

    def view_text(self, view: View, offset: str) -> str:
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

    def site(
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

    def footprint(self, view: View | Rect, write: bool) -> Footprint | None:
        if isinstance(view, View):
            return Footprint(view, write=write, address=self.placements[view.buffer])
        index = self.tensor_index[view.buffer.uid]
        return Footprint(view, write=write, tensor=index) if index in self.tracked else None

    def emit_run_bounds(self, site: Site, view: View, offset: str) -> None:
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

    def emit_alignment(self, site: Site, view: View, offset: str) -> None:
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
        elif not multiple_of(view.offset, 32 // view.itemsize):
            self.emit(f"if {offset} * {view.itemsize} % 32:")
            self.emit(f"    R.misaligned({site.index}, {view.buffer.uid}, {offset})")

    # ------------------------------------------------------------------ instructions

    # ------------------------------------------------------------------ global rectangles

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
            dim = rect.row_dim
            if dim is not None and rows == "1" and tests[dim] == f"0 <= {mins[dim]}":
                self.emit(f"elif {mins[dim]} >= {shape[dim]}:")
                self.emit(f"    R.beyond_border({site.index}, {index}, ({', '.join(mins)},))")
        parts = list(mins)
        parts[last] = f"{mins[last]}:{mins[last]} + {cols}"
        name = self.temporary()
        if rect.row_dim is None:
            self.emit(f"{name} = G{index}[None, {parts[last]}]")
        else:
            row = mins[rect.row_dim]
            parts[rect.row_dim] = f"{row}:{row} + {rows}"
            self.emit(f"{name} = G{index}[{', '.join(parts)}]")
        if index not in self.tracked or not self.monitored:
            return name, ""
        position = self.writer.text(gm_linear(rect.buffer, rect.mins))
        itemsize = f"{name}.itemsize"
        range_text = (
            f"({position}, {name}.shape[0], {name}.shape[1], {name}.strides[0] // {itemsize})"
        )
        return name, range_text
