"""What a slice says about its site, and which memory ranges automatic synchronisation orders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.operands import Rect, View
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.soc import MEMORY_OF_SCOPE


@dataclass(frozen=True)
class SliceText:
    """JSON texts of a site's slices: the name, the arguments without bytes, and with them."""

    name: str
    args: str
    args_on_chip: str


def slice_text(site: Site) -> SliceText:
    """Name and arguments of the slices of `site`."""
    stmt = site.stmt
    args: dict[str, Any] = {"source": str(stmt.loc)}
    if isinstance(stmt, (ir.SetFlag, ir.WaitFlag)):
        args["pipes"] = f"{stmt.src}->{stmt.dst}"
        name = f"{site.op} {stmt.src}->{stmt.dst}"
    elif isinstance(stmt, ir.SetCrossFlag):
        args["mode"] = stmt.mode
        name = site.op
    else:
        name = site.op
    views = list(_views(site))
    sizes = [v.count for v, _ in views if isinstance(v, View)]
    if views:
        args["operands"] = ", ".join(
            f"{'writes' if write else 'reads'} {_describe(v)}" for v, write in views
        )
    if site.instruction is not None:
        args["cycles"] = site.cycles
    if sizes:
        args["elements"] = max(sizes)
    text = json.dumps(args)[1:-1]
    nbytes = [v.count * v.itemsize for v, _ in views if isinstance(v, View)]
    full = f'{text}, "bytes": {max(nbytes)}' if nbytes else text
    return SliceText(json.dumps(name), text, full)


def _views(site: Site) -> Iterator[tuple[View | Rect, bool]]:
    """Operands and whether they are written."""
    instruction = site.instruction
    if instruction is None or not (instruction.reads or instruction.writes):
        yield from ((f.view, f.write) for f in site.footprints)
        return
    yield from ((v, True) for v in instruction.writes)
    yield from ((v, False) for v in instruction.reads)


def _describe(view: View | Rect) -> str:
    buffer = view.buffer
    if isinstance(view, Rect):
        return f"{buffer.name} {buffer.dtype} in GM"
    size = f"{view.cols}" if view.rows == 1 else f"{view.rows}x{view.cols}"
    return f"{buffer.name}[{size}] {buffer.dtype} in {view.memory}"


#: Per range that a site touches: the keys of the buffers that overlap its own, whether it writes,
#: and its own buffer's key.
Ranges = tuple[tuple[tuple[int, ...], bool, int], ...]


def touched_ranges(sites: Sequence[Site]) -> list[Ranges]:
    """Per site, what automatic synchronisation orders it by: whole buffers, as the compiler does.

    Tensors count when the kernel writes them.
    """
    extents: dict[int, tuple[str, int, int]] = {}
    for site in sites:
        for footprint in site.footprints:
            buffer = footprint.view.buffer
            if footprint.tensor >= 0:
                extents[buffer.uid] = (f"GM {footprint.tensor}", 0, 1)
            else:
                size = bytes_of(buffer.dtype)
                for dim in buffer.shape:
                    size *= int(ir.as_expr(dim).value)  # type: ignore[attr-defined]
                memory = MEMORY_OF_SCOPE[buffer.scope]
                extents[buffer.uid] = (memory, footprint.address, footprint.address + size)
    overlapping = {
        uid: tuple(
            other
            for other, (place, first, last) in extents.items()
            if place == memory and first < stop and start < last
        )
        for uid, (memory, start, stop) in extents.items()
    }
    return [
        tuple((overlapping[f.view.buffer.uid], f.write, f.view.buffer.uid) for f in site.footprints)
        for site in sites
    ]
