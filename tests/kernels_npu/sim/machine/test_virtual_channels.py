"""Copies between the core types of a block, through automatic workspaces, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.config import Checks
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.conftest import launch_kernel, run_agreeing

SYNC = {"tl.ascend_auto_sync": True, "tl.ascend_auto_cv_combine": True}
PAIRED = {**SYNC, "tl.ascend_auto_cross_core_sync": True}
BLOCKS, M, N, K = 2, 32, 16, 32


def through_both(configs: dict[str, bool], steps: int, threads: int | None = 2) -> Any:
    """`c = exp(a @ b) @ b2`, accumulated over `steps` tiles of `a`'s columns."""

    @tilelang.jit(out_idx=[3], pass_configs=configs)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((BLOCKS * M, steps * K), "float16"),
            b: T.Tensor((steps * K, N), "float16"),
            b2: T.Tensor((N, N), "float16"),
            c: T.Tensor((BLOCKS * M, N), "float32"),
        ):
            with T.Kernel(BLOCKS, is_npu=True, threads=threads) as cid:
                a_l1 = T.alloc_L1([M, K], "float16")
                b_l1 = T.alloc_L1([K, N], "float16")
                w_l1 = T.alloc_L1([N, N], "float16")
                p_l1 = T.alloc_L1([M, N], "float16")
                s_l0 = T.alloc_L0C([M, N], "float32")
                o_l0 = T.alloc_L0C([M, N], "float32")
                s_ub = T.alloc_ub([M, N], "float32")
                p_ub = T.alloc_ub([M, N], "float16")
                o_ub = T.alloc_ub([M, N], "float32")
                sum_ub = T.alloc_ub([M, N], "float32")
                T.tile.fill(sum_ub, 0.0)
                T.copy(b2, w_l1)
                for k in T.serial(steps):
                    T.copy(a[cid * M, k * K], a_l1)
                    T.copy(b[k * K, 0], b_l1)
                    T.gemm_v0(a_l1, b_l1, s_l0, init=True)
                    T.copy(s_l0, s_ub)
                    T.tile.exp(s_ub, s_ub)
                    T.copy(s_ub, p_ub)
                    T.copy(p_ub, p_l1)
                    T.gemm_v0(p_l1, w_l1, o_l0, init=True)
                    T.copy(o_l0, o_ub)
                    T.tile.add(sum_ub, sum_ub, o_ub)
                T.copy(sum_ub, c[cid * M, 0])

        return kernel

    return factory()


def inputs(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    a = (rng.standard_normal((BLOCKS * M, steps * K)) / 8).astype(np.float16)
    b = (rng.standard_normal((steps * K, N)) / 4).astype(np.float16)
    return a, b, rng.standard_normal((N, N)).astype(np.float16)


def reference(a: np.ndarray, b: np.ndarray, b2: np.ndarray, steps: int) -> np.ndarray:
    total = np.zeros((len(a), N), np.float32)
    for k in range(steps):
        part = slice(k * K, (k + 1) * K)
        scores = a[:, part].astype(np.float32) @ b[part].astype(np.float32)
        probs = np.exp(scores).astype(np.float16).astype(np.float32)
        total += probs @ b2.astype(np.float32)
    return total


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("steps", [1, 3])
def test_values_in_both_directions(threads: int, steps: int) -> None:
    given = inputs(steps)
    out = run_agreeing(through_both(PAIRED, steps, threads), *given)[0]
    np.testing.assert_allclose(out, reference(*given, steps), rtol=2e-3, atol=2e-3)


def test_workspaces_are_parameters_with_one_slot_per_block() -> None:
    func = through_both(PAIRED, 2).compiled.func
    shapes = {p.name: (p.dtype, tuple(p.shape[1:])) for p in func.tensors[4:]}
    assert shapes == {
        "workspace_1": ("float32", (M, N)),
        "workspace_2": ("float16", (M, N)),
        "workspace_3": ("float32", (M, N)),
    }


def test_without_automatic_flags_nothing_orders_the_cores() -> None:
    found = launch_kernel(through_both(SYNC, 1), *inputs(1))
    text = "\n".join(map(str, found.errors))
    assert {f.code for f in found.errors} >= {"AI-RACE-001"}
    assert all(name in text for name in ("workspace_1", "workspace_2", "workspace_3"))


def one_way(body: Any, configs: dict[str, bool] = PAIRED, threads: int = 2) -> Any:
    """`body` brings `s = a @ b` (in L0C) to `out`, a tile in UB."""

    @tilelang.jit(out_idx=[2], pass_configs=configs)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((BLOCKS * M, K), "float16"),
            b: T.Tensor((K, N), "float16"),
            c: T.Tensor((BLOCKS * M, N), "float32"),
        ):
            with T.Kernel(BLOCKS, is_npu=True, threads=threads) as cid:
                a_l1 = T.alloc_L1([M, K], "float16")
                b_l1 = T.alloc_L1([K, N], "float16")
                s_l0 = T.alloc_L0C([M, N], "float32")
                s_ub = T.alloc_ub([M, N], "float32")
                t_ub = T.alloc_ub([M, N], "float32")
                out = T.alloc_ub([M, N], "float32")
                T.copy(a[cid * M, 0], a_l1)
                T.copy(b, b_l1)
                T.gemm_v0(a_l1, b_l1, s_l0, init=True)
                body(s_l0, s_ub, t_ub, out, a_l1, b_l1)
                T.copy(out, c[cid * M, 0])

        return kernel

    return factory()


