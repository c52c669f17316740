"""Where the destination of a copy between core types is loaded from its workspace.

The compiler puts the load right before the first *tile operation* of the program text that reads
the destination. A loop may bring that reader before the copy: attention kernels are written like
that, and the reader then waits for the other core. In a few cases the compiler's place cannot be
meant; the load then goes where the program needs it, and a note names the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.buffer_uses import compiler_reads, reads, reloads, writes
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.ownership import VIRTUAL_PATHS, copy_scopes
from kernels_npu.sim.passes.rewriting import operand_buffer, root_of, subexpressions

Body = tuple[ir.Stmt, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel:
    """One copy between core types."""

    stmt: ir.TileOp
    source: ir.Buffer
    destination: ir.Buffer


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Per channel the statement before which the destination is loaded; None: nothing reads it.

    `hidden`: per channel a loop variable of its destination that is not visible there.
    `unpaired`: channels whose workspace the compiler's program stores and loads unequally often.
    """

    readers: tuple[ir.Stmt | None, ...]
    hidden: tuple[ir.Var | None, ...]
    notes: tuple[Note, ...]
    unpaired: tuple[Channel, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Line:
    """A statement in the order of the text, with what encloses it, outermost first."""

    number: int
    stmt: ir.Stmt
    parents: tuple[ir.Stmt, ...]


def find_channels(body: Body) -> tuple[Channel, ...]:
    """The copies of `body` that need a workspace, in program order."""
    found = []
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.TileOp) and stmt.op == "copy" and copy_scopes(stmt) in VIRTUAL_PATHS:
            source, destination = (operand_buffer(operand) for operand in stmt.operands[:2])
            if source is not None and destination is not None:
                found.append(Channel(stmt=stmt, source=source, destination=destination))
    return tuple(found)


def place(body: Body, channels: tuple[Channel, ...]) -> Placement:
    """Find the place of every channel's load in `body`."""
    lines = list(_lines(body, ()))
    text = _Text({id(line.stmt): line for line in lines}, lines, channels)
    results = [text.place(channel) for channel in channels]
    return Placement(
        readers=tuple(reader for reader, _ in results),
        hidden=tuple(text.hidden(c, reader) for c, (reader, _) in zip(channels, results)),
        notes=tuple(note for _, note in results if note is not None),
        unpaired=tuple(c for c in channels if text.is_unpaired(c)),
    )


def check_pairs(placement: Placement) -> None:
    """Reject what automatic cross-core flags cannot pair, as the compiler does.

    Raises:
        KernelSourceError: AI-SYNC-021.
    """
    for channel in placement.unpaired:
        raise KernelSourceError(
            "AI-SYNC-021",
            f"the automatic workspace of the copy {channel.source.name!r} -> "
            f"{channel.destination.name!r} is not loaded as often as it is stored",
            where=channel.stmt.loc,
            rule="automatic cross-core flags pair every store of a workspace with a load, and the "
            "compiler loads a destination once, before the first tile operation that reads it",
            fix="give every copy between core types its own source and its own destination buffer, "
            "and read the destination with a tile operation",
        )


def _lines(body: Body, parents: tuple[ir.Stmt, ...], start: int = 0) -> Iterator[_Line]:
    number = start
    for stmt in body:
        yield _Line(number=number, stmt=stmt, parents=parents)
        number += 1
        for nested in ir.children(stmt):
            for line in _lines(nested, (*parents, stmt), number):
                yield line
                number = line.number + 1


