"""Where the statements of a core's program stand: branches, loops, and how often they execute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.passes.rewriting import variables

Body = tuple[ir.Stmt, ...]
Loop = (ir.For, ir.While)


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A statement on the way from the program to a nested statement: its list, and its place."""

    body: Body
    position: int

    @property
    def stmt(self) -> ir.Stmt:
        """The statement itself."""
        return self.body[self.position]


Path = tuple[Step, ...]


class ProgramMap:
    """Paths to all statements of one core's program."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._paths: dict[int, Path] = {}
        self._add(body, ())

    def _add(self, body: Body, above: Path) -> None:
        for position, stmt in enumerate(body):
            path = (*above, Step(body, position))
            self._paths[id(stmt)] = path
            for nested in ir.children(stmt):
                self._add(nested, path)

    def path(self, stmt: ir.Stmt) -> Path | None:
        """From the program down to `stmt`; None when it is not part of the program."""
        return self._paths.get(id(stmt))

    def every(self, kind: type[ir.Stmt]) -> Iterator[ir.Stmt]:
        """All statements of a kind."""
        return (s for s in ir.walk(self.body) if isinstance(s, kind))


def loops_of(path: Path) -> list[int]:
    """Indices in `path` of the loops around its last statement, outermost first."""
    return [i for i, step in enumerate(path[:-1]) if isinstance(step.stmt, Loop)]


def frequency(path: Path, depth: int) -> tuple[int, tuple[tuple[str, int], ...]]:
    """How often what stands at `path[depth]` executes: the known factor, and unknown ones."""
    known = 1
    unknown: Counter[str] = Counter()
    for index in loops_of(path[: depth + 1]):
        loop = path[index].stmt
        if not isinstance(loop, ir.For):
            unknown[f"while at {loop.loc}"] += 1
        elif isinstance(loop.start, ir.Const) and isinstance(loop.stop, ir.Const):
            known *= max(0, int(loop.stop.value) - int(loop.start.value))
        else:
            unknown[f"{format_expr(loop.start)}..{format_expr(loop.stop)}"] += 1
    return known, tuple(sorted(unknown.items()))


def depth_outside_branches_on(path: Path, var: ir.Var) -> int:
    """The deepest index of `path` that no `if` depending on `var` encloses."""
    for index, step in enumerate(path[:-1]):
        if isinstance(step.stmt, ir.If) and any(v is var for v in variables(step.stmt)):
            return index
    return len(path) - 1
