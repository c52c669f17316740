"""Software pipelines: stages, orders, versions and what the compiler gets wrong.

Bytes per memory are those that the adapter compiler reports for the same kernels.
"""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes import LoweredKernel
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, codes, load, shape_of

DEVELOPER = {
    "auto_sync": True,
    "memory_planning": True,
    "auto_cv_combine": True,
    "auto_cross_core_sync": True,
}


def row(buffer: ir.Buffer, first: ir.Expr) -> ir.Load:
    return load(buffer, first, 0)


# --------------------------------------------------------------------------- within one core


def steps(trips: ir.Expr | int, stages: int, *, outside: bool = False) -> Kernel:
    """exp(x) + x, three rows of 40 at a time."""
    k = Kernel()
    x, out = k.gm("x", (21, 40)), k.gm("out", (21, 40))
    a, b = k.alloc("a", (3, 40)), k.alloc("b", (3, 40))
    with k.loop("k", trips, kind="pipelined", num_stages=stages) as i:
        first = k.let("row", i * 3)
        k.copy(row(x, first), a)
        k.op("exp", b, a)
        k.op("add", b, b, a)
        k.copy(b, row(out, first))
    if outside:
        k.copy(row(x, ir.as_expr(0)), a)
        k.copy(a, row(out, ir.as_expr(0)))
    return k


def copies_from(lowered: LoweredKernel) -> list[int]:
    """Row of each load of the prologue."""
    rows = []
    for stmt in lowered.vector:
        if isinstance(stmt, ir.TileOp) and stmt.op == "copy":
            source = stmt.operands[0]
            if isinstance(source, ir.Load) and isinstance(source.indices[0], ir.Const):
                rows.append(int(source.indices[0].value))
    return rows


@pytest.mark.parametrize(("stages", "used"), [(1, 960), (2, 1440), (3, 1920)])
def test_loads_run_ahead_and_get_versions(stages: int, used: int) -> None:
    lowered = steps(7, stages).lower(auto_sync=True)
    assert lowered.used_bytes == {"UB": used}
    assert copies_from(lowered)[:stages] == [3 * i for i in range(stages)]
    (loop,) = (stmt for stmt in lowered.vector if isinstance(stmt, ir.For))
    body = loop.body
    while isinstance(body[0], ir.If):
        body = body[0].then
    # the load for a later iteration stands right behind the last use of what it overwrites
    assert shape_of(body) == ["exp", "add", "copy", "copy"]
    assert shape_of(lowered.vector)[-3 * stages :] == ["exp", "add", "copy"] * stages
    assert not lowered.notes


def test_fewer_iterations_than_stages() -> None:
    lowered = steps(2, 3).lower()
    assert shape_of(lowered.vector) == ["copy"] * 2 + ["exp", "add", "copy"] * 2
    assert lowered.used_bytes == {"UB": 1920}


def test_a_trip_count_known_at_run_time_guards_every_statement() -> None:
    k = steps(ir.Var("n"), 2)
    lowered = k.lower()
    assert lowered.used_bytes == {"UB": 1440}
    assert [type(stmt) for stmt in lowered.vector] == [ir.For] * 3


def test_without_stages_a_pipelined_loop_is_serial() -> None:
    assert shape_of(steps(7, 0).lower().vector) == [
        ["for k", "let row", "copy", "exp", "add", "copy"]
    ]


def test_loads_behind_everything_else_move_to_the_front() -> None:
    k = Kernel()
    x, out = k.gm("x", (64, 64)), k.gm("out", (64, 64))
    a, b = k.alloc("a", (8, 64)), k.alloc("b", (8, 64))
    with k.loop("k", 8, kind="pipelined", num_stages=3) as i:
        k.copy(row(x, i * 8), a)
        k.op("exp", b, a)
    k.copy(b, row(out, ir.as_expr(0)))
    lowered = k.lower(auto_sync=True)
    assert shape_of(lowered.vector)[:2] == ["copy", "copy"]  # two iterations ahead, not three
    assert lowered.used_bytes == {"UB": (3 + 1) * 2048}


def test_a_buffer_that_is_also_used_outside_has_one_version() -> None:
    lowered = steps(7, 2, outside=True).lower(auto_sync=True)
    assert codes(lowered) == ["AI-PIPE-011"]
    assert lowered.used_bytes == {"UB": 960}
    assert not steps(7, 1, outside=True).lower().notes  # the next load follows the last use
    assert not steps(1, 2, outside=True).lower().notes


