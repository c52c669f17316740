"""Software-pipelined loops compute what the serial loop computes, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
DEVELOPER = {
    "tl.ascend_auto_sync": True,
    "tl.ascend_memory_planning": True,
    "tl.ascend_auto_cv_combine": True,
    "tl.ascend_auto_cross_core_sync": True,
}


def rows_in_steps(trips: int, stages: int, run_time: bool = False) -> Any:
    """out = exp(x) + x, `trips` times 3 rows; `run_time` takes the trip count as an argument."""

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((3 * trips, 40), "float32"),
            n: T.int32,
            out: T.Tensor((3 * trips, 40), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, vid), T.Scope("V"):
                if vid == 0:
                    a = T.alloc_ub([3, 40], "float32")
                    b = T.alloc_ub([3, 40], "float32")
                    for k in T.Pipelined(n if run_time else trips, num_stages=stages):
                        row = k * 3
                        T.copy(x[row, 0], a)
                        T.tile.exp(b, a)
                        T.tile.add(b, b, a)
                        T.copy(b, out[row, 0])

        return kernel

    return factory()


@pytest.mark.parametrize("run_time", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("trips", [1, 2, 3, 7])
def test_a_loop_within_one_core_computes_the_same(
    agreeing: Callable[..., Any], rng: np.random.Generator, trips: int, stages: int, run_time: bool
) -> None:
    x = rng.standard_normal((3 * trips, 40), dtype=np.float32)
    out = agreeing(rows_in_steps(trips, stages, run_time), x, trips)[0]
    # NumPy's float32 function is off by a bit now and then, and the sum may cancel.
    expected = np.exp(x.astype(np.float64)).astype(np.float32) + x
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def product(depth: int, stages: int, step: int = 32) -> Any:
    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((48, depth), "float16"),
            y: T.Tensor((depth, 80), "float16"),
            out: T.Tensor((48, 80), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([48, step], "float16")
                b = T.alloc_L1([step, 80], "float16")
                c = T.alloc_L0C([48, 80], "float32")
                with T.Scope("C"):
                    for k in T.Pipelined(T.ceildiv(depth, step), num_stages=stages):
                        T.copy(x[0, k * step], a)
                        T.copy(y[k * step, 0], b)
                        if k == 0:
                            T.gemm_v0(a, b, c, init=True)
                        else:
                            T.gemm_v0(a, b, c)
                    T.copy(c, out)

        return kernel

    return factory()


@pytest.mark.parametrize(("depth", "stages"), [(32, 2), (64, 2), (160, 2), (160, 3), (224, 1)])
def test_a_matrix_product_with_loads_ahead(
    agreeing: Callable[..., Any], rng: np.random.Generator, depth: int, stages: int
) -> None:
    x = rng.standard_normal((48, depth)).astype(np.float16)
    y = rng.standard_normal((depth, 80)).astype(np.float16)
    out = agreeing(product(depth, stages), x, y)[0]
    expected = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


def test_a_tail_that_lands_in_a_later_version_keeps_what_was_there(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    """Only a load to the buffer's start clears it; the compiler pads no other version."""
    x = rng.standard_normal((48, 50)).astype(np.float16)
    y = rng.standard_normal((50, 80)).astype(np.float16)
    assert "AI-INIT-001" in launch(product(50, 2), x, y).codes


def chain(
    trips: int, stages: int, interval: int = 1, *, carried: bool = False, reused: bool = False
) -> Any:
    """sum over k of (exp(x_k @ y) @ y) * |x_k @ y|: two cube and two vector parts.

    carried: the buffer between the vector parts is also used outside the loop. reused: both cube
    parts write the same workspace.
    """

    @tilelang.jit(out_idx=[2], workspace_idx=[3, 4, 5], pass_configs=DEVELOPER)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((32 * trips, 32), "float16"),
            y: T.Tensor((32, 32), "float16"),
            out: T.Tensor((32, 32), "float32"),
            workspace_1: T.Tensor((32, 32), "float32"),
            workspace_2: T.Tensor((32, 32), "float16"),
            workspace_3: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a = T.alloc_L1([32, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                s = T.alloc_L0C([32, 32], "float32")
                o = T.alloc_L0C([32, 32], "float32")
                p = T.alloc_L1([32, 32], "float16")
                t = T.alloc_ub([16, 32], "float32")
                h = T.alloc_ub([16, 32], "float16")
                scale = T.alloc_ub([16, 32], "float32")
                total = T.alloc_ub([16, 32], "float32")
                T.tile.fill(total, 0.0)
                if carried:
                    T.tile.fill(scale, 0.0)
                T.copy(y, b)
                for k in T.Pipelined(trips, num_stages=stages, cross_interval=interval):
                    T.copy(x[k * 32, 0], a)
                    T.gemm_v0(a, b, s, init=True)
                    T.copy(s, workspace_1)
                    T.copy(workspace_1[vid * 16, 0], t)
                    T.tile.abs(scale, t)
                    T.tile.exp(t, t)
                    T.copy(t, h)
                    T.copy(h, workspace_2[vid * 16, 0])
                    T.copy(workspace_2, p)
                    T.gemm_v0(p, b, o, init=True)
                    if reused:
                        T.copy(o, workspace_1)
                        T.copy(workspace_1[vid * 16, 0], t)
                    else:
                        T.copy(o, workspace_3)
                        T.copy(workspace_3[vid * 16, 0], t)
                    T.tile.mul(t, t, scale)
                    T.tile.add(total, total, t)
                T.copy(total, out[vid * 16, 0])

        return kernel

    return factory()


def chain_reference(x: Any, y: Any, trips: int) -> Any:
    wide, total = y.astype(np.float32), np.zeros((32, 32), np.float32)
    for k in range(trips):
        s = x[32 * k : 32 * k + 32].astype(np.float32) @ wide
        p = np.exp(s).astype(np.float16).astype(np.float32)
        total += (p @ wide) * np.abs(s)
    return total


@pytest.mark.parametrize(
    ("trips", "stages", "interval"), [(1, 1, 1), (4, 1, 1), (4, 2, 1), (6, 3, 2), (8, 4, 2)]
)
def test_a_loop_across_cores_computes_the_same(
    launch: Callable[..., Any], rng: np.random.Generator, trips: int, stages: int, interval: int
) -> None:
    x = (rng.standard_normal((32 * trips, 32)) / 8).astype(np.float16)
    y = rng.standard_normal((32, 32)).astype(np.float16)
    for schedule in (("eager", 0), ("late", 0), ("random", 3)):
        result = launch(chain(trips, stages, interval), x, y, schedule=schedule)
        assert not result.errors
        np.testing.assert_allclose(
            result.outputs[0], chain_reference(x, y, trips), rtol=2e-3, atol=2e-3
        )


def test_a_value_carried_between_the_parts_in_one_buffer_is_found(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((128, 32)).astype(np.float16)
    y = rng.standard_normal((32, 32)).astype(np.float16)
    assert "AI-PIPE-012" in launch(chain(4, 2, carried=True), x, y).codes
    assert "AI-PIPE-012" not in launch(chain(4, 2), x, y).codes


def test_a_workspace_written_in_two_parts_is_overwritten_while_it_is_read(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((128, 32)).astype(np.float16)
    y = rng.standard_normal((32, 32)).astype(np.float16)
    assert "AI-RACE-002" in launch(chain(4, 2, reused=True), x, y).codes
