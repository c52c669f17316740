"""Flags and barriers between pipes, cores and blocks."""

from __future__ import annotations

from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend import builder as building
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import scalar_operand
from kernels_npu.sim.frontend.values import PendingOp, describe
from kernels_npu.sim.scalar_ops import is_float

PIPES = ("MTE1", "MTE2", "MTE3", "M", "V", "FIX", "S")
MAX_FLAG = 15


def _pipe(call: str, value: Any, extra: tuple[str, ...] = ()) -> str:
    name = value.upper() if isinstance(value, str) else value
    if name not in (*PIPES, *extra):
        fail(
            "AI-SRC-029",
            f"T.{call}: {value!r} is not a pipe",
            rule="pipes are " + ", ".join((*PIPES, *extra)) + ", in any case",
            fix="use one of these names; "
            "the compiler would accept the text and the device would not",
        )
    return str(name)


def _flag(call: str, value: Any) -> ir.Expr:
    flag = scalar_operand(call, "flag", value)
    number = flag.value if isinstance(flag, ir.Const) else 0
    if is_float(flag.dtype) or not 0 <= number <= MAX_FLAG:
        fail(
            "AI-SRC-029",
            f"T.{call}: the flag is {describe(value)}",
            rule=f"flags are integers from 0 to {MAX_FLAG}; documented event ids are 0 to 7",
            fix="use a small non-negative integer",
        )
    return flag


def set_flag(src: str, dst: str, eventId: Any) -> PendingOp:
    """`T.set_flag(src_pipe, dst_pipe, id)`: signal `dst` when `src` has done everything before."""
    a, b, event = _pipe("set_flag", src), _pipe("set_flag", dst), _flag("set_flag", eventId)
    return building.op("set_flag", lambda loc: ir.SetFlag(loc=loc, src=a, dst=b, event_id=event))


def wait_flag(src: str, dst: str, eventId: Any) -> PendingOp:
    """`T.wait_flag(src_pipe, dst_pipe, id)`: `dst` waits for the matching `set_flag`."""
    a, b, event = _pipe("wait_flag", src), _pipe("wait_flag", dst), _flag("wait_flag", eventId)
    return building.op("wait_flag", lambda loc: ir.WaitFlag(loc=loc, src=a, dst=b, event_id=event))


def pipe_barrier(pipe: str) -> PendingOp:
    """`T.pipe_barrier(pipe)`: order the instructions of one pipe; `"ALL"` orders all pipes."""
    name = _pipe("pipe_barrier", pipe, ("ALL",))
    return building.op("pipe_barrier", lambda loc: ir.PipeBarrier(loc=loc, pipe=name))


def barrier_all() -> PendingOp:
    """`T.barrier_all()`: wait for all pipes of this core."""
    return building.op("barrier_all", lambda loc: ir.PipeBarrier(loc=loc, pipe="ALL"))


def set_cross_flag(pipe: str, flag: Any, mode: int = 2) -> PendingOp:
    """`T.set_cross_flag(pipe, flag, mode=2)`: signal other cores when `pipe` has drained."""
    name, number = _pipe("set_cross_flag", pipe), _flag("set_cross_flag", flag)
    if mode not in (0, 1, 2):
        fail(
            "AI-SRC-029",
            f"T.set_cross_flag: mode is {mode!r}",
            rule="mode 0: all AICs or all AIVs, 1: the AIVs of a block, 2: AIC and AIVs of a block",
            fix="use 0, 1 or 2",
        )
    return building.op(
        "set_cross_flag", lambda loc: ir.SetCrossFlag(loc=loc, pipe=name, flag_id=number, mode=mode)
    )


def wait_cross_flag(flag: Any, pipe: str = "") -> PendingOp:
    """`T.wait_cross_flag(flag, pipe="")`: wait for the flag; `pipe` matters on A5 only."""
    number = _flag("wait_cross_flag", flag)
    name = _pipe("wait_cross_flag", pipe, ("",))
    return building.op(
        "wait_cross_flag", lambda loc: ir.WaitCrossFlag(loc=loc, flag_id=number, pipe=name)
    )


def sync_all() -> PendingOp:
    """`T.sync_all()`: a barrier over all blocks of the launch."""
    return building.op("sync_all", lambda loc: ir.SyncAll(loc=loc))


def loop_break() -> PendingOp:
    """`T.loop_break()`: leave the innermost loop."""
    return building.op("loop_break", lambda loc: ir.Break(loc=loc))
