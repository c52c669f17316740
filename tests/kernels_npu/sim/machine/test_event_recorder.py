"""The recorded graph and the monitor agree on which kernels have races, and share nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import CompiledKernel, GmArg
from kernels_npu.sim.machine.happens_before import compare
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE
from kernels_npu.sim.mutation.deletions import place_of, places, without
from kernels_npu.sim.mutation.reasons import needs_no_edge

TILES, ROWS, COLS = 5, 16, 32


@tilelang.jit(out_idx=[1, 2], workspace_idx=[3])
def everything() -> Any:
    """Two slots, scalar accesses, both vector cores, and a workspace with a credit."""

    @T.prim_func
    def kernel(
        x: T.Tensor((TILES * ROWS, COLS), "float16"),
        y: T.Tensor((TILES * ROWS, COLS), "float16"),
        z: T.Tensor((TILES * ROWS, ROWS), "float32"),
        workspace: T.Tensor((ROWS, COLS), "float16"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a = T.alloc_ub([2, ROWS // 2, COLS], "float16")
            one = T.alloc_ub([16], "float16")
            l1 = T.alloc_L1([ROWS, COLS], "float16")
            l0 = T.alloc_L0C([ROWS, ROWS], "float32")
            with T.Scope("V"):
                T.tile.fill(one, 1.0)
                T.set_flag("mte3", "mte2", 2)
                T.set_flag("mte3", "mte2", 3)
                for i in T.serial(TILES):
                    T.wait_flag("mte3", "mte2", 2 + i % 2)
                    T.copy(x[i * ROWS + vid * (ROWS // 2), 0], a[i % 2, :, :])
                    T.set_flag("mte2", "v", 4)
                    T.wait_flag("mte2", "v", 4)
                    one[3] = one[2]
                    T.set_flag("s", "v", 5)
                    T.wait_flag("s", "v", 5)
                    T.tile.add(a[i % 2, :, :], a[i % 2, :, :], a[i % 2, :, :])
                    a[i % 2, 0, 0] = one[3]
                    T.barrier_all()
                    if i > 0:
                        T.wait_cross_flag(1)
                    T.copy(a[i % 2, :, :], workspace[vid * (ROWS // 2), 0])
                    T.set_cross_flag("MTE3", 0)
                    T.copy(a[i % 2, :, :], y[i * ROWS + vid * (ROWS // 2), 0])
                    T.set_flag("mte3", "mte2", 2 + i % 2)
                T.wait_flag("mte3", "mte2", 2)
                T.wait_flag("mte3", "mte2", 3)
            with T.Scope("C"):
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)
                    T.copy(workspace, l1)
                    if i < TILES - 1:
                        T.set_cross_flag("MTE2", 1)
                    T.gemm_v0(l1, l1, l0, transpose_B=True, init=True)
                    T.copy(l0, z[i * ROWS, 0])
                    T.barrier_all()

    return kernel


KERNEL = everything()
PLACES = sorted(places(KERNEL.prim_func))


def arguments(func: ir.PrimFunc) -> list[GmArg | int | float]:
    rng = np.random.default_rng(0)
    made: list[GmArg | int | float] = []
    for tensor in func.tensors:
        shape = tuple(int(getattr(d, "value", d)) for d in tensor.shape)
        data = rng.standard_normal(shape).astype(tensor.dtype).reshape(-1).view(np.uint8)
        made.append(GmArg(data, shape, tensor.dtype, tensor.name))
    return made


def compiled(deleted: set[int]) -> CompiledKernel:
    source = without(KERNEL.prim_func, {PLACES[i] for i in deleted})
    base = KERNEL.compiled
    return CompiledKernel(source, base.target, base.pass_configs, base.soc)


def races(kernel: CompiledKernel) -> set[str]:
    checks = Checks(flags=False)
    config = SimConfig(checks=checks, on_finding="report")
    findings = kernel.launch(arguments(kernel.source), config).findings
    return {f.code for f in findings if f.severity != "hint"}


def unordered(kernel: CompiledKernel) -> int:
    (execution,) = kernel.record(arguments(kernel.source)).executions
    return compare(execution, execution, needs_no_edge).unordered


def test_the_complete_kernel_is_in_order() -> None:
    kernel = compiled(set())
    assert races(kernel) == set()
    assert unordered(kernel) == 0


@given(st.sets(st.integers(0, len(PLACES) - 1), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_race_is_found_exactly_where_the_graph_leaves_two_accesses_unordered(
    deleted: set[int],
) -> None:
    kernel = compiled(deleted)
    found = races(kernel)
    if "AI-SYNC-002" in found:
        return  # a deadlock ends both executions where it arises
    assert bool({c for c in found if c.startswith("AI-RACE")}) == (unordered(kernel) > 0)


def test_pairs_are_the_sets_and_waits_that_met() -> None:
    recorder = KERNEL.compiled.record(arguments(KERNEL.prim_func))
    met = {(place_of(a), place_of(b)) for a, b in recorder.pairs}
    names = sorted((a.statement, b.statement) for a, b in met if a and b)
    assert names == [
        ("set_cross_flag(MTE2)", "wait_cross_flag"),
        ("set_cross_flag(MTE3)", "wait_cross_flag"),
        ("set_flag(MTE2, V)", "wait_flag(MTE2, V)"),
        *[("set_flag(MTE3, MTE2)", "wait_flag(MTE3, MTE2)")] * 5,
        ("set_flag(S, V)", "wait_flag(S, V)"),
    ]


def test_only_chosen_blocks_are_recorded(rng: np.random.Generator) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def scale(x: T.Tensor((12, 64), "float32"), y: T.Tensor((12, 64), "float32")):
            with T.Kernel(12, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 64], "float32")
                with T.Scope("V"):
                    T.copy(x[cid, 0], a)
                    T.barrier_all()
                    T.tile.mul(a, a, 2.0)
                    T.barrier_all()
                    T.copy(a, y[cid, 0])

        return scale

    kernel = factory().compiled
    args = arguments(kernel.source)
    before = np.array(args[1].data)  # type: ignore[union-attr]
    recorder = kernel.record(args, SimConfig(blocks=(3, 7)))
    assert len(recorder.executions) == 2
    x, y = (a.data.view(np.float32).reshape(12, 64) for a in args)  # type: ignore[union-attr]
    np.testing.assert_array_equal(y[[3, 7]], x[[3, 7]] * 2)
    others = [i for i in range(12) if i not in (3, 7)]
    np.testing.assert_array_equal(y[others], before.view(np.float32).reshape(12, 64)[others])


@pytest.mark.parametrize("pipe", ["mte2", "mte3", "v"])
def test_a_barrier_of_one_pipe_orders_its_own_accesses(pipe: str) -> None:
    """Known to the graph, which can tell completion from issue; accepted for granted elsewhere."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def twice(x: T.Tensor((8, 64), "float32"), y: T.Tensor((8, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 64], "float32")
                with T.Scope("V"):
                    T.copy(x, a)
                    T.pipe_barrier(pipe)
                    T.copy(x, a)
                    T.barrier_all()

        return twice

    kernel = factory().compiled
    (execution,) = kernel.record(arguments(kernel.source)).executions
    assert all(chain % AGENTS_PER_CORE for chain in execution.by_chain())
    strict = compare(execution, execution, lambda a, b: False)
    assert strict.unordered == (0 if pipe == "mte2" else 1)
    assert compare(execution, execution, needs_no_edge).unordered == 0
