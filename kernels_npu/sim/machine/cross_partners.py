"""The cross-core flags of a kernel, and which of them are there in part for an edge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.program_map import Path, ProgramMap, frequency, loops_of

#: Flag ids that programs may use; the runtime keeps higher ones for itself.
FLAG_IDS = range(11)

CrossFlag = ir.SetCrossFlag | ir.WaitCrossFlag
#: A flag's id, the roles that it does not play yet, and the statements of those that it plays.
Candidate = tuple[str, tuple[str, ...], dict[str, ir.Stmt]]


@dataclass(frozen=True, eq=False)
class Side:
    """One access: the core that made it (0 AIC, 1 and 2 the AIVs), its pipe and statement."""

    core: int
    pipe: str
    stmt: ir.Stmt


class CrossFlagTable:
    """The cross-core flags of the programs of the cube and of the vector cores."""

    def __init__(self, programs: tuple[ProgramMap, ProgramMap]) -> None:
        self._programs = programs

    def flags(self, core: int) -> Iterator[tuple[CrossFlag, Path]]:
        """All flags in the program of a core (0 AIC, else AIV), with their paths."""
        program = self._programs[min(core, 1)]
        for stmt in ir.walk(program.body):
            if isinstance(stmt, CrossFlag):
                path = program.path(stmt)
                assert path is not None
                yield stmt, path

    def free_id(self) -> int:
        """A flag id that the kernel does not use."""
        ids = [flag.flag_id for core in (0, 1) for flag, _ in self.flags(core)]
        used = {int(i.value) for i in ids if isinstance(i, ir.Const)}
        computed = any(not isinstance(i, ir.Const) for i in ids)
        order = reversed(FLAG_IDS) if computed else FLAG_IDS
        return next((i for i in order if i not in used), FLAG_IDS[-1])

    def candidates(
        self, older: Side, newer: Side, first: Path, second: Path, roles: tuple[str, ...]
    ) -> Iterator[Candidate]:
        """Flags that, once completed, are set as often as waited for."""
        flags: dict[str, dict[str, list[tuple[CrossFlag, Path]]]] = {}
        for core, kind in ((older.core, ir.SetCrossFlag), (newer.core, ir.WaitCrossFlag)):
            for flag, path in self.flags(core):
                if isinstance(flag, kind):
                    part = flags.setdefault(format_expr(flag.flag_id), {"set": [], "wait": []})
                    part["set" if kind is ir.SetCrossFlag else "wait"].append((flag, path))
        for name, part in flags.items():
            present: dict[str, ir.Stmt] = {}
            surplus: Counter[object] = Counter()
            for call, sign, anchor in (("set", 1, first), ("wait", -1, second)):
                for flag, path in part[call]:
                    surplus[frequency(path, len(path) - 1)] += sign
                    role = _role(call, path, anchor)
                    if role in roles:
                        present.setdefault(role, flag)
            missing = tuple(role for role in roles if role not in present)
            for role in missing:
                path = first if role in ("set", "prime") else second
                depth = len(path) - 1 if role in ("set", "wait") else loops_of(path)[0]
                surplus[frequency(path, depth)] += 1 if role in ("set", "prime") else -1
            if present and not any(surplus.values()):
                yield name, missing, present


def _role(call: str, path: Path, anchor: Path) -> str:
    """The role that a flag at `path` plays for the access at `anchor`, or nothing."""
    last, place = path[-1], anchor[-1]
    if last.body is place.body:
        after = last.position > place.position
        if after == (call == "set"):
            return call
    loops = loops_of(anchor)
    if loops and last.body is anchor[loops[0]].body:
        outside = last.position - anchor[loops[0]].position
        if call == "set" and outside < 0:
            return "prime"
        if call == "wait" and outside > 0:
            return "drain"
    return ""
