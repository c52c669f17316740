# ruff: noqa: E501 - a table of kernel texts reads better in one line each
"""Loops, branches and core scopes."""

from __future__ import annotations

import itertools

import pytest

from kernels_npu.sim import ir
from kernels_npu.sim.frontend import loops
from kernels_npu.sim.scalar_ops import fold_binary


@pytest.mark.parametrize(
    ("head", "kind", "start", "stop"),
    [
        ("range(4)", "serial", 0, 4),
        ("range(2, 5)", "serial", 2, 5),
        ("T.serial(3)", "serial", 0, 3),
        ("T.serial(1, 3)", "serial", 1, 3),
        ("T.unroll(3)", "unroll", 0, 3),
        ("T.Pipelined(7, num_stages=2)", "pipelined", 0, 7),
        ("T.Pipelined(1, 7)", "pipelined", 1, 7),
    ],
)
def test_counted_loops(kernel, head, kind, start, stop):
    (loop,) = kernel(f"for i in {head}:\n    idx[i] = i").body
    assert (loop.kind, loop.start.value, loop.stop.value, loop.var.name) == (kind, start, stop, "i")


def test_pipelined_keeps_its_options(kernel):
    (loop,) = kernel(
        "for i in T.Pipelined(8, num_stages=2, cross_interval=4):\n    idx[i] = i"
    ).body
    assert loop.attrs == {"num_stages": 2, "cross_interval": 4}


def test_runtime_bounds(script):
    assert script("for i in T.serial(idx[0], n):\n    pass")[0] == "for i in serial(idx[0], n):"


def test_parallel(kernel):
    (loop,) = kernel(
        "for i, j in T.Parallel(64, 128):\n    a[i, j] = T.exp(b[i, j]) * row[i, 0]"
    ).body
    assert isinstance(loop, ir.Parallel)
    assert loop.extents == (64, 128) and [v.name for v in loop.vars] == ["i", "j"]


def test_grid_nests(kernel):
    (outer,) = kernel("for i, j in T.grid(2, 3):\n    a[i, j] = 0.0").body
    assert (outer.var.name, outer.body[0].var.name) == ("i", "j")


def test_while(script):
    assert script("while idx[0] != n:\n    T.barrier_all()") == [
        "while idx[0] != n:",
        "    pipe_barrier(ALL)",
    ]


def test_scopes(script):
    assert script(
        'with T.Scope("C"):\n    T.barrier_all()\nwith T.Scope("V"):\n    T.barrier_all()'
    ) == [
        "on cube:",
        "    pipe_barrier(ALL)",
        "on vector:",
        "    pipe_barrier(ALL)",
    ]


def test_if_then_else_frames(script):
    body = "with T.If(n > 1):\n    with T.Then():\n        T.barrier_all()\n    with T.Else():\n        T.sync_all()"
    assert script(body) == ["if n > 1:", "    pipe_barrier(ALL)", "else:", "    sync_all()"]


def test_if_and_then_in_one_with(script):
    assert script("with T.If(n > 1), T.Then():\n    T.barrier_all()") == [
        "if n > 1:",
        "    pipe_barrier(ALL)",
    ]


@pytest.mark.parametrize(
    ("threads", "expected"), [("", None), (", threads=1", 1), (", threads=2", 2)]
)
def test_kernel_threads(load, threads, expected):
    target = "(cid, vid)" if expected is None else "cid"
    module = load(
        f"""
        @T.prim_func
        def main(A: T.Tensor((16,), "float16")):
            with T.Kernel(3, is_npu=True{threads}) as {target}:
                pass
        """
    )
    func = module.main.ir
    assert (func.threads, func.grid.value, func.cid.name) == (expected, 3, "cid")


def _evaluate(expr: ir.Expr, env: dict[int, int]) -> int:
    if isinstance(expr, ir.Const):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return env[expr.uid]
    assert isinstance(expr, ir.Binary)
    return int(fold_binary(expr.op, _evaluate(expr.a, env), _evaluate(expr.b, env), "int32"))


@pytest.mark.parametrize("domain", [(6, 8), (3, 4, 8), (5, 16)])
@pytest.mark.parametrize("cores", [3, 20])
def test_persistent_deals_every_tile_once(domain, cores):
    seen = []
    for core in range(cores):
        plan = loops.expand_persistent(loops.Persistent(list(domain), cores, core))
        for wave in range(int(plan.waves.value)):
            env = {plan.wave.uid: wave}
            if not _evaluate(plan.exhausted, env):
                seen.append(tuple(_evaluate(c, env) for c in plan.coordinates))
    assert sorted(seen) == sorted(itertools.product(*(range(n) for n in domain)))


def test_persistent_in_a_kernel(script):
    text = script("for i, j in T.Persistent([4, 8], 20, cid):\n    a[i, j] = 0.0")
    assert text[0] == "for w in persistent(0, 2):"
    assert "break" in text[2]


def test_persistent_of_one_wave_has_no_exit_test(script):
    """The compiler leaves the test out, so cores beyond the domain run past it."""
    assert not any(
        "break" in line
        for line in script("for i, j in T.Persistent([2, 2], 20, cid):\n    a[i, j] = 0.0")
    )
