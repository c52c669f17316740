"""Copies between the core types of a block, through automatic workspaces, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
