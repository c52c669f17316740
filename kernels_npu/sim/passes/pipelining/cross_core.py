"""Pipelines across core types: a loop that mixes cube and vector work becomes a loop over groups.

In each group the cube statements of `num_stages` iterations run one behind the other, then the
vector statements of the same iterations, and so on, so that cube and vector cores can overlap. What
passes from one part to the next needs one version per iteration of the group: workspaces in global
memory and buffers allocated in the loop get them; everything else keeps one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.pipelining.accesses import Accesses
from kernels_npu.sim.passes.pipelining.detection import Sides, mixed_loops, stores_to_memory
from kernels_npu.sim.passes.pipelining.injection import Homes, num_stages
from kernels_npu.sim.passes.pipelining.items import statements
from kernels_npu.sim.passes.pipelining.sharing import first_foreign_read, shared_buffers
from kernels_npu.sim.passes.pipelining.versions import Versions, touched
from kernels_npu.sim.passes.rewriting import constant_trips, root_of, static_int, with_children
from kernels_npu.sim.passes.substitution import Body, Slot, Substitution

#: Attributes of the loop over the iterations of one group.
STAGE_LOOP, CROSS_INTERVAL = "stage_loop", "cross_interval"

_WORKSPACE = "workspace"


def pipeline_across_cores(
    func: ir.PrimFunc, homes: Homes, accesses: Accesses, versions: Versions
) -> tuple[ir.PrimFunc, tuple[Note, ...]]:
    """`func` with its cross-core pipeline, if there is one, spread over groups of iterations.

    Workspace parameters get `num_stages` slots in front.

    Raises:
        KernelSourceError: AI-PIPE-002 for more than one such loop, AI-PIPE-005 for a binding that
            the pass loses.
    """
    found = mixed_loops(func.body)
    if not found:
        return func, ()
    if len(found) > 1:
        raise KernelSourceError(
            "AI-PIPE-002",
            f"{len(found)} pipelined loops mix cube and vector work "
            f"({', '.join(str(loop.loc) for loop in found)})",
            where=found[1].loc,
            rule="the compiler pipelines one loop across cores per kernel",
            fix="use T.serial for all but one of them, or split the kernel",
        )
    (loop,) = found
    pass_over = _CrossCore(func, loop, homes, accesses, versions)
    return pass_over.rewrite(), tuple(pass_over.notes)


class _CrossCore:
    def __init__(
        self, func: ir.PrimFunc, loop: ir.For, homes: Homes, accesses: Accesses, versions: Versions
    ) -> None:
        self.func = func
        self.loop = loop
        self.homes = homes
        self.accesses = accesses
        self.versions = versions
        self.count = num_stages(loop)
        self.notes: list[Note] = []
        #: parameter -> the same with one slot per iteration of a group
        self.slotted = {
            param: dataclasses.replace(param, shape=(self.count, *param.shape), uid=ir.Var("").uid)
            for param in func.tensors
            if param.name.startswith(_WORKSPACE)
        }

    def rewrite(self) -> ir.PrimFunc:
        """The kernel with slots for its workspaces; outside the loop they use the first one."""
        staged = self._staged() if stores_to_memory(self.loop.body) else None
        outside = Substitution(
            buffers=self._slots(ir.Const(0, "int32")), origin=self.versions.origin
        )

        def visit(body: Body) -> Body:
            return tuple(part for stmt in body for part in place(stmt))

        def place(stmt: ir.Stmt) -> Body:
            if stmt is self.loop and staged is not None:
                return (staged,)
            if any(inner is self.loop for inner in ir.walk((stmt,))):
                return (with_children(stmt, visit),)
            return (outside.statement(stmt),) if self.slotted else (stmt,)

        params = tuple(
            self.slotted.get(param, param) if isinstance(param, ir.Buffer) else param
            for param in self.func.params
        )
        return dataclasses.replace(self.func, params=params, body=visit(self.func.body))

    def _slots(self, index: ir.Expr) -> Mapping[ir.Buffer, Slot]:
        return {old: Slot(buffer=new, index=index) for old, new in self.slotted.items()}

    # ------------------------------------------------------------------ the loop

    def _staged(self) -> ir.Stmt:
        stages = self._stages()
        shared = shared_buffers(stages, self.accesses)
        local = {b for b, path in self.homes.items() if path and path[-1] is self.loop.var}
        versioned = [b for b in local if b.scope != "var" and (b in shared or _WORKSPACE in b.name)]
        for buffer in versioned:
            self.versions.add(buffer, self.count)
        self.notes += self._carried(stages, [b for b in shared if b not in versioned])
        self.notes += self._iterations()
        self.notes += self._unslotted()
        outer = ir.Var(f"{self.loop.var.name}_outer", self.loop.var.dtype)
        loops = tuple(self._stage_loop(stage, outer, frozenset(versioned)) for stage in stages)
        trips = constant_trips(self.loop)
        groups: ir.Expr | int
        if trips is not None:
            groups = trips // self.count
        else:
            groups = (self.loop.stop - self.loop.start) * self.count
        return ir.For(
            loc=self.loop.loc,
            var=outer,
            start=self.loop.start,
            stop=self.loop.start + groups,
            body=loops,
        )

    def _stage_loop(self, stage: Body, outer: ir.Var, versioned: frozenset[ir.Buffer]) -> ir.Stmt:
        inner = ir.Var("i")
        if versioned:
            self.versions.select_by(inner, iter(versioned))
        buffers: dict[ir.Buffer, ir.Buffer | Slot] = {
            **self.versions.of_iteration(stage, 0, versioned),
            **self._slots(inner),
        }
        copies = Substitution(
            variables={self.loop.var: outer * self.count + inner},
            buffers=buffers,
            origin=self.versions.origin,
        )
        interval = self.loop.attrs.get("cross_interval", 1)
        return ir.For(
            loc=self.loop.loc,
            var=inner,
            start=ir.Const(0, "int32"),
            stop=ir.Const(self.count, "int32"),
            body=copies.body(stage),
            attrs={STAGE_LOOP: True, CROSS_INTERVAL: interval},
        )

    def _stages(self) -> list[Body]:
        """The statements of the loop, cut wherever the core type changes."""
        stages: list[list[ir.Stmt]] = []
        previous: str | None = None
        sides = Sides()
        for unit in statements(self.loop.body, self.versions.origin):
            stmt = unit[0]
            if isinstance(stmt, ir.Let):
                raise self._lost_binding(stmt)
            self.notes += self._mistreated(stmt)
            side = next(reversed(list(sides.of(stmt))), None)
            if side is None:
                self.notes += self._dropped(stmt)
                continue
            if side != previous:
                stages.append([])
                previous = side
            stages[-1].append(stmt)
        return [tuple(stage) for stage in stages]

    # ------------------------------------------------------------------ what goes wrong

    def _lost_binding(self, stmt: ir.Let) -> KernelSourceError:
        return KernelSourceError(
            "AI-PIPE-005",
            f"{stmt.var.name!r} is read from memory inside the pipelined loop at {self.loop.loc}",
            where=stmt.loc,
            rule="the cross-core pipeline drops bindings in its body; the generated code uses an "
            "undefined name",
            fix="write the element where it is used, or keep it in a T.alloc_var outside the loop",
        )

    def _error(self, code: str, message: str, stmt: ir.Stmt) -> Note:
        return Note(code=code, severity="error", message=message, loc=stmt.loc)

    def _mistreated(self, stmt: ir.Stmt) -> Iterator[Note]:
        if isinstance(stmt, (ir.If, ir.While)):
            kind = "branch" if isinstance(stmt, ir.If) else "while loop"
            yield self._error(
                "AI-PIPE-013",
                f"the compiler takes the statements of this {kind} out of it when it pipelines the "
                "loop across cores: they run unconditionally; put the branch inside a T.serial(1) "
                "loop, or use T.serial for the pipelined one",
                stmt,
            )
        if isinstance(stmt, ir.CoreScope):
            yield self._error(
                "AI-PIPE-013",
                "the cross-core pipeline forgets T.Scope in its body: flags and barriers in it run "
                "on both core types; leave T.Scope out",
                stmt,
            )

    def _dropped(self, stmt: ir.Stmt) -> Iterator[Note]:
        if not isinstance(stmt, (ir.Let, ir.Break)):
            yield self._error(
                "AI-PIPE-014",
                "the cross-core pipeline drops this statement: it names no on-chip buffer, and no "
                "statement before it decides for which core type it is",
                stmt,
            )

    def _carried(self, stages: list[Body], buffers: list[ir.Buffer]) -> Iterator[Note]:
        for buffer in buffers:
            written = {
                number
                for number, stage in enumerate(stages)
                if any(a.buffer is buffer and a.write for s in stage for a in self.accesses.of(s))
            }
            for number, stage in enumerate(stages):
                reader = first_foreign_read(stage, buffer, self.accesses)
                if reader is not None and written - {number}:
                    yield self._error(
                        "AI-PIPE-012",
                        f"{buffer.name!r} carries a value from one part of the cross-core pipeline "
                        f"to another, but is also used outside the loop, so there is one version "
                        f"for {self.count} iterations in flight; copy it into a buffer that only "
                        "the loop uses",
                        reader,
                    )
                    break

    def _iterations(self) -> Iterator[Note]:
        trips, start = constant_trips(self.loop), static_int(self.loop.start)
        if trips is None:
            yield self._error(
                "AI-PIPE-010",
                "the trip count of this cross-core pipeline is known only at run time: the "
                f"compiler multiplies it by num_stages={self.count} where it has to divide, and "
                "the loop runs far beyond its end; use a constant trip count",
                self.loop,
            )
        elif trips % self.count:
            yield self._error(
                "AI-PIPE-010",
                f"{trips} iterations are no multiple of num_stages={self.count}: the compiler "
                f"drops the last {trips % self.count} of them; pad the loop or choose num_stages "
                "that divides it",
                self.loop,
            )
        elif start != 0:
            yield self._error(
                "AI-PIPE-010",
                "this cross-core pipeline does not start at 0: the compiler counts groups from "
                "that number on and executes other iterations; start at 0",
                self.loop,
            )

    def _unslotted(self) -> Iterator[Note]:
        for buffer in touched(self.loop.body):
            root = root_of(buffer)
            if root.scope == "global" and _WORKSPACE in root.name and root not in self.slotted:
                yield self._error(
                    "AI-PIPE-015",
                    f"{root.name!r} gets one slot per iteration in flight, but only parameters "
                    f'whose name starts with "workspace" are allocated {self.count} times as '
                    "large: the kernel writes beyond its end; rename it",
                    self.loop,
                )