class _Text:
    """The program text, asked for readers and writers of a destination."""

    def __init__(
        self, of: dict[int, _Line], lines: list[_Line], channels: tuple[Channel, ...]
    ) -> None:
        self.of = of
        self.lines = lines
        self.channels = channels

    def place(self, channel: Channel) -> tuple[ir.Stmt | None, Note | None]:
        """The statement to load before, and what the compiler does instead."""
        root = root_of(channel.destination)
        readers = [line for line in self.lines if reads(line.stmt, root)]
        reader = self._reader(channel, readers)
        if reader is None:
            return None, None
        anchor = self._anchor(channel, reader, readers)
        return anchor, self._divergence(channel, reader, anchor)

    def is_unpaired(self, channel: Channel) -> bool:
        """Whether flags cannot pair the channel's workspace in the compiler's program.

        Pairing starts from the cube program: what only the vector program touches gets no flag.
        """
        same_source = self._same_source(channel)
        stores = len(same_source) if same_source[-1] is channel else 0
        loaded = 0 if self._compiled_reader(channel) is None else 1
        of_cube = stores if channel.source.scope == "l0c" else loaded
        return of_cube > 0 and stores != loaded

    def hidden(self, channel: Channel, anchor: ir.Stmt | None) -> ir.Var | None:
        """A loop variable of the channel's destination that does not exist at `anchor`."""
        if anchor is None:
            return None
        visible = self.of[id(anchor)].parents
        inner = {
            parent.var
            for parent in self.of[id(channel.stmt)].parents
            if isinstance(parent, ir.For) and parent not in visible
        }
        target = channel.stmt.operands[1]
        start = target.mins if isinstance(target, ir.Region) else ()
        start = target.indices if isinstance(target, ir.Load) else start
        used = (part for index in start for part in subexpressions(index))
        return next((part for part in used if isinstance(part, ir.Var) and part in inner), None)

    # ------------------------------------------------------------------ what the program means

    def _reader(self, channel: Channel, readers: list[_Line]) -> _Line | None:
        copy = self.of[id(channel.stmt)]
        rivals = [self.of[id(c.stmt)].number for c in self._same_destination(channel)]
        end = min((n for n in rivals if n > copy.number), default=len(self.lines))
        after = next((line for line in readers if copy.number < line.number < end), None)
        first = readers[0] if readers else None
        if first is None or first is after:
            return after
        if len(rivals) == 1 and _common_loop(first, copy) and not self._written_before(first, copy):
            return first
        return after or first

    def _written_before(self, reader: _Line, copy: _Line) -> bool:
        """Whether the reader may want what another statement left in the destination."""
        channel = next(c for c in self.channels if c.stmt is copy.stmt)
        root = root_of(channel.destination)
        return any(
            writes(line.stmt, root) for line in self.lines[: reader.number] if line is not copy
        )

    def _anchor(self, channel: Channel, reader: _Line, readers: list[_Line]) -> ir.Stmt:
        """The reader, or what encloses it when loading there would undo or miss something."""
        copy = self.of[id(channel.stmt)]
        root = root_of(channel.destination)
        anchor = reader.stmt
        for parent in reversed(reader.parents):
            if parent in copy.parents or isinstance(parent, ir.CoreScope):
                break
            if isinstance(parent, ir.If):
                if any(parent not in r.parents for r in readers):
                    anchor = parent
            elif any(writes(stmt, root) for stmt in ir.walk((parent,))):
                anchor = parent
        return anchor

    # ------------------------------------------------------------------ what the compiler does

    def _compiled_reader(self, channel: Channel) -> _Line | None:
        """The last of several copies to a destination is the one that is loaded, once."""
        if self._same_destination(channel)[-1] is not channel:
            return None
        root = root_of(channel.destination)
        channel_stmts = {c.stmt for c in self.channels}
        return next(
            (
                line
                for line in self.lines
                if line.stmt not in channel_stmts and compiler_reads(line.stmt, root)
            ),
            None,
        )

    def _divergence(self, channel: Channel, reader: _Line, anchor: ir.Stmt) -> Note | None:
        compiled = self._compiled_reader(channel)
        name = channel.destination.name
        if len(self._same_source(channel)) > 1:
            said = (
                f"{channel.source.name!r} is the source of several copies between core types; the "
                "compiler stores all of them to the workspace of the last one"
            )
        elif compiled is None and self._same_destination(channel)[-1] is not channel:
            said = (
                f"{name!r} is the destination of several copies between core types; the compiler "
                "loads it once, from the workspace of the last one"
            )
        elif compiled is None:
            said = (
                f"no tile operation reads {name!r}, so the compiler never loads it; "
                f"{reader.stmt.loc} reads old bytes"
            )
        elif compiled.stmt is not anchor:
            said = (
                f"the compiler loads {name!r} at {compiled.stmt.loc}, before the first tile "
                f"operation of the text that reads it, instead of at {anchor.loc}"
            )
        elif reloads(compiled.stmt, root_of(channel.destination)):
            said = (
                f"the compiler turns this T.Parallel into a loop over rows and loads {name!r} "
                "anew in each iteration, over what the previous ones wrote"
            )
        else:
            return None
        return Note(
            code="AI-MEM-022",
            severity="warning",
            message=f"{said}: the hardware computes something else; the simulator loads the copy "
            "where the program means it",
            loc=channel.stmt.loc,
        )

    def _same_destination(self, channel: Channel) -> list[Channel]:
        root = root_of(channel.destination)
        return [c for c in self.channels if root_of(c.destination) is root]

    def _same_source(self, channel: Channel) -> list[Channel]:
        root = root_of(channel.source)
        return [c for c in self.channels if root_of(c.source) is root]


def _common_loop(a: _Line, b: _Line) -> bool:
    return any(
        parent in b.parents and isinstance(parent, (ir.For, ir.While)) for parent in a.parents
    )
