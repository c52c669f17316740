"""Addresses of on-chip buffers, as the adapter compiler gives them.

Planning off (the default): annotated buffers sit where `T.annotate_address` says; in UB all others
follow behind the highest annotated byte, hidden buffers included; in L1 and L0 the others start at
0 *regardless* of annotations.
The compiler does not check for overflow, so the check here is our own.

Planning on: live ranges with reuse (`linear_scan`); overflow stops the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import nbytes
from kernels_npu.sim.passes.allocation_order import allocation_order
from kernels_npu.sim.passes.buffer_sizes import align_up, physical_bytes
from kernels_npu.sim.passes.linear_scan import LinearScan
from kernels_npu.sim.passes.live_ranges import live_ranges
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.program_text import ProgramText
from kernels_npu.sim.passes.rewriting import operand_buffer, root_of, static_int
from kernels_npu.sim.soc import MEMORIES, MEMORY_OF_SCOPE, Soc


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Where everything is.

    placements: byte address of each buffer in its memory, hidden buffers and views included.
        Buffers that nothing touches have none.
    sizes: bytes reserved per allocation.
    used_bytes: per memory in use, the highest byte reserved.
    notes: overflow and overlaps.
    """

    placements: Mapping[ir.Buffer, int]
    sizes: Mapping[ir.Buffer, int]
    used_bytes: Mapping[str, int]
    notes: tuple[Note, ...] = ()


def plan_memory(
    func: ir.PrimFunc,
    text: ProgramText,
    soc: Soc,
    *,
    planning: bool,
    as_compiled: Mapping[ir.Buffer, ir.Buffer] | None = None,
) -> MemoryPlan:
    """Place the buffers that `text` touches.

    `as_compiled` holds buffers that the compiler makes smaller than the program means: they count
    with their compiled size, and are placed behind everything else so that they fit.


    `planning` is the value of `tl.ascend_memory_planning`. With it a memory that is too small is an
    exception, as in the compiler; without it the compiler checks nothing, and a note reports it.

    Raises:
        KernelSourceError: AI-MEM-002, AI-MEM-003 (planning), AI-MEM-012 (extents).
    """
    order = allocation_order(text.nodes)
    layouts = {root_of(buffer): layout for buffer, layout in func.layouts.items()}
    compiled = dict(as_compiled or {})
    sizes = {
        buffer: physical_bytes(compiled.get(buffer, buffer), layouts.get(buffer))
        for buffer in order
    }
    fixed = {root_of(buffer): address for buffer, address in func.addresses.items()}
    if planning:
        ranges = live_ranges(text.settled)
        addresses: dict[ir.Buffer, int] = {}
        for memory in MEMORIES:
            scan = LinearScan(
                memory=memory,
                limit=soc.capacity(memory),
                sizes=sizes,
                fixed={b: a for b, a in fixed.items() if b in sizes and _memory(b) == memory},
            )
            addresses |= scan.place([r for r in ranges if _memory(r.buffer) == memory])
    else:
        addresses = _linear(order, sizes, fixed)
    used = _used(addresses, sizes)
    top = align_up(used.get("UB", 0))
    for buffer in compiled.keys() & sizes.keys():
        addresses[buffer], sizes[buffer] = top, physical_bytes(buffer)
        top += sizes[buffer]
    notes = () if planning else tuple(_overflows(func, addresses, sizes, used, soc))
    return MemoryPlan(
        placements=_with_views(func, addresses), sizes=sizes, used_bytes=used, notes=notes
    )


def _memory(buffer: ir.Buffer) -> str:
    return MEMORY_OF_SCOPE[buffer.scope]


def _linear(
    order: list[ir.Buffer], sizes: Mapping[ir.Buffer, int], fixed: Mapping[ir.Buffer, int]
) -> dict[ir.Buffer, int]:
    """Addresses without reuse."""
    addresses = {buffer: fixed[buffer] for buffer in order if buffer in fixed}
    for memory in MEMORIES:
        here = [buffer for buffer in order if _memory(buffer) == memory]
        top = 0
        if memory == "UB":
            top = max((addresses[b] + sizes[b] for b in here if b in addresses), default=0)
        for buffer in here:
            if buffer not in addresses:
                addresses[buffer] = top
                top = align_up(top + sizes[buffer])
    return addresses


def _used(addresses: Mapping[ir.Buffer, int], sizes: Mapping[ir.Buffer, int]) -> dict[str, int]:
    used: dict[str, int] = {}
    for buffer, address in addresses.items():
        memory = _memory(buffer)
        used[memory] = max(used.get(memory, 0), address + sizes[buffer])
    return {memory: used[memory] for memory in MEMORIES if memory in used}


