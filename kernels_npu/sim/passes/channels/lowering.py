"""Copies between the core types of a block: L0C -> UB and UB -> L1.

There is no direct path. The compiler adds a tensor parameter `workspace_<k>` per copy, one slot per
block, turns the copy into a store to the slot, and loads the destination from it right before
the first statement that reads it (`placement`).
"""

from __future__ import annotations

import dataclasses

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.channels.placement import Channel, check_pairs, find_channels, place
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.rewriting import operand_buffer, static_int, with_children
from kernels_npu.sim.passes.vector_split.analysis import CORES
from kernels_npu.sim.passes.vector_split.reduction import ReducedKernel


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectedKernel:
    """A kernel without direct copies between core types.

    func: has the workspaces at the end of its parameters. origins: as of the reduced kernel.
    """

    func: ir.PrimFunc
    workspaces: tuple[ir.Buffer, ...] = ()
    notes: tuple[Note, ...] = ()


def lower_virtual_channels(reduced: ReducedKernel, *, paired: bool = False) -> ConnectedKernel:
    """Replace the copies of `reduced.func` between core types by stores and loads.

    `paired`: automatic cross-core flags will pair the stores with the loads.

    Raises:
        KernelSourceError: AI-MEM-020 for a tile with less than two dimensions,
            AI-MEM-021 when a parameter has the name of an automatic workspace,
            AI-MEM-023 for a piece of a tile whose place is unknown where the tile is read,
            AI-SYNC-021 with `paired` when the compiler's stores and loads do not pair up.
    """
    func = reduced.func
    channels = find_channels(func.body)
    if not channels:
        return ConnectedKernel(func=func)
    placement = place(func.body, channels)
    if paired:
        check_pairs(placement)
    for channel, hidden in zip(channels, placement.hidden):
        if hidden is not None and not reduced.gathers(channel.source):
            raise KernelSourceError(
                "AI-MEM-023",
                f"{channel.destination.name!r} is filled piece by piece in the loop over "
                f"{hidden.name!r} and read after it",
                where=channel.stmt.loc,
                rule="the compiler loads the piece where the destination is first read; the "
                f"generated code would use {hidden.name!r} outside its loop",
                fix="copy the whole tile after the loop, or write a workspace parameter by hand",
            )
    lowering = _Lowering(reduced, channels, placement.readers)
    taken = {param.name: param for param in func.params}
    for channel, workspace in zip(channels, lowering.workspaces):
        if workspace.name in taken:
            raise KernelSourceError(
                "AI-MEM-021",
                f"this copy needs an automatic workspace named {workspace.name!r}, "
                "which is also a parameter of the kernel",
                where=channel.stmt.loc,
                rule="the compiler numbers automatic workspaces workspace_1, workspace_2, ...; "
                "the generated code would define the name twice",
                fix=f"rename the parameter {workspace.name!r}",
            )
    body = lowering.visit(func.body)
    return ConnectedKernel(
        func=dataclasses.replace(func, params=(*func.params, *lowering.workspaces), body=body),
        workspaces=lowering.workspaces,
        notes=(*placement.notes, *lowering.notes),
    )


