"""Code generation of flags, barriers and cross-core flags."""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.core_runtime import DOCUMENTED_EVENT
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.stretch_steps import (
    BarrierStep,
    Event,
    FenceStep,
    PipeBarrierStep,
    SetStep,
    WaitStep,
)


def emit_fence(code: AccessCodegen, src: str, dst: str) -> None:
    if code.monitored and not code.auto_sync:
        step = FenceStep(src, dst) if "S" not in (src, dst) else None
        code.emit(f"R.fence({src!r}, {dst!r})", step)
    if code.deferred:
        code.emit("z += 1")
        code.emit(f"Q_{src}.append(('set', {dst!r}, ('fence', z)))")
        code.emit(f"Q_{dst}.append(('wait', {src!r}, ('fence', z)))")
    if code.traced:
        code.emit(f"X.fence({src!r}, {dst!r})")


def emit_barrier(code: AccessCodegen, site: Site | None = None) -> None:
    """A barrier over all pipes of the core; `site` when the program asks for it."""
    if code.traced:
        code.emit(f"X.barrier({-1 if site is None else site.index})")
    if code.monitored:
        number = -1 if site is None else site.index
        code.emit(f"R.barrier({number})", BarrierStep(number))
    if code.deferred:
        code.emit("yield ('drain', ALL_PIPES)")


def emit_sync(code: AccessCodegen, stmt: ir.Stmt) -> bool:
    """Emit a synchronisation statement; False when `stmt` is none."""
    if isinstance(stmt, ir.SetFlag):
        _emit_set_flag(code, stmt)
    elif isinstance(stmt, ir.WaitFlag):
        _emit_wait_flag(code, stmt)
    elif isinstance(stmt, ir.PipeBarrier):
        if stmt.pipe.upper() == "ALL":
            emit_barrier(code, code.site(stmt, "barrier_all", "S", ()))
        elif code.monitored:
            pipe = stmt.pipe.upper()
            code.emit(f"R.pipe_barrier({pipe!r})", PipeBarrierStep(pipe) if pipe != "S" else None)
    elif isinstance(stmt, ir.SetCrossFlag):
        site = code.site(stmt, "set_cross_flag", stmt.pipe, ())
        flag = code.named(stmt.flag_id)
        if code.traced:
            code.emit(f"X.set_cross({site.index}, {stmt.pipe!r}, {flag}, {stmt.mode})")
        if code.deferred and stmt.pipe != "S":
            code.emit(
                f"Q_{stmt.pipe}.append(('cross', {flag}, {stmt.mode}, {site.index}, "
                f"R.release({stmt.pipe!r})))"
            )
        else:
            code.emit(f"R.set_cross({site.index}, {stmt.pipe!r}, {flag}, {stmt.mode})")
        code.emit("yield None")
    elif isinstance(stmt, ir.WaitCrossFlag):
        site = code.site(stmt, "wait_cross_flag", "S", ())
        flag = code.named(stmt.flag_id)
        code.emit(f"if not R.cross_ready({flag}): yield ('cross', {flag}, {site.index})")
        code.emit(f"R.take_cross({flag})")
        if code.traced:
            code.emit(f"X.wait_cross({site.index}, {flag})")
    elif isinstance(stmt, ir.SyncAll):
        site = code.site(stmt, "sync_all", "S", ())
        emit_barrier(code)
        cores = _participants(code, stmt)
        if code.traced:
            code.emit(f"X.arrive({cores!r})")
        code.emit(f"yield ('sync_all', {cores!r}, {site.index})")
        if code.traced:
            code.emit(f"X.leave({site.index}, {cores!r})")
    else:
        return False
    return True


def _emit_set_flag(code: AccessCodegen, stmt: ir.SetFlag) -> None:
    event = code.named(stmt.event_id)
    site = code.site(stmt, "set_flag", stmt.src, ())
    if code.checks.races or code.checks.flags:
        known = _constant_event(stmt)
        code.emit(
            f"R.set_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})",
            SetStep(site.index, known) if known else None,
        )
    if code.traced:
        code.emit(f"X.set_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})")
    if code.deferred:
        item = f"('set', {stmt.dst!r}, {event})"
        if stmt.src == "S":
            code.emit(f"E.add(('S', {stmt.dst!r}, {event}))")
        else:
            code.emit(f"Q_{stmt.src}.append({item})")


def _emit_wait_flag(code: AccessCodegen, stmt: ir.WaitFlag) -> None:
    event = code.named(stmt.event_id)
    site = code.site(stmt, "wait_flag", stmt.dst, ())
    if code.checks.races or code.checks.flags:
        known = _constant_event(stmt)
        code.emit(
            f"R.wait_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})",
            WaitStep(site.index, known) if known else None,
        )
    if code.traced:
        code.emit(f"X.wait_flag({site.index}, {stmt.src!r}, {stmt.dst!r}, {event})")
    if code.deferred:
        if stmt.dst == "S":
            code.emit(f"yield ('flag', {stmt.src!r}, {event}, {site.index})")
        else:
            code.emit(f"Q_{stmt.dst}.append(('wait', {stmt.src!r}, {event}))")


def _constant_event(stmt: ir.SetFlag | ir.WaitFlag) -> Event | None:
    """The flag, when its event id is a documented number and the scalar unit is not concerned."""
    event = stmt.event_id
    if not isinstance(event, ir.Const) or not 0 <= event.value <= DOCUMENTED_EVENT:
        return None
    return None if "S" in (stmt.src, stmt.dst) else (stmt.src, stmt.dst, int(event.value))


def _participants(code: AccessCodegen, stmt: ir.SyncAll) -> tuple[int, ...]:
    """Core numbers that take part in a `sync_all`.

    AscendC waits for the cores of both types wherever the call stands; PTO, inside a `T.Scope`, for
    those of the scope's type.
    """
    scope = _scopes(code.func.body).get(id(stmt)) if code.context.target == "pto" else None
    return {"cube": (0,), "vector": (1, 2)}.get(scope or "", (0, 1, 2))


def _scopes(body: tuple[ir.Stmt, ...], scope: str | None = None) -> dict[int, str | None]:
    """The `T.Scope` around each `sync_all`, by the statement's identity."""
    found: dict[int, str | None] = {}
    for stmt in body:
        if isinstance(stmt, ir.SyncAll):
            found[id(stmt)] = scope
        inner = stmt.core if isinstance(stmt, ir.CoreScope) else scope
        for nested in ir.children(stmt):
            found |= _scopes(nested, inner)
    return found
