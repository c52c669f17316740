"""`T.Parallel` that moves tiles into L1 and between the core types, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.conftest import launch_kernel, run_agreeing

SYNCED = {"tl.ascend_auto_sync": True, "tl.ascend_auto_cv_combine": True}
M, N, K = 48, 32, 16  # K is less than the tiles in L1 have


def product(load: Callable[..., None]) -> Any:
    """`a @ b`, whose tiles `load` brings to L1."""

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            a: T.Tensor((2 * M, K), "float16"),
            b: T.Tensor((K, N), "float16"),
            c: T.Tensor((2 * M, N), "float16"),
        ):
            with T.Kernel(2, is_npu=True) as (cid, _):
                a_l1 = T.alloc_L1([M, 2 * K], "float16")
                b_l1 = T.alloc_L1([2 * K, N], "float16")
                c_l0 = T.alloc_L0C([M, N], "float32")
                load(a, b, a_l1, b_l1, cid)
                T.gemm_v0(a_l1, b_l1, c_l0, init=True)
                for i, j in T.Parallel(M, N):
                    c[cid * M + i, j] = c_l0[i, j]

        return kernel

    return factory()


@T.macro
def one_loop_each(a, b, a_l1, b_l1, cid):
    for i, j in T.Parallel(M, K):
        a_l1[i, j] = a[cid * M + i, j]
    for i, j in T.Parallel(K, N):
        b_l1[i, j] = b[i, j]


@T.macro
def one_loop_for_both(a, b, a_l1, b_l1, cid):
    for i, j in T.Parallel(M, 2 * N):
        a_l1[i, j] = a[cid * M + i, j]
        b_l1[i, j] = b[i, j]


@pytest.mark.parametrize("load", [one_loop_each, one_loop_for_both], ids=lambda m: m.__name__)
def test_tensors_are_loaded_into_l1_by_whole_tiles(load: Callable[..., None]) -> None:
    """Beyond the tensor's border the tile is zero, as in a copy."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((2 * M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    kernel = product(load)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(run_agreeing(kernel, a, b)[0], want, rtol=2e-3, atol=2e-3)
    hints = [n for n in kernel.compiled.lowered.notes if n.code == "AI-MEM-027"]
    assert len(hints) == 2 and all(hint.severity == "hint" for hint in hints)


def test_annotations_are_lost_although_the_loop_becomes_a_copy() -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((M, N), "float16")):
            with T.Kernel(1, is_npu=True) as _cid:
                a_l1 = T.alloc_L1([M, N], "float16")
                T.annotate_address({a_l1: 1024})
                for i, j in T.Parallel(M, N):
                    a_l1[i, j] = a[i, j]

        return kernel

    lowered = factory().compiled.lowered
    assert [n.code for n in lowered.notes] == ["AI-MEM-013"]
    assert set(lowered.placements.values()) == {0}


def stored(configs: dict[str, bool], threads: int | None) -> Any:
    """`a @ a.T` in float32, stored by a `T.Parallel` without a cast."""

    @tilelang.jit(out_idx=[1], pass_configs=configs)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((2 * M, K), "float16"), c: T.Tensor((2 * M, M), "float32")):
            with T.Kernel(2, is_npu=True, threads=threads) as cid:
                a_l1 = T.alloc_L1([M, K], "float16")
                c_l0 = T.alloc_L0C([M, M], "float32")
                T.copy(a[cid * M, 0], a_l1)
                T.gemm_v0(a_l1, a_l1, c_l0, transpose_B=True, init=True)
                for i, j in T.Parallel(M, M):
                    c[cid * M + i, j] = c_l0[i, j]

        return kernel

    return factory()


@pytest.mark.parametrize("threads", [1, 2])
def test_without_a_cast_an_accumulator_is_stored_by_the_vector_cores(threads: int) -> None:
    rng = np.random.default_rng(6)
    a = rng.standard_normal((2 * M, K)).astype(np.float16)
    tiles = a.astype(np.float32).reshape(2, M, K)
    want = np.concatenate([tile @ tile.T for tile in tiles])
    paired = {**SYNCED, "tl.ascend_auto_cross_core_sync": True}
    kernel = stored(paired, threads)
    np.testing.assert_allclose(run_agreeing(kernel, a)[0], want, rtol=1e-5, atol=1e-5)
    assert "AI-MEM-028" in {note.code for note in kernel.compiled.lowered.notes}
    unpaired = launch_kernel(stored(SYNCED, threads), a)
    assert {f.code for f in unpaired.errors} & {"AI-RACE-001", "AI-RACE-002"}


def test_moves_without_a_path_are_refused() -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((M, N), "float16")):
            with T.Kernel(1, is_npu=True) as _cid:
                a_l1 = T.alloc_L1([M, N], "float16")
                c_l0 = T.alloc_L0C([M, N], "float32")
                T.copy(a, a_l1)
                for i, j in T.Parallel(M, N):
                    a_l1[i, j] = T.cast(c_l0[i, j], "float16")

        return kernel

    with pytest.raises(KernelSourceError) as caught:
        launch_kernel(factory(), np.zeros((M, N), np.float16))
    assert caught.value.code == "AI-SRC-058"
