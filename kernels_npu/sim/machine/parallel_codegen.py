"""Code generation of `T.Parallel`: index arrays, checks, one NumPy assignment per statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of, numpy_dtype
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.expressions import parts_of
from kernels_npu.sim.machine.instruction import AnyArray, Instruction
from kernels_npu.sim.machine.operands import Rect, View, linear, shape_of
from kernels_npu.sim.machine.ops.convert import Converter, converter
from kernels_npu.sim.machine.parallel import (
    Box,
    MaskedStore,
    ParallelPlan,
    as_serial,
    at_origin,
    box_of,
    plan_parallel,
    slices_of,
)
from kernels_npu.sim.machine.parallel_runtime import SERVICES
from kernels_npu.sim.machine.parallel_writer import VectorWriter
from kernels_npu.sim.machine.sites import Footprint, Site
from kernels_npu.sim.scalar_ops import is_comparison

if TYPE_CHECKING:
    from kernels_npu.sim.machine.codegen import CoreCodegen


def emit_parallel(generator: CoreCodegen, loop: ir.Parallel) -> None:
    """Emit `loop` as one NumPy assignment per statement, or as serial loops."""
    plan = plan_parallel(loop)
    if plan is None:
        generator.body(as_serial(loop))
        return
    generator.values.update(SERVICES)
    grids: dict[int, str] = {}
    for axis, (var, extent) in enumerate(zip(loop.vars, loop.extents)):
        shape = [1] * len(loop.vars)
        shape[axis] = extent
        name = f"x{var.uid}"
        generator.values[name] = np.arange(extent).reshape(shape)
        grids[var.uid] = name
    if not plan.vector and generator.deferred:
        generator.emit("if Q_V: yield ('drain', VECTOR_PIPES)")
    for item in plan.stores:
        generator.current = item.store
        _Assignment(generator, loop, plan, item, grids).emit()


@dataclass(frozen=True)
class _Access:
    """One read or write: the name of its index, its box from the origin, where it lies."""

    buffer: ir.Buffer
    write: bool
    index: str
    box: Box | None
    start: str
    elements: int | None


class _Assignment:
    """Emits one statement of a loop."""

    def __init__(
        self,
        generator: CoreCodegen,
        loop: ir.Parallel,
        plan: ParallelPlan,
        item: MaskedStore,
        grids: dict[int, str],
    ) -> None:
        self.generator = generator
        self.loop = loop
        self.vector = plan.vector
        self.item = item
        self.accesses: list[_Access] = []
        self.constants: dict[str, object] = {}
        self.writer = VectorWriter(
            self._load, generator.writer, grids, generator.values, self._bind, vector=plan.vector
        )
        for var, extent in zip(loop.vars, loop.extents):
            self.writer.bind(var, grids[var.uid], (0, extent - 1))
        self.site: Site

    # ------------------------------------------------------------------ accesses

    def _bind(self, text: str) -> str:
        name = self.generator.temporary()
        self.generator.emit(f"{name} = {text}")
        self.writer.captured[name] = None
        return name

    def _array(self, buffer: ir.Buffer) -> str:
        if buffer.scope == "global":
            self.generator.refuse_short(buffer, "is used in T.Parallel")
            return self.generator.tensor_name(buffer)
        shape = shape_of(buffer, self.generator.func.loc)
        count = int(np.prod(shape, dtype=np.int64))
        view = View(buffer, ir.Const(0, "int32"), 1, count, count, flat=True)
        return f"{self.generator.view_text(view, '0')}.reshape({shape!r})"

    def _load(self, load: ir.Load, guard: str | None) -> str:
        buffer = load.buffer
        if buffer.scope == "var":
            name = f"s{buffer.uid}"
            self.writer.captured[name] = None
            return name
        index = self._place(buffer, load.indices, guard, write=False)
        array = self._array(buffer)
        if self.generator.keeps_precise(buffer):
            array = f"P.load({array})"
        return f"{array}[{index}]"

    def _place(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], guard: str | None, *, write: bool
    ) -> str:
        """Emit the index of an access and its bounds check; the index' name."""
        shape = tuple(ir.as_expr(d) for d in buffer.shape)
        inside = guard is None and all(
            isinstance(d, ir.Const) and self.writer.within(i, 0, int(d.value) - 1)
            for i, d in zip(indices, shape)
        )
        unchecked = not inside and not self.generator.checks.bounds
        slices = None if guard is not None or unchecked else slices_of(indices, self.loop)
        if write and slices is not None and len(set(slices) - {None}) < len(self.loop.vars):
            slices = None  # several iterations meet in an element; the last one wins
        sizes = ", ".join(self.generator.writer.text(d) for d in shape)
        sizes = f"({sizes},)"
        report = "None" if inside else self._reporter(buffer)
        box, elements = None, None
        start = ""
        if slices is not None:
            loop_vars = {var.uid for var in self.loop.vars}
            origins = [self.generator.value(at_origin(i, loop_vars)) for i in indices]
            extents = [1 if s is None else self.loop.extents[s] for s in slices]
            if not inside:
                for origin, extent, size in zip(origins, extents, shape):
                    limit = self.generator.writer.text(size)
                    self.generator.emit(f"if not 0 <= {origin} <= {limit} - {extent}:")
                    self.generator.emit(f"    {report}(({', '.join(origins)},))")
            parts = [
                o if s is None else f"slice({o}, {o} + {e})"
                for o, s, e in zip(origins, slices, extents)
            ]
            present = [s for s in slices if s is not None]
            # A variable that the access does not use still has its axis, except in front.
            parts += ["None"] * (
                len(self.loop.vars) - 1 - max(present, default=len(self.loop.vars))
            )
            name = self._bind(f"({', '.join(parts)},)")
            elements = int(np.prod(extents))
        else:
            text = "".join(f"{self.writer.index(i)}, " for i in indices)
            if inside:
                name = self._bind(f"({text})")
            else:
                name = self._bind(f"p_place(({text}), {sizes}, {guard}, {report})")
        if guard is None:
            box = box_of(indices, buffer.shape, self.loop)
        if box is not None:
            loop_vars = {var.uid for var in self.loop.vars}
            start = self.generator.writer.address(
                tuple(at_origin(i, loop_vars) for i in indices), buffer.shape
            )
        self.accesses.append(_Access(buffer, write, name, box, start, elements))
        return name

    def _reporter(self, buffer: ir.Buffer) -> str:
        """The function that reports an index outside `buffer`; None if bounds are unchecked."""
        if not self.generator.checks.bounds:
            return "None"
        site = self.generator.site(self.item.store, "parallel", self._pipe(), ())
        if buffer.scope == "global":
            return f"R.outside_tensor({site.index}, {self.generator.tensor_of(buffer)})"
        self.generator.values[f"m{site.index}"] = (buffer.name, shape_of(buffer, buffer.loc))  # type: ignore[arg-type]
        return f"R.outside_buffer({site.index}, m{site.index})"

    # ------------------------------------------------------------------ the statement

    def _pipe(self) -> str:
        """The pipe that executes the statement."""
        if not self.vector:
            return "S"
        store = self.item.store
        moved = store.value.a if isinstance(store.value, ir.Cast) else store.value
        if isinstance(moved, ir.Load):
            if store.buffer.scope == "global":
                return "FIX" if moved.buffer.scope == "l0c" else "MTE3"
            if moved.buffer.scope == "global":
                return "MTE2"
        return "V"

    def emit(self) -> None:
        generator, store = self.generator, self.item.store
        mask = "None"
        for condition in self.item.conditions:
            mask = self._bind(f"p_both({mask}, {self.writer.text(condition)})")
            self.writer.guard = mask
        value = self._value(store)
        index = self._place(store.buffer, store.indices, self.writer.guard, write=True)
        target = self._array(store.buffer)
        pipe = self._pipe()
        footprints = tuple(f for a in self.accesses if (f := self._footprint(a)) is not None)
        site = generator.site(
            store, "parallel", pipe, footprints, self._instruction(pipe), parallel=True
        )
        tracked = [a for a in self.accesses if self._footprint(a) is not None]
        if generator.monitored and tracked:
            spans = "".join(f"{self._span(a)}, " for a in tracked)
            names = "".join(f"{a.index}, " for a in tracked)
            generator.emit(f"c{site.index}(({spans}), ({names}), {mask})")
        moved = [self._count_bytes(a, pipe) for a in self.accesses if a.buffer.scope == "global"]
        generator.emit_issue(site, " + ".join(moved) or "0")
        function = "P.scatter" if generator.keeps_precise(store.buffer) else "p_scatter"
        call = f"{function}({target}, {index}, {value}, {mask})"
        if not generator.deferred or not self.vector:
            generator.emit(call)
            return
        captured = ", ".join(f"{n}={n}" for n in self.writer.captured)
        generator.emit(f"def p{site.index}({captured}):")
        generator.emit(f"    {call}")
        generator.emit(f"Q_{pipe}.append(('op', p{site.index}, (), {site.index}))")

    def _value(self, store: ir.Store) -> str:
        value = store.value
        if self.vector and isinstance(value, ir.Cast) and isinstance(value.a, ir.Load):
            # A conversion within UB or by fixpipe, which rounds to nearest.
            name = f"x{len(self.generator.values)}_convert"
            convert = converter(store.buffer.dtype, value.a.dtype, "CAST_RINT")
            kept = self.generator.writer.kept(store.buffer.dtype)
            self.generator.values[name] = _converting(convert, kept)
            return f"{name}({self.writer.text(value.a)})"
        return self.writer.text(value)

    def _span(self, access: _Access) -> str:
        box, buffer = access.box, access.buffer
        if box is not None:
            return f"(True, ({access.start}, {box.rows}, {box.cols}, {box.pitch}))"
        if buffer.scope == "global":
            return f"(False, {self._array(buffer)}.shape)"
        return f"(False, {shape_of(buffer, self.generator.func.loc)!r})"

    def _footprint(self, access: _Access) -> Footprint | None:
        buffer = access.buffer
        if buffer.scope == "global":
            zero = ir.Const(0, "int32")
            rect = Rect(buffer, (zero,) * len(buffer.shape), None, zero, zero)
            return self.generator.footprint(rect, access.write)
        count = int(np.prod(shape_of(buffer, self.generator.func.loc), dtype=np.int64))
        view = View(buffer, linear((1,), (ir.Const(0, "int32"),)), 1, count, count, flat=True)
        return self.generator.footprint(view, access.write)

    def _instruction(self, pipe: str) -> Instruction:
        elements = int(np.prod(self.loop.extents, dtype=np.int64))
        value = self.item.store.value
        operations = _operations(value) if pipe == "V" else 0
        each = cost.lanes(elements, bytes_of(value.dtype))
        return Instruction(
            op="parallel",
            pipe=pipe,
            kernel=_nothing,
            args=(),
            cycles=cost.vector(elements * 4),
            arithmetic=cost.Arithmetic(value.dtype, operations * each) if operations else None,
        )

    def _count_bytes(self, access: _Access, pipe: str) -> str:
        """Count the bytes of an access to global memory; the text of their number."""
        buffer = access.buffer
        zero = ir.Const(0, "int32")
        rect = (Rect(buffer, (zero,) * len(buffer.shape), None, zero, zero),)
        near = "L0C" if pipe == "FIX" else "UB"
        instruction = Instruction(
            op="parallel",
            pipe=pipe,
            kernel=_nothing,
            args=(),
            reads=() if access.write else rect,
            writes=rect if access.write else (),
            gm_path=f"{near}->GM" if access.write else f"GM->{near}",
        )
        site = self.generator.site(self.item.store, "parallel", pipe, (), instruction)
        size = bytes_of(buffer.dtype)
        count = access.elements
        text = f"p_elements({access.index})" if count is None else str(count)
        self.generator.emit(f"b[{site.index}] += {text} * {size}")
        return f"{text} * {size}"


def _operations(value: ir.Expr) -> int:
    """Operations per element of the value, without those of its indices and its comparisons."""
    if isinstance(value, ir.Load):
        return 0
    compares = isinstance(value, ir.Binary) and is_comparison(value.op)
    computes = isinstance(value, (ir.Binary, ir.Unary)) and not compares
    return computes + sum(map(_operations, parts_of(value)))


def _nothing() -> None:
    """The assignment is generated inline."""


def _converting(convert: Converter, dtype: str) -> Callable[[AnyArray], AnyArray]:
    def apply(source: AnyArray) -> AnyArray:
        array = np.asarray(source)
        out = np.empty(array.shape, numpy_dtype(dtype))
        convert(array, out)
        return out

    return apply