@T.macro
def twice_into_one_buffer(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    T.copy(s_l0, s_ub)
    T.tile.mul(out, s_ub, 2.0)
    T.gemm_v0(a_l1, b_l1, s_l0)
    T.copy(s_l0, s_ub)
    T.tile.add(out, out, s_ub)


@T.macro
def read_by_rows(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    T.copy(s_l0, s_ub)
    for i in T.serial(M):
        T.tile.mul(s_ub[i, :], s_ub[i, :], 4.0)
    T.tile.mul(out, s_ub, 1.0)


@T.macro
def reused_before(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    T.tile.fill(s_ub, 1.0)
    T.tile.mul(t_ub, s_ub, 3.0)
    T.copy(s_l0, s_ub)
    T.tile.add(out, s_ub, t_ub)


@T.macro
def accumulated_onto(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    T.tile.fill(t_ub, 2.0)
    T.copy(s_l0, s_ub)
    T.tile.axpy(s_ub, t_ub, 0.5)
    T.tile.mul(out, s_ub, 1.0)


@T.macro
def moved_in_parallel(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    for i, j in T.Parallel(M, N):
        s_ub[i, j] = s_l0[i, j]
    T.tile.mul(out, s_ub, 5.0)


@T.macro
def rectified(s_l0, s_ub, t_ub, out, a_l1, b_l1):
    T.copy(s_l0, s_ub, enable_relu=True)
    T.tile.mul(out, s_ub, 1.0)


#: body -> its value from `s = a @ b`, and whether the compiler loads somewhere else
ONE_WAY = {
    twice_into_one_buffer: (lambda s: 4 * s, True),
    read_by_rows: (lambda s: 4 * s, True),
    reused_before: (lambda s: s + 3, True),
    accumulated_onto: (lambda s: s + 1, True),
    moved_in_parallel: (lambda s: 5 * s, False),
    rectified: (lambda s: np.maximum(s, 0), False),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", ONE_WAY, ids=lambda body: body.__name__)
def test_loads_stand_where_the_program_needs_them(body: Any, threads: int) -> None:
    expected, wrong = ONE_WAY[body]
    a, b, _ = inputs(1)
    kernel = one_way(body, SYNC, threads)
    found = launch_kernel(kernel, a, b, checks=Checks.none())
    want = expected(a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_allclose(found.outputs[0], want, rtol=1e-4, atol=1e-4)
    noted = "AI-MEM-022" in {note.code for note in kernel.compiled.lowered.notes}
    assert noted == wrong


def test_flags_cannot_pair_two_loads_of_one_destination() -> None:
    with pytest.raises(KernelSourceError) as caught:
        one_way(twice_into_one_buffer).compiled
    assert caught.value.code == "AI-SYNC-021"