#: Bytes at the end of UB and L1 that the chip has and the compiler's planner leaves alone.
_RESERVED_BYTES = 256


def _overflows(
    func: ir.PrimFunc,
    addresses: Mapping[ir.Buffer, int],
    sizes: Mapping[ir.Buffer, int],
    used: Mapping[str, int],
    soc: Soc,
) -> list[Note]:
    notes = []
    declared = {root_of(buffer) for buffer in func.allocs}
    for memory, count in used.items():
        limit = soc.capacity(memory)
        if count <= limit:
            continue
        here = sorted((b for b in addresses if _memory(b) == memory), key=lambda b: addresses[b])
        listing = ", ".join(f"{b.name} {sizes[b]} at {addresses[b]}" for b in here)
        beyond = next(b for b in here if addresses[b] + sizes[b] > limit)
        hidden = sum(sizes[b] for b in here if root_of(b) not in declared)
        notes.append(
            Note(
                code="AI-MEM-001",
                severity=_overflow_severity(memory, count, hidden, limit),
                message=f"{memory} holds {count} bytes, {count - limit} more than "
                f"the {limit} usable on {soc.name}; "
                f"{beyond.name!r} is the first buffer beyond the end; "
                f"{hidden} bytes are hidden temporaries; bytes: {listing}",
                loc=_declared(beyond, func),
            )
        )
    return notes


def _overflow_severity(memory: str, count: int, hidden: int, limit: int) -> str:
    """An error when the declared buffers alone exceed what the chip has.

    The last 256 bytes of UB and L1 exist on the chip though the generated code does not reserve
    them, and hidden temporaries are reserved larger than the library uses;
    upstream examples run like that.
    """
    physical = limit + (_RESERVED_BYTES if memory in ("UB", "L1") else 0)
    return "error" if count - hidden > physical else "warning"


def _declared(buffer: ir.Buffer, func: ir.PrimFunc) -> SourceLocation:
    return buffer.loc or func.loc


# --------------------------------------------------------------------------- views


def _with_views(func: ir.PrimFunc, addresses: Mapping[ir.Buffer, int]) -> dict[ir.Buffer, int]:
    """Addresses extended by views of `T.view`, `T.reshape` and `T.reinterpretcast`."""
    placed = dict(addresses)
    for buffer, (source, offset) in _reinterpreted(func).items():
        address = placed.get(root_of(source))
        if address is not None:
            placed[root_of(buffer)] = address + _view_offset(source) + offset
    for view in _views(func):
        address = placed.get(root_of(view))
        if address is not None:
            placed[view] = address + _view_offset(view)
    return placed


def _view_offset(buffer: ir.Buffer) -> int:
    offset = 0
    while buffer.alias_of is not None:
        offset += buffer.alias_offset
        buffer = buffer.alias_of
    return offset


def _views(func: ir.PrimFunc) -> list[ir.Buffer]:
    found = [b for b in func.allocs if b.alias_of is not None]
    for stmt in ir.walk(func.body):
        if isinstance(stmt, ir.TileOp):
            found += [b for o in stmt.operands if (b := operand_buffer(o)) is not None]
        elif isinstance(stmt, ir.Store):
            found.append(stmt.buffer)
    chain: list[ir.Buffer] = []
    for view in found:
        current: ir.Buffer | None = view
        while current is not None:
            chain.append(current)
            current = current.alias_of
    return [b for b in dict.fromkeys(chain) if b.alias_of is not None]


def _reinterpreted(func: ir.PrimFunc) -> dict[ir.Buffer, tuple[ir.Buffer, int]]:
    """Destination of each `T.reinterpretcast` -> the source it stands for, and the byte offset."""
    found: dict[ir.Buffer, tuple[ir.Buffer, int]] = {}
    for stmt in ir.walk(func.body):
        if not isinstance(stmt, ir.TileOp) or stmt.op != "reinterpretcast":
            continue
        destination, source = (operand_buffer(operand) for operand in stmt.operands[:2])
        if destination is not None and source is not None:
            found[destination] = (source, _region_offset(stmt.operands[1]))
    return found


def _region_offset(operand: ir.Operand) -> int:
    """Bytes from the start of the buffer to a region with constant bounds."""
    if not isinstance(operand, ir.Region):
        return 0
    offset = 0
    for start, extent in zip(operand.mins, operand.buffer.shape):
        offset = offset * (static_int(extent) or 1) + (static_int(start) or 0)
    return nbytes(offset, operand.buffer.dtype)
