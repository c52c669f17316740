"""Code generation of `T.Parallel`; mixed into the core code generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import Instruction
from kernels_npu.sim.machine.operands import View, shape_of
from kernels_npu.sim.machine.parallel import (
    VECTOR_SERVICES,
    MaskedStore,
    VectorWriter,
    as_serial,
    vectorisable,
)

if TYPE_CHECKING:
    from kernels_npu.sim.machine.codegen import CoreCodegen


def emit_parallel(generator: CoreCodegen, loop: ir.Parallel) -> None:
    """Emit `loop` as one NumPy assignment per statement, or as serial loops."""
    stores = vectorisable(loop)
    if stores is None:
        generator.body(as_serial(loop))
        return
    generator.values.update(VECTOR_SERVICES)
    grids: dict[int, str] = {}
    rank = len(loop.vars)
    for axis, (var, extent) in enumerate(zip(loop.vars, loop.extents)):
        shape = [1] * rank
        shape[axis] = extent
        name = f"x{var.uid}"
        generator.values[name] = np.arange(extent).reshape(shape)
        grids[var.uid] = name
    for item in stores:
        _emit_store(generator, loop, item, grids)


def _emit_store(
    generator: CoreCodegen, loop: ir.Parallel, item: MaskedStore, grids: Mapping[int, str]
) -> None:
    captured: dict[str, None] = {}
    accessed: dict[int, ir.Buffer] = {}

    def array_of(buffer: ir.Buffer) -> str:
        if buffer.scope == "global":
            name = f"G{generator.tensor_index[buffer.uid]}"
            captured[name] = None
            return name
        accessed[buffer.uid] = buffer
        return _shaped(generator, buffer)

    def load(expr: ir.Load) -> str:
        if expr.buffer.scope == "var":
            name = f"s{expr.buffer.uid}"
            captured[name] = None
            return name
        index = ", ".join(writer.text(i) for i in expr.indices)
        return f"{array_of(expr.buffer)}[{index}]"

    writer = VectorWriter(load)
    writer.adopt(generator.writer, captured)
    for uid, name in grids.items():
        writer.bind_id(uid, name)
    store = item.store
    value = writer.text(store.value)
    index = "".join(f"{writer.text(i)}, " for i in store.indices)
    mask = " & ".join(f"p_cast({writer.text(c)}, 'bool')" for c in item.conditions) or "None"
    target = array_of(store.buffer)
    reads = tuple(_whole(b) for b in accessed.values())
    writes = (_whole(store.buffer),) if store.buffer.scope != "global" else ()
    instruction = Instruction(
        op="parallel",
        pipe="V",
        kernel=_nothing,
        args=(),
        reads=reads,
        writes=writes,
        cycles=cost.vector(int(np.prod(loop.extents)) * 4),
    )
    footprints = tuple(
        f
        for view, write in [*((r, False) for r in reads), *((w, True) for w in writes)]
        if (f := generator.footprint(view, write)) is not None
    )
    site = generator.site(store, "parallel", "V", footprints, instruction)
    if generator.monitored and footprints:
        generator.emit(f"c{site.index}()")
    generator.emit(f"n[{site.index}] += 1")
    names = ", ".join(captured)
    generator.emit(f"def p{site.index}({names}):")
    generator.emit(f"    p_scatter({target}, ({index}), {value}, {mask})")
    if generator.deferred:
        generator.emit(f"Q_V.append(('op', p{site.index}, ({names}{',' if captured else ''})))")
    else:
        generator.emit(f"p{site.index}({names})")


def _nothing() -> None:
    """The assignment is generated inline."""


def _whole(buffer: ir.Buffer) -> View:
    count = 1
    for size in shape_of(buffer, buffer.loc):  # type: ignore[arg-type]
        count *= size
    return View(buffer, ir.Const(0, "int32"), 1, count, count, flat=True)


def _shaped(generator: CoreCodegen, buffer: ir.Buffer) -> str:
    """The name of the buffer's memory with the buffer's shape."""
    shape = shape_of(buffer, generator.func.loc)
    view = _whole(buffer)
    flat = generator.view_text(view, "0")
    return f"{flat}.reshape({shape!r})"