def rejected(k: Kernel, **configs: bool) -> str:
    with pytest.raises(KernelSourceError) as caught:
        k.lower(**configs)
    assert caught.value.where is not None
    return caught.value.code


def test_a_single_statement_cannot_be_pipelined() -> None:
    k = Kernel()
    out, a = k.gm("out", (64, 64)), k.alloc("a", (8, 64))
    with k.loop("k", 8, kind="pipelined", num_stages=2) as i:
        k.copy(a, row(out, i * 8))
    assert rejected(k) == "AI-PIPE-001"


def test_a_prefetched_tile_has_one_writer() -> None:
    k = Kernel()
    x, a = k.gm("x", (64, 64)), k.alloc("a", (8, 64))
    with k.loop("k", 8, kind="pipelined", num_stages=2) as i:
        k.copy(row(x, i * 8), a)
        k.op("exp", a, a)
    assert rejected(k) == "AI-PIPE-003"


def test_a_prefetch_cannot_depend_on_the_same_iteration() -> None:
    k = Kernel()
    x, index = k.gm("x", (64, 64)), k.alloc("index", (8,), "int32")
    a, b = k.alloc("a", (8, 64)), k.alloc("b", (8, 64))
    with k.loop("k", 8, kind="pipelined", num_stages=2) as i:
        k.store(index, 0, i * 8)
        k.copy(ir.Load(x, (load(index, 0), ir.as_expr(0)), "float32"), a)
        k.op("exp", b, a)
    assert rejected(k) == "AI-PIPE-004"


def test_order_and_stage_by_hand() -> None:
    k = Kernel()
    x, out = k.gm("x", (64, 64)), k.gm("out", (64, 64))
    a = k.alloc("a", (8, 64))
    lists: dict[str, ir.Attr] = {"order": (1, 0), "stage": (0, 2)}
    with k.loop("k", 8, kind="pipelined", num_stages=0, **lists) as i:
        k.copy(row(x, i * 8), a)
        k.copy(a, row(out, i * 8))
    lowered = k.lower()
    assert lowered.used_bytes == {"UB": 2 * 2048}
    assert shape_of(lowered.vector)[:2] == ["copy", "copy"]
    k = Kernel()
    a = k.alloc("a", (8, 64))
    with k.loop("k", 8, kind="pipelined", num_stages=0, order=(0,), stage=(0,)):
        k.op("exp", a, a)
        k.op("exp", a, a)
    assert rejected(k) == "AI-PIPE-006"


def test_mixed_work_without_a_store_stops_the_compiler() -> None:
    k = Kernel()
    x = k.gm("x", (64, 64), "float16")
    b = k.alloc("b", (8, 64), "float16")
    a, l1 = k.alloc("a", (8, 64), "float16"), k.alloc("l1", (64, 64), "float16", "l1")
    c = k.alloc("c", (64, 64), "float32", "l0c")
    with k.loop("k", 8, kind="pipelined", num_stages=2):
        k.copy(x, l1)
        k.op("gemm_v0", l1, l1, c, init=True)
        k.copy(row(x, ir.as_expr(0)), a)
        k.op("exp", b, a)
    assert rejected(k, auto_cv_combine=True) == "AI-PIPE-005"
    assert k.lower().used_bytes == {"UB": 3072, "L1": 16384, "L0C": 16384}


# --------------------------------------------------------------------------- across cores


def chain(
    trips: ir.Expr | int, stages: int, *, carried: bool = False, branch: bool = False
) -> Kernel:
    """Cube, vector, cube, vector; `scale` passes from the first vector part to the second."""
    k = Kernel()
    x, y = k.gm("x", (256, 32), "float16"), k.gm("y", (32, 32), "float16")
    out, workspace_1 = k.gm("out", (32, 32)), k.gm("workspace_1", (32, 32))
    workspace_2 = k.gm("workspace_2", (32, 32), "float16")
    workspace_3 = k.gm("workspace_3", (32, 32))
    a, b, p = (k.alloc(name, (32, 32), "float16", "l1") for name in "abp")
    s, o = (k.alloc(name, (32, 32), "float32", "l0c") for name in "so")
    t, h = k.alloc("t", (16, 32)), k.alloc("h", (16, 32), "float16")
    scale, total = k.alloc("scale", (16, 32)), k.alloc("total", (16, 32))
    k.op("fill", total, ir.Const(0.0, "float32"))
    if carried:
        k.op("fill", scale, ir.Const(0.0, "float32"))
    k.copy(y, b)
    with k.loop("k", trips, kind="pipelined", num_stages=stages) as i:
        k.copy(row(x, i * 32), a)
        k.op("gemm_v0", a, b, s, init=True)
        k.copy(s, workspace_1)
        k.copy(row(workspace_1, k.vid * 16), t)
        k.op("abs", scale, t)
        if branch:
            with k.branch(i > 1):
                k.op("exp", t, t)
        else:
            k.op("exp", t, t)
        k.copy(t, h)
        k.copy(h, row(workspace_2, k.vid * 16))
        k.copy(workspace_2, p)
        k.op("gemm_v0", p, b, o, init=True)
        k.copy(o, workspace_3)
        k.copy(row(workspace_3, k.vid * 16), t)
        k.op("mul", t, t, scale)
        k.op("add", total, total, t)
    k.copy(total, row(out, k.vid * 16))
    return k


