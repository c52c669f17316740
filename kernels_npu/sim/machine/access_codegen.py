"""The part of code generation that reaches memory: views, element accesses, checks and sites."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from kernels_npu.errors import SimulationError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.expressions import ExpressionWriter, loads_of, multiple_of, parts_of
from kernels_npu.sim.machine.instruction import Instruction, LoweringContext
from kernels_npu.sim.machine.operands import Rect, View, linear, shape_of
from kernels_npu.sim.machine.program import ViewConstant
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.machine.stretch_steps import IssueStep, Line, Step
from kernels_npu.sim.passes.rewriting import root_of
from kernels_npu.sim.scalar_ops import is_float

_ONE = ir.Const(1, "int32")


class AccessCodegen:
    """Program text under construction, with what its names must be bound to.

    tracked: parameter indices of tensors that the kernel writes. deferred: instructions are queued
    per pipe. auto_sync: the compiler orders the pipes of a core. traced: issues are reported to the
    core's timeline. precise: values of half precision are kept in float32 (`P`). merged: checks and
    flags with nothing in between are made in stretches.
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
        short: frozenset[int] = frozenset(),
        traced: bool = False,
        precise: bool = False,
        merged: bool = False,
    ) -> None:
        self.func = func
        self.core_kind = core_kind
        self.placements = placements
        self.context = context
        self.checks = checks
        self.deferred = deferred
        self.tracked = tracked
        self.short = short
        self.auto_sync = auto_sync
        self.traced = traced
        self.merged = merged
        self.lines: list[Line] = []
        #: the statement whose text is being written; before the first one, the kernel's own line
        self.current: ir.Stmt = ir.Break(loc=func.loc)
        self.depth = 1
        self.sites: list[Site] = []
        self.views: dict[str, ViewConstant] = {}
        self.factories: dict[str, Callable[[], object]] = {}
        self.values: dict[str, object] = {}
        self.writer = ExpressionWriter(self._load_text, precise=precise)
        self._tensor_index = {b.uid: i for i, b in enumerate(func.tensors)}
        #: views of tensors with another shape or dtype, by the buffer's id
        self.tensor_views: dict[int, ir.Buffer] = {}
        self._temporaries = 0
        #: element reads of the expression being written that always happen: check site, offset
        self.element_reads: list[tuple[int, str]] = []
        self._conditional = 0
        self.monitored = checks.races or checks.uninitialised
        #: (src, dst) of the flags within a core that the program sets
        self.flag_pairs = {(s.src, s.dst) for s in ir.walk(func.body) if isinstance(s, ir.SetFlag)}

    # ------------------------------------------------------------------ text

    def emit(self, text: str, step: Step | None = None, *, inert: bool = False) -> None:
        """Add a line. step, inert: see `Line`."""
        self.lines.append(Line("    " * self.depth + text, self.current, step, inert))

    def emit_issue(self, site: Site, moved: str = "0") -> None:
        """Count an execution of `site`, which moves `moved` bytes from or to global memory."""
        self.emit(f"n[{site.index}] += 1", IssueStep(site.index))
        if self.traced:
            self.emit(f"X.op({site.index}, {moved})")

    def temporary(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    def value(self, expr: ir.Expr) -> str:
        """Text of `expr`, after emitting the checks that its buffer reads need."""
        self._announce(expr)
        return self.writer.text(expr)

    def named(self, expr: ir.Expr) -> str:
        """Like `value`, evaluated once into a local name unless it is a literal."""
        if isinstance(expr, (ir.Const, ir.Var)):
            return self.writer.text(expr)
        name = self.temporary()
        self.emit(f"{name} = {self.value(expr)}", inert=True)
        return name

    def _announce(self, expr: ir.Expr) -> None:
        """Emit the checks of the reads in `expr`, under the conditions under which they happen."""
        if isinstance(expr, ir.Select):
            self._announce(expr.cond)
            cond = self.writer.text(expr.cond)
            self._announce_if(cond, expr.a)
            self._announce_if(f"not {cond}", expr.b)
            return
        if isinstance(expr, ir.Binary) and expr.op in ("and", "or"):
            self._announce(expr.a)
            first = self.writer.text(expr.a)
            self._announce_if(first if expr.op == "and" else f"not {first}", expr.b)
            return
        for part in parts_of(expr):
            self._announce(part)
        if isinstance(expr, ir.Load) and expr.buffer.scope != "var":
            if expr.buffer.scope == "global":
                self._announce_gm_load(expr)
            else:
                self.announce_scalar_access(expr.buffer, expr.indices, write=False)

    def _announce_if(self, condition: str, expr: ir.Expr) -> None:
        if not any(load.buffer.scope != "var" for load in loads_of(expr)):
            return
        self.emit(f"if {condition}:")
        before = len(self.lines)
        self.depth += 1
        self._conditional += 1
        self._announce(expr)
        self._conditional -= 1
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    # ------------------------------------------------------------------ tensors

    def tensor_of(self, buffer: ir.Buffer) -> int:
        """The parameter in whose bytes a global buffer lies."""
        return self._tensor_index[root_of(buffer).uid]

    def tensor_name(self, buffer: ir.Buffer, *, flat: bool = False) -> str:
        """The name of a global buffer's array, as declared or flat."""
        kind = "F" if flat else "G"
        if buffer.alias_of is None:
            return f"{kind}{self._tensor_index[buffer.uid]}"
        self.refuse_short(buffer, "is viewed with another shape or dtype")
        self.tensor_views[buffer.uid] = buffer
        return f"{kind}v{buffer.uid}"

    def refuse_short(self, buffer: ir.Buffer, use: str) -> None:
        """Refuse a use of a tensor whose accesses cannot be tested one by one.

        Raises:
            SimulationError: AI-BOUND-007 when the tensor has fewer bytes than declared.
        """
        if self.tensor_of(buffer) in self.short:
            raise SimulationError(
                "AI-BOUND-007",
                f"{buffer.name} has fewer bytes than its declared shape {list(buffer.shape)} and "
                f"{use}",
                where=self.current.loc,
                rule="a kernel addresses a tensor with its declared shape",
                fix="pass a tensor of the declared shape",
            )

    # ------------------------------------------------------------------ scalar access

    def _load_text(self, load: ir.Load) -> str:
        buffer = load.buffer
        if buffer.scope == "var":
            return f"s{buffer.uid}"
        convert = "float" if is_float(buffer.dtype) else "int"
        if buffer.scope == "global":
            offset = self.writer.address(load.indices, buffer.shape)
            flat = self.tensor_name(buffer, flat=True)
        else:
            offset = self.writer.address(load.indices, shape_of(buffer, self.func.loc))
            flat = self.flat_name(buffer)
        if self.keeps_precise(buffer):
            return f"P.item({flat}, {offset})"
        return f"{convert}({flat}[{offset}])"

    def keeps_precise(self, buffer: ir.Buffer) -> bool:
        """Whether precise mode has float32 values beside the elements of `buffer`."""
        return self.writer.kept(buffer.dtype) != buffer.dtype

    def emit_element_store(self, buffer: ir.Buffer, flat: str, offset: str, value: str) -> None:
        """Store one element of a buffer whose flat array is named `flat`."""
        if self.keeps_precise(buffer):
            self.emit(f"P.put({flat}, {offset}, {value})")
        else:
            self.emit(f"{flat}[{offset}] = {value}")

    def _announce_gm_load(self, load: ir.Load) -> None:
        index = self.tensor_of(load.buffer)
        self.emit_element_bounds(load.buffer, load.indices, "scalar load")
        if index in self.tracked and self.monitored:
            self.emit_gm_element_check(load.buffer, load.indices, write=False)

    def emit_element_bounds(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], what: str
    ) -> None:
        """The bounds test of one element of a global tensor."""
        tensor = self.tensor_of(buffer)
        tests = []
        if self.checks.bounds:
            for i, d in zip(indices, buffer.shape):
                size = ir.as_expr(d)
                if isinstance(size, ir.Const) and self.writer.within(i, 0, int(size.value) - 1):
                    continue
                tests.append(f"0 <= {self.writer.text(i)} < {self.writer.text(size)}")
        if tests:
            site = self.site(self.current, what, "S", ())
            where = ", ".join(self.writer.text(i) for i in indices)
            self.emit(f"if not ({' and '.join(tests)}):")
            self.emit(f"    R.out_of_bounds({site.index}, {tensor}, ({where},))")
        if tensor in self.short:
            site = self.site(self.current, what, "S", ())
            end = f"{self.writer.address(indices, buffer.shape)} + 1"
            self.emit(f"if {end} > F{tensor}.size: R.beyond_bytes({site.index}, {tensor}, {end})")

    def emit_gm_element_check(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], *, write: bool
    ) -> None:
        """The race check of one element of a global tensor."""
        rect = Rect(buffer, indices, None, _ONE, _ONE)
        footprint = Footprint(rect, write=write, tensor=self.tensor_of(buffer))
        name = "scalar store" if write else "scalar load"
        site = self.site(self.current, name, "S", (footprint,))
        self.emit(f"c{site.index}(({self.writer.address(indices, buffer.shape)}, 1, 1, 0))")

    def announce_scalar_access(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], *, write: bool, written: str = ""
    ) -> str:
        """Checks of one element access by the scalar unit; returns the element offset's text.

        written: for a store, the text that tells whether the value is made of written elements.
        """
        shape = shape_of(buffer, self.func.loc)
        offset = linear(shape, indices)
        view = View(buffer, offset, 1, 1, 1, flat=True)
        footprint = Footprint(view, write=write, address=self.placements[buffer])
        site = self.site(
            self.current,
            "scalar store" if write else "scalar load",
            "S",
            (footprint,),
            element=True,
        )
        if self.deferred:
            # The device compiler orders the scalar unit after the vector pipe.
            self.emit("if Q_V: yield ('drain', VECTOR_PIPES)")
        if self.traced:
            self.emit("X.scalar_access()")
        text = self.writer.address(indices, shape)
        if not isinstance(offset, (ir.Const, ir.Var)):
            name = self.temporary()
            self.emit(f"{name} = {text}")
            text = name
        if not write and not self._conditional:
            self.element_reads.append((site.index, text))
        checked = self.checks.bounds and not self._inside(indices, shape)
        recorded = self.checks.races and not self.auto_sync
        recorded = recorded or (self.checks.uninitialised and write)
        if not (checked or recorded):
            return text
        if checked:
            self.emit_run_bounds(site, view, text)
        if recorded:
            known = f", {written}" if written else ""
            self.emit(f"c{site.index}({text}{known})")
        return text

    def _inside(self, indices: tuple[ir.Expr, ...], shape: tuple[int, ...]) -> bool:
        return all(self.writer.within(i, 0, size - 1) for i, size in zip(indices, shape))

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
            self.views[name] = ViewConstant("view", view, self.placements.get(view.buffer, 0))
            return name
        flat = self.flat_name(view.buffer)
        if view.open:
            return f"{flat}[{offset}:]"
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
        *,
        element: bool = False,
        parallel: bool = False,
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
            clips=instruction.clips if instruction else False,
            element=element,
            parallel=parallel,
        )
        self.sites.append(site)
        return site

    def footprint(self, view: View | Rect, write: bool) -> Footprint | None:
        """The checked range of a view or rectangle; None for a tensor that is never written."""
        if isinstance(view, View):
            return Footprint(view, write=write, address=self.placements.get(view.buffer, 0))
        index = self.tensor_of(view.buffer)
        return Footprint(view, write=write, tensor=index) if index in self.tracked else None

    def size_of(self, buffer: ir.Buffer) -> int:
        """Elements of an on-chip buffer."""
        return math.prod(shape_of(buffer, self.func.loc))

    def emit_run_bounds(self, site: Site, view: View, offset: str) -> None:
        """Out-of-bounds test of an on-chip view whose offset is known only at run time."""
        if view.overruns:
            return
        limit = self.size_of(view.buffer)
        # Where an open view ends is tested with the rows that move; it may be behind the last one.
        last = limit - (0 if view.open else (view.rows - 1) * view.pitch + view.cols)
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
        if self.writer.within(view.offset, 0, last):
            return
        self.emit(f"if not 0 <= {offset} <= {last}:")
        self.emit(f"    R.out_of_buffer({site.index}, {view.buffer.uid}, {offset}, {last})")

    def emit_alignment(self, site: Site, view: View, offset: str) -> None:
        """Test that a vector or copy operand and its rows start on 32-byte boundaries of UB."""
        if view.memory != "UB" or site.pipe == "S" or view.part:
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
