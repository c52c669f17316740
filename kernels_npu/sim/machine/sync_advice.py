"""Which flags of one core are missing between two accesses, as lines to insert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.findings import Insertion
from kernels_npu.sim.machine.program_map import Path, ProgramMap, loops_of
from kernels_npu.sim.machine.sites import Site

#: Event ids that the hardware has for each pair of pipes.
EVENTS = range(8)

Flag = ir.SetFlag | ir.WaitFlag


@dataclass(frozen=True, eq=False)
class Advice:
    """text: what to do, in one sentence. insertions: the same as lines of source."""

    text: str
    insertions: tuple[Insertion, ...] = ()


@dataclass(frozen=True, eq=False)
class _Edge:
    """Where the flags of an edge belong: around or in `loop` when it leads to the next iteration.

    before, after: the statements that the wait precedes and the set follows, both in one list.
    """

    after: ir.Stmt
    before: ir.Stmt
    loop: ir.Stmt | None

    @property
    def roles(self) -> tuple[str, ...]:
        return ("prime", "wait", "set", "drain") if self.loop is not None else ("set", "wait")

    def insertion(self, role: str, code: str) -> Insertion:
        """The line for one of the roles."""
        if role == "prime" or role == "drain":
            assert self.loop is not None
            return Insertion(
                loc=self.loop.loc, where="before" if role == "prime" else "after", code=code
            )
        stmt = self.after if role == "set" else self.before
        return Insertion(loc=stmt.loc, where="after" if role == "set" else "before", code=code)


class FlagAdvisor:
    """Advice for the program of one core type; `sites` tell the events that operations use."""

    def __init__(self, program: ProgramMap, sites: Sequence[Site]) -> None:
        self._program = program
        self._operations: dict[int, set[str]] = {}
        for site in sites:
            if site.instruction is not None:
                self._operations.setdefault(id(site.stmt), set()).add(site.pipe)
        self._hidden = {
            event for s in sites if s.instruction is not None for event in s.instruction.events
        }

    def between(self, src: str, older: ir.Stmt, dst: str, newer: ir.Stmt) -> Advice:
        """What orders pipe `dst` at `newer` after pipe `src` at `older`."""
        edge = self._edge(older, newer)
        if edge is None or src == dst:
            return Advice(
                f"add T.barrier_all() before {newer.loc}",
                (Insertion(loc=newer.loc, where="before", code="T.barrier_all()"),),
            )
        partner = self._partner(edge, src, dst)
        if partner is not None:
            missing, present = partner
            return _complete(edge, next(iter(present.values())), missing, present)
        free = self._free_event(src, dst)
        if free is None:
            return Advice(
                f"add T.barrier_all() before {edge.before.loc} (all event ids of this pair of "
                "pipes are in use)",
                (Insertion(loc=edge.before.loc, where="before", code="T.barrier_all()"),),
            )
        event = ir.Const(free, "int32")
        flag = ir.SetFlag(loc=older.loc, src=src, dst=dst, event_id=event)
        return _complete(edge, flag, edge.roles, {})

    def for_wait(self, wait: ir.WaitFlag) -> Advice:
        """What `wait` lacks, which found its flag not set."""
        sets = [f for f in self._same_event(wait) if isinstance(f, ir.SetFlag)]
        for flag in sets:
            edge = self._edge(flag, wait)
            if edge is not None and edge.loop is not None:
                return _complete(edge, wait, ("prime",), {"set": flag, "wait": wait})
        older = self._before(wait) if not sets else None
        edge = None if older is None else self._edge(older, wait)
        if edge is None:
            return Advice(f"add {_call('set', wait)} on every path to the wait")
        missing = ("set",) if edge.loop is None else ("prime", "set")
        return _complete(edge, wait, missing, {"wait": wait})

    def for_set(self, flag: ir.SetFlag) -> Advice:
        """What `flag` lacks, which is still set when the kernel ends."""
        waits = [f for f in self._same_event(flag) if isinstance(f, ir.WaitFlag)]
        for wait in waits:
            edge = self._edge(flag, wait)
            if edge is not None and edge.loop is not None:
                return _complete(edge, flag, ("drain",), {"set": flag, "wait": wait})
        if waits:
            places = ", ".join(str(wait.loc) for wait in waits)
            return Advice(f"reach {_call('wait', flag)} (at {places}) as often as the T.set_flag")
        line = Insertion(loc=flag.loc, where="after", code=_call("wait", flag))
        return Advice(
            f"add {line}, at the first statement of pipe {flag.dst} that needs it, or take the "
            "T.set_flag out",
            (line,),
        )

    def _same_event(self, flag: Flag) -> list[Flag]:
        event = format_expr(flag.event_id)
        return [f for f in self._flags(flag.src, flag.dst) if format_expr(f.event_id) == event]

    def _before(self, wait: ir.WaitFlag) -> ir.Stmt | None:
        """The last operation of the pipe that `wait` waits for, seen from it."""
        stmts = [s for s in ir.walk(self._program.body) if s is wait or id(s) in self._operations]
        here = stmts.index(wait)
        around = (*reversed(stmts[:here]), *reversed(stmts[here + 1 :]))
        return next((s for s in around if wait.src in self._operations[id(s)]), None)

    # ------------------------------------------------------------------ places

    def _edge(self, older: ir.Stmt, newer: ir.Stmt) -> _Edge | None:
        first, second = self._program.path(older), self._program.path(newer)
        if first is None or second is None:
            return None
        split = _split(first, second)
        a, b = first[split], second[split]
        if a.body is b.body and a.position < b.position:
            return _Edge(a.stmt, b.stmt, None)
        loops = loops_of(first[: split + 1])
        if not loops:
            return None
        if a.body is not b.body:  # the branches of one `if`
            a = b = first[split - 1]
        return _Edge(a.stmt, b.stmt, first[loops[-1]].stmt)

    # ------------------------------------------------------------------ event ids

    def _flags(self, src: str, dst: str) -> Iterator[Flag]:
        for stmt in ir.walk(self._program.body):
            if isinstance(stmt, Flag) and (stmt.src, stmt.dst) == (src, dst):
                yield stmt

    def _free_event(self, src: str, dst: str) -> int | None:
        events = [flag.event_id for flag in self._flags(src, dst)]
        used = {int(e.value) for e in events if isinstance(e, ir.Const)}
        used |= {event for a, b, event in self._hidden if (a, b) == (src, dst)}
        if any(not isinstance(e, ir.Const) for e in events):
            # Computed ids count from 0 as a rule: stay as far away as possible.
            return next((e for e in reversed(EVENTS) if e not in used), None)
        return next((e for e in EVENTS if e not in used), None)

    def _partner(
        self, edge: _Edge, src: str, dst: str
    ) -> tuple[tuple[str, ...], dict[str, Flag]] | None:
        """An event whose flags are there in part: the missing roles, and the present ones."""
        by_event: dict[str, list[Flag]] = {}
        for flag in self._flags(src, dst):
            by_event.setdefault(format_expr(flag.event_id), []).append(flag)
        for flags in by_event.values():
            present: dict[str, Flag] = {}
            for role in edge.roles:
                found = next((f for f in flags if self._plays(f, role, edge)), None)
                if found is not None:
                    present[role] = found
            missing = tuple(role for role in edge.roles if role not in present)
            useful = "set" in present or "wait" in present
            if useful and missing and self._pairs_up(edge, flags, missing):
                return missing, present
        return None

    def _plays(self, flag: Flag, role: str, edge: _Edge) -> bool:
        """Whether `flag` stands where `role` needs it."""
        if isinstance(flag, ir.SetFlag) is not (role in ("prime", "set")):
            return False
        path = self._program.path(flag)
        assert path is not None
        if role in ("prime", "drain"):
            assert edge.loop is not None
            loop_path = self._program.path(edge.loop)
            assert loop_path is not None
            step = path[-1]
            return step.body is loop_path[-1].body and (
                step.position < loop_path[-1].position
                if role == "prime"
                else step.position > loop_path[-1].position
            )
        after, before = self._program.path(edge.after), self._program.path(edge.before)
        assert after is not None and before is not None
        if path[-1].body is not after[-1].body:
            return False
        place, start, stop = path[-1].position, after[-1].position, before[-1].position
        if edge.loop is None:
            return start < place < stop
        return place > start if role == "set" else place < stop

    def _pairs_up(self, edge: _Edge, flags: list[Flag], missing: tuple[str, ...]) -> bool:
        """Whether every list of statements sets the event as often as it waits, once completed."""
        surplus: Counter[int] = Counter()
        for flag in flags:
            path = self._program.path(flag)
            assert path is not None
            surplus[id(path[-1].body)] += 1 if isinstance(flag, ir.SetFlag) else -1
        for role in missing:
            outside = role in ("prime", "drain")
            stmt = edge.loop if outside else edge.after
            assert stmt is not None
            path = self._program.path(stmt)
            assert path is not None
            surplus[id(path[-1].body)] += 1 if role in ("prime", "set") else -1
        return not any(surplus.values())


def _split(first: Path, second: Path) -> int:
    """The index of the first difference of two paths, or of their common last statement."""
    last = min(len(first), len(second)) - 1
    for index in range(last + 1):
        if first[index].stmt is not second[index].stmt:
            return index
    return last


_CALLS = {"prime": "set", "set": "set", "wait": "wait", "drain": "wait"}


def _call(role: str, like: Flag) -> str:
    """The call for a role with the pipes and the event id of `like`."""
    pipes = f'"{like.src.lower()}", "{like.dst.lower()}"'
    return f"T.{_CALLS[role]}_flag({pipes}, {format_expr(like.event_id)})"


def _complete(
    edge: _Edge, like: Flag, missing: tuple[str, ...], present: dict[str, Flag]
) -> Advice:
    lines = {role: edge.insertion(role, _call(role, like)) for role in missing}
    order = [r for r in ("set", "wait", "prime", "drain") if r in lines]
    text = "add " + " and ".join(str(lines[role]) for role in order)
    if "prime" in lines and "drain" in lines:
        text += " (the first iteration has nothing to wait for, the last leaves a set)"
    elif "prime" in lines:
        text += " (the first iteration has nothing to wait for)"
    elif "drain" in lines:
        text += " (the last iteration leaves a set)"
    if present:
        places = " and ".join(
            f"the T.{_CALLS[role]}_flag at {flag.loc}" for role, flag in present.items()
        )
        text += f"; {places} {'is' if len(present) == 1 else 'are'} there already"
    return Advice(text, tuple(lines[role] for role in order))