@pytest.mark.parametrize(("stages", "ub"), [(1, 7168), (2, 9216), (3, 11264)])
@pytest.mark.parametrize("planning", [False, True])
def test_parts_run_in_groups_of_iterations(stages: int, ub: int, planning: bool) -> None:
    lowered = chain(6, stages).lower(**{**DEVELOPER, "memory_planning": planning})
    assert lowered.used_bytes == {"UB": ub, "L1": 6144, "L0C": 8192}
    assert [p.shape[0] for p in lowered.func.tensors if p.name == "workspace_2"] == [stages]
    cube = ["copy", "gemm_v0", "copy"]
    assert shape_of(lowered.cube)[1] == [
        "for k_outer",
        ["for i", *cube, "set 0 FIX"],
        ["for i", "wait 1", *cube, "set 2 FIX"],
    ]
    assert not lowered.notes


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (chain(7, 2), "AI-PIPE-010"),
        (chain(ir.Var("n"), 2), "AI-PIPE-010"),
        (chain(6, 2, carried=True), "AI-PIPE-012"),
        (chain(6, 2, branch=True), "AI-PIPE-013"),
    ],
)
def test_what_changes_the_meaning_is_an_error(kernel: Kernel, code: str) -> None:
    lowered = kernel.lower(auto_cv_combine=True)
    assert codes(lowered) == [code]
    assert [note.severity for note in lowered.notes] == ["error"]


def mixed_loop(k: Kernel, *, workspace: str = "workspace_1") -> None:
    shared = next((p for p in k.params if p.name == workspace), None)
    w = shared if isinstance(shared, ir.Buffer) else k.gm(workspace, (32, 32))
    number = len(k.allocs)
    s, t = k.alloc(f"s{number}", (32, 32), "float32", "l0c"), k.alloc(f"t{number}", (16, 32))
    with k.loop("k", 4, kind="pipelined", num_stages=2):
        k.copy(s, w)
        k.copy(row(w, k.vid * 16), t)


def test_one_loop_across_cores_per_kernel() -> None:
    k = Kernel()
    mixed_loop(k)
    assert not k.lower().notes
    mixed_loop(k)
    assert rejected(k) == "AI-PIPE-002"


def test_a_workspace_of_another_name_gets_no_slots() -> None:
    k = Kernel()
    mixed_loop(k, workspace="my_workspace")
    assert codes(k.lower()) == ["AI-PIPE-015"]


def test_a_binding_that_reads_memory_is_lost() -> None:
    k = Kernel()
    w, n = k.gm("workspace_1", (32, 32)), k.gm("n", (4,), "int32")
    s, t = k.alloc("s", (32, 32), "float32", "l0c"), k.alloc("t", (16, 32))
    with k.loop("k", 4, kind="pipelined", num_stages=2) as i:
        k.copy(s, w)
        first = k.let("first", load(n, i))
        k.copy(row(w, first), t)
    assert rejected(k) == "AI-PIPE-005"


def test_a_flag_before_everything_else_is_dropped() -> None:
    k = Kernel()
    w = k.gm("workspace_1", (32, 32))
    s, t = k.alloc("s", (32, 32), "float32", "l0c"), k.alloc("t", (16, 32))
    with k.loop("k", 4, kind="pipelined", num_stages=2):
        k.barrier()
        k.copy(s, w)
        k.copy(row(w, k.vid * 16), t)
    assert codes(k.lower()) == ["AI-PIPE-014"]
