"""Which cross-core flags are missing between two accesses of a block, as lines to insert."""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.cross_partners import Candidate, CrossFlagTable, Side
from kernels_npu.sim.machine.findings import Insertion
from kernels_npu.sim.machine.program_map import (
    Path,
    ProgramMap,
    depth_outside_branches_on,
    frequency,
    loops_of,
)
from kernels_npu.sim.machine.sync_advice import Advice
from kernels_npu.sim.passes.rewriting import operand_buffer, root_of


class CrossAdvisor:
    """Advice for one kernel.

    programs: of the cube and of the vector cores. combined: the compiler separates the core types
    itself. scoped: lines of the statements inside a `T.Scope`.
    """

    def __init__(
        self, func: ir.PrimFunc, programs: tuple[ProgramMap, ProgramMap], *, combined: bool
    ) -> None:
        self._vid = func.vid
        self._programs = programs
        self._table = CrossFlagTable(programs)
        self._combined = combined
        self._scoped = {
            nested.loc
            for stmt in ir.walk(func.body)
            if isinstance(stmt, ir.CoreScope)
            for nested in ir.walk(stmt.body)
        }

    def between(self, kind: str, older: Side, newer: Side) -> Advice:
        """What orders `newer` after `older`; `kind` is RAW, WAR or WAW."""
        if older.stmt is newer.stmt:
            return Advice(
                "both vector cores execute this statement: give each its own part of the tensor "
                "(use vid in the index), or let one of them do it (if vid == 0)"
            )
        if self._combined:
            return Advice(
                "let the compiler order the two: turn on tl.ascend_auto_cross_core_sync and put "
                "'workspace' into the tensor's name; or separate the core types with T.Scope and "
                "set the cross-core flags by hand"
            )
        if older.core and newer.core and self._comes_later(older.stmt, newer.stmt):
            # Both vector cores run one text; it says which of the two was meant to come first.
            older, newer = newer, older
        return self._ordered(kind, older, newer)

    def for_wait(self, core: int, wait: ir.WaitCrossFlag) -> Advice | None:
        """What a core lacks that waits for a flag forever, found by what the flag is there for.

        That is the first access to global memory after the wait, and the last one of another core
        to the same tensor.
        """
        path = self._programs[min(core, 1)].path(wait)
        if path is None or self._combined:
            return None
        following = path[-1].body[path[-1].position + 1 :]
        newer = next(((s, a) for s in ir.walk(following) for a in _accesses(s)), None)
        if newer is None:
            return None
        stmt, (tensor, write, pipe) = newer
        for other in (1, 0) if core == 0 else (0, 1):
            for older in reversed(list(ir.walk(self._programs[other].body))):
                for name, writes, other_pipe in _accesses(older):
                    if name == tensor and (write or writes) and older is not stmt:
                        own = 2 if core == other == 1 else other
                        advice = self._completed(
                            "RAW" if writes else "WAR",
                            Side(own, other_pipe, older),
                            Side(core, pipe, stmt),
                            format_expr(wait.flag_id),
                        )
                        if advice is not None:
                            return advice
        return None

    def for_set(self, core: int, flag: ir.SetCrossFlag) -> Advice:
        """What is lacking when `flag` is still set for `core` at the end."""
        name = format_expr(flag.flag_id)
        waits = [
            f
            for f, _ in self._table.flags(core)
            if isinstance(f, ir.WaitCrossFlag) and format_expr(f.flag_id) == name
        ]
        for wait in waits:
            advice = self.for_wait(core, wait)
            if advice is not None:
                return advice
        call = f"T.wait_cross_flag({name})"
        if waits:
            places = ", ".join(str(wait.loc) for wait in waits)
            return Advice(f"reach {call} (at {places}) as often as the T.set_cross_flag")
        return Advice(
            f"add {call} on the core that is signalled, before what depends on it, or take the "
            "T.set_cross_flag out"
        )

    def _comes_later(self, one: ir.Stmt, other: ir.Stmt) -> bool:
        order = [id(s) for s in ir.walk(self._programs[1].body)]
        return order.index(id(one)) > order.index(id(other))

    def _ordered(self, kind: str, older: Side, newer: Side) -> Advice:
        places = self._places(older, newer)
        if places is None:
            return Advice("order the two cores with T.set_cross_flag and T.wait_cross_flag")
        if kind != "WAR" and self._is_complete(*places, older, newer):
            # The same iteration is ordered: what came first here belongs to a later one.
            places = self._places(newer, older)
            if places is not None:
                return self._complete("WAR", newer, older, *places)
        assert places is not None
        return self._complete(kind, older, newer, *places)

    # ------------------------------------------------------------------ places

    def _places(self, older: Side, newer: Side) -> tuple[Path, Path] | None:
        """Paths to the statements that the set follows and the wait precedes.

        They are executed equally often, by every core of their type.
        """
        paths = [self._programs[min(s.core, 1)].path(s.stmt) for s in (older, newer)]
        first, second = paths
        if first is None or second is None:
            return None
        for a in self._depths(first):
            for b in self._depths(second):
                if frequency(first, a) == frequency(second, b):
                    return first[: a + 1], second[: b + 1]
        return None

    def _depths(self, path: Path) -> list[int]:
        """Candidates, deepest first: what stands directly in a loop, and the outermost."""
        limit = depth_outside_branches_on(path, self._vid)
        depths = [0, *(index + 1 for index in loops_of(path))]
        scopes = [i for i, step in enumerate(path) if isinstance(step.stmt, ir.CoreScope)]
        return [d for d in reversed(depths) if d <= limit and d not in scopes]

    # ------------------------------------------------------------------ flags

    def _completed(self, kind: str, older: Side, newer: Side, name: str) -> Advice | None:
        """What flag `name` lacks to lead from `older` to `newer`; None when it is no such flag."""
        places = self._places(older, newer)
        if places is None:
            return None
        for candidate in self._table.candidates(older, newer, *places, _roles(kind, *places)):
            if candidate[0] == name and candidate[1]:
                return self._complete(kind, older, newer, *places, candidate)
        return None

    def _complete(
        self,
        kind: str,
        older: Side,
        newer: Side,
        first: Path,
        second: Path,
        partner: Candidate | None = None,
    ) -> Advice:
        mode = 1 if older.core and newer.core else 2
        roles = _roles(kind, first, second)
        partner = partner or self._partner(older, newer, first, second, roles)
        flag, missing, present = partner or (str(self._table.free_id()), roles, {})
        lines = {}
        for role in missing:
            side, path = (older, first) if role in ("set", "prime") else (newer, second)
            code = f"T.wait_cross_flag({flag})"
            if role in ("set", "prime"):
                extra = ", mode=1" if mode == 1 else ""
                code = f'T.set_cross_flag("{older.pipe}", {flag}{extra})'
            lines[role] = self._insertion(role, path, side, code)
        text = "add " + " and ".join(str(lines[role]) for role in missing)
        if "prime" in missing:
            text += (
                " (a credit flag: the reader gives the bytes free, the first writer needs not wait)"
            )
        if present:
            text += "; " + " and ".join(
                f"the T.{_CALLS[role]}_cross_flag at {s.loc} is there already"
                for role, s in present.items()
            )
        return Advice(text, tuple(lines.values()))

    def _insertion(self, role: str, path: Path, side: Side, code: str) -> Insertion:
        stmt = path[-1].stmt
        if role in ("prime", "drain"):
            stmt = path[loops_of(path)[0]].stmt
        if side.stmt.loc not in self._scoped:
            code = f'with T.Scope("{"V" if side.core else "C"}"): {code}'
        where = "after" if role in ("set", "drain") else "before"
        return Insertion(loc=stmt.loc, where=where, code=code)

    def _partner(
        self, older: Side, newer: Side, first: Path, second: Path, roles: tuple[str, ...]
    ) -> Candidate | None:
        """A flag that is there in part: its id, the missing roles, the present ones."""
        for name, missing, present in self._table.candidates(older, newer, first, second, roles):
            if ("set" in present or "wait" in present) and missing:
                return name, missing, present
        return None

    def _is_complete(self, first: Path, second: Path, older: Side, newer: Side) -> bool:
        """Whether a flag already leads from the one place to the other."""
        roles = ("set", "wait")
        return any(
            not missing
            for _, missing, _ in self._table.candidates(older, newer, first, second, roles)
        )


def _roles(kind: str, first: Path, second: Path) -> tuple[str, ...]:
    """A reader in a loop gives its bytes back by a credit flag, which needs a first credit."""
    if kind == "WAR" and loops_of(first) and loops_of(second):
        return ("set", "wait", "prime", "drain")
    return ("set", "wait")


_CALLS = {"set": "set", "prime": "set", "wait": "wait", "drain": "wait"}


_PIPES = {
    ("global", "ub"): "MTE2",
    ("global", "l1"): "MTE2",
    ("ub", "global"): "MTE3",
    ("l0c", "global"): "FIX",
}


def _accesses(stmt: ir.Stmt) -> Iterator[tuple[str, bool, str]]:
    """(tensor, whether written, pipe) of a move with global memory."""
    if not isinstance(stmt, ir.TileOp) or stmt.op not in ("copy", "atomic_add"):
        return
    operands = stmt.operands if stmt.op == "copy" else reversed(stmt.operands)
    source, target = (operand_buffer(operand) for operand in operands)
    if source is None or target is None:
        return
    pipe = _PIPES.get((source.scope, target.scope))
    if pipe is not None:
        write = target.scope == "global"
        yield root_of(target if write else source).name, write, pipe
