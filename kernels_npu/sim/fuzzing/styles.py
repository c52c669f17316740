"""Ways to synchronise a loop of loads, computation and stores on a vector core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kernels_npu.sim.fuzzing.programs import Program
from kernels_npu.sim.fuzzing.writer import Writer

SYNC = "tl.ascend_auto_sync"
PLAN = "tl.ascend_memory_planning"
COMBINE = "tl.ascend_auto_cv_combine"
CROSS = "tl.ascend_auto_cross_core_sync"

#: Padding copies and products use the event ids below themselves.
_FREE_EVENT = 2

#: Writes the statements of one stage of a tile, for the buffers of a slot.
Stage = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Style:
    """name: `automatic` and `halved` leave it to the compiler; `barriers`; `flags`.

    slots: sets of buffers that tiles use in turn. configs: pass configs. allocate: of the buffers
    that tensors are loaded into. halved: whether the compiler splits tiles over the vector cores.
    """

    name: str
    slots: int = 1
    configs: tuple[str, ...] = field(default=())
    allocate: str = "alloc_ub"
    halved: bool = False

    @property
    def manual(self) -> bool:
        """Whether the text synchronises."""
        return not self.configs


AUTOMATIC = Style(name="automatic", configs=(SYNC,))
BARRIERS = Style(name="barriers")
STYLES = (
    AUTOMATIC,
    BARRIERS,
    Style(name="flags"),
    Style(name="flags", slots=2),
    Style(name="automatic", configs=(SYNC, PLAN), allocate="alloc_shared"),
    Style(name="halved", configs=(SYNC,), halved=True),
)


def write_tiles(
    write: Writer, style: Style, steps: int, stages: tuple[Stage, Stage, Stage], *, reloads: bool
) -> None:
    """A loop over `t` with the stages load, compute and store.

    reloads: whether a store reads a buffer that a load fills.
    """
    credits = [("v", "mte2"), ("mte3", "v")] + [("mte3", "mte2")] * reloads
    if style.name == "flags":
        _each(write, "set", credits, range(style.slots))
    with write.block(f"for t in T.serial({steps}):"):
        for slot in range(style.slots):
            if style.slots == 1:
                _tile(write, style, stages, slot, reloads)
            else:
                with write.block(f"if t % {style.slots} == {slot}:"):
                    _tile(write, style, stages, slot, reloads)
    if style.name == "flags":
        _each(write, "wait", credits, range(style.slots))


def _tile(
    write: Writer, style: Style, stages: tuple[Stage, Stage, Stage], slot: int, reloads: bool
) -> None:
    load, compute, store = stages
    if style.name == "flags":
        again = [("mte3", "mte2")] * reloads
        _each(write, "wait", [("v", "mte2"), *again], [slot])
        load(slot)
        _each(write, "set", [("mte2", "v")], [slot])
        _each(write, "wait", [("mte2", "v"), ("mte3", "v")], [slot])
        compute(slot)
        _each(write, "set", [("v", "mte2"), ("v", "mte3")], [slot])
        _each(write, "wait", [("v", "mte3")], [slot])
        store(slot)
        _each(write, "set", [("mte3", "v"), *again], [slot])
        return
    for stage in stages:
        stage(slot)
        if style.manual:
            write("T.barrier_all()")


def _each(write: Writer, verb: str, edges: Iterable[tuple[str, str]], slots: Iterable[int]) -> None:
    for slot in slots:
        for source, target in edges:
            write(f'T.{verb}_flag("{source}", "{target}", {slot + _FREE_EVENT})')


def allocate(write: Writer, program: Program, style: Style, slot: int) -> dict[str, str]:
    """Allocate the buffers of a slot; their names by the program's."""
    names = {"mask": f"mask_{slot}"}
    for value in program.buffers:
        names[value.name] = f"{value.name}_{slot}"
        # Where only elements are accessed, the compiler would infer a shared buffer to L1.
        kind = style.allocate if value in program.loaded else "alloc_ub"
        extents = list(value.extents(program.rows, program.cols))
        write(f'{names[value.name]} = T.{kind}({extents}, "{value.dtype}")')
    if program.masked:
        write(f'{names["mask"]} = T.alloc_ub([{program.rows * program.cols // 8}], "uint8")')
    return names