class _Lowering:
    def __init__(
        self,
        reduced: ReducedKernel,
        channels: tuple[Channel, ...],
        readers: tuple[ir.Stmt | None, ...],
    ) -> None:
        self.cid, self.vid = reduced.func.cid, reduced.func.vid
        self.reduced = reduced
        self.grid = reduced.func.grid
        self.workspaces = tuple(
            self._workspace(channel, number) for number, channel in enumerate(channels, 1)
        )
        self.notes: list[Note] = []
        self._stores: dict[int, ir.Stmt] = {}
        self._loads: dict[int, list[ir.Stmt]] = {}
        for channel, workspace, reader in zip(channels, self.workspaces, readers):
            self._stores[id(channel.stmt)] = self._store(channel, workspace)
            if reader is not None:
                self._loads.setdefault(id(reader), []).append(self._load(channel, workspace))

    def visit(self, body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        """`body` with stores in the place of the copies, and loads before their readers."""
        out: list[ir.Stmt] = []
        for stmt in body:
            out += self._loads.get(id(stmt), ())
            out.append(self._stores.get(id(stmt)) or with_children(stmt, self.visit))
        return tuple(out)

    # ------------------------------------------------------------------ workspaces

    def _workspace(self, channel: Channel, number: int) -> ir.Buffer:
        shape = self._slot_shape(channel)
        return ir.Buffer(
            f"workspace_{number}",
            "global",
            (self.grid, *shape),
            channel.destination.dtype,
            channel.stmt.loc,
        )

    def _slot_shape(self, channel: Channel) -> tuple[int, int]:
        """Rows and columns of one block's slot."""
        source, destination = channel.source, channel.destination
        if self.reduced.gathers(source):
            return _matrix(destination, channel)
        rows, cols = _matrix(source, channel)
        return (rows * CORES if self._is_split(source) else rows), cols

    def _is_split(self, buffer: ir.Buffer) -> bool:
        is_split = self.reduced.split is not None and buffer.scope == "ub"
        return is_split and not self.reduced.gathers(buffer)

    # ------------------------------------------------------------------ the two halves of a copy

    def _store(self, channel: Channel, workspace: ir.Buffer) -> ir.TileOp:
        source, target = channel.stmt.operands[:2]
        if self.reduced.gathers(channel.source):
            # the rows of the destination that this copy fills
            region = self._slot(workspace, _start(target)[-2:], _rectangle(target, source))
        else:
            rows, cols = _rectangle(source, target)
            self._expect(channel, (rows, cols), _matrix(channel.source, channel))
            first = self.vid * rows if self._is_split(channel.source) else ir.as_expr(0)
            region = self._slot(workspace, (first, ir.as_expr(0)), (rows, cols))
        return dataclasses.replace(channel.stmt, operands=(source, region))

    def _load(self, channel: Channel, workspace: ir.Buffer) -> ir.TileOp:
        source, target = channel.stmt.operands[:2]
        slot_rows, slot_cols = (static_int(extent) or 1 for extent in workspace.shape[1:])
        first = ir.as_expr(0)
        if self.reduced.gathers(channel.source):
            target, rows, cols = channel.destination, slot_rows, slot_cols
        elif self._is_split(channel.destination):
            whole = (slot_rows // CORES, slot_cols)
            rows, cols = whole if isinstance(target, ir.Load) else _rectangle(target, source)
            self._expect(channel, (rows, cols), whole)
            first = self.vid * rows
        else:
            whole = (slot_rows, slot_cols)
            rows, cols = whole if isinstance(target, ir.Load) else _rectangle(target, source)
            self._expect(channel, (rows, cols), whole)
        region = self._slot(workspace, (first, ir.as_expr(0)), (rows, cols))
        return ir.TileOp(loc=channel.stmt.loc, op="copy", operands=(region, target))

    def _expect(self, channel: Channel, moved: tuple[int, int], compiled: tuple[int, int]) -> None:
        """Say so when the compiler moves another rectangle than the copy names."""
        if moved == compiled or any(note.loc == channel.stmt.loc for note in self.notes):
            return
        self.notes.append(
            Note(
                code="AI-MEM-024",
                severity="warning",
                message=f"this copy moves {moved[0]} x {moved[1]} elements, but the compiler moves "
                f"{compiled[0]} x {compiled[1]}, all of {channel.source.name!r}, from the place "
                f"where its slice starts, and overruns what is smaller",
                loc=channel.stmt.loc,
            )
        )

    def _slot(
        self, workspace: ir.Buffer, start: tuple[ir.Expr, ...], extents: tuple[int, ...]
    ) -> ir.Region:
        """A rectangle of this block's slot."""
        return ir.Region(
            workspace,
            (self.cid, *start),
            (ir.as_expr(1), *map(ir.as_expr, extents)),
        )


def _matrix(buffer: ir.Buffer, channel: Channel) -> tuple[int, int]:
    """The last two extents."""
    if len(buffer.shape) < 2:
        raise KernelSourceError(
            "AI-MEM-020",
            f"{buffer.name!r} has one dimension and is copied between core types",
            where=channel.stmt.loc,
            rule="the automatic workspace takes its rows and columns from a 2-D tile",
            fix=f"allocate {buffer.name!r} with two dimensions",
        )
    rows, cols = (static_int(extent) or 1 for extent in buffer.shape[-2:])
    return rows, cols


def _start(operand: ir.Operand) -> tuple[ir.Expr, ...]:
    if isinstance(operand, ir.Region):
        return operand.mins
    if isinstance(operand, ir.Load):
        return operand.indices
    buffer = operand_buffer(operand)
    assert buffer is not None
    return (ir.as_expr(0),) * len(buffer.shape)


def _rectangle(operand: ir.Operand, other: ir.Operand) -> tuple[int, int]:
    """Rows and columns that `operand` takes; an element takes what `other`, the far side, does."""
    sized = other if isinstance(operand, ir.Load) else operand
    if isinstance(sized, ir.Region):
        shape: tuple[ir.Expr | int, ...] = sized.extents
    else:
        buffer = operand_buffer(sized)
        assert buffer is not None
        shape = buffer.shape
    numbers = [static_int(extent) or 1 for extent in shape[-2:]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (1, numbers[0])
