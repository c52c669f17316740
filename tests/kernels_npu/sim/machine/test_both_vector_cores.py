"""Work that both vector cores do: the same bytes, and shares by `vid`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.sim.frontend import T, tilelang

BLOCKS, N = 4, 64


def both_vector_cores(*, in_place: bool, split: bool) -> Any:
    """A kernel that does not ask for `vid`: both vector cores do the same work."""

    @tilelang.jit(pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, :], a)
                T.tile.add(a, a, 1.0)
                if split:
                    T.tile.add(a, a, vid)
                if in_place:
                    T.copy(a, x[cid, :])
                else:
                    T.copy(a, y[cid, :])

        return kernel

    return factory()


def test_the_same_bytes_from_both_vector_cores_are_no_race(
    agreeing: Callable[..., Any], launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x, y = (rng.standard_normal((2, N), dtype=np.float32) for _ in range(2))
    np.testing.assert_array_equal(
        agreeing(both_vector_cores(in_place=False, split=False), x, y)[1], x + 1
    )
    different = launch(both_vector_cores(in_place=False, split=True), x.copy(), y)
    assert {f.code for f in different.errors} == {"AI-RACE-003"}
    doubled = launch(both_vector_cores(in_place=True, split=False), x.copy(), y)
    assert {"AI-RACE-001", "AI-RACE-002"} & {f.code for f in doubled.errors}


def partly_split(*, by_vid: bool) -> Any:
    """Both vector cores store one row of a workspace; each stores its own row of the output."""

    @tilelang.jit(out_idx=[1], workspace_idx=[2], pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((2, N), "float32"),
            y: T.Tensor((4, N), "float32"),
            w: T.Tensor((2, N), "float32"),
        ):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, :], a)
                for i in T.serial(2):
                    T.tile.add(a, a, i)
                shift = vid + 1
                T.tile.mul(b, a, shift)
                if by_vid:
                    T.tile.add(a, a, b)
                T.copy(a, w[cid, :])
                T.copy(b, y[cid * 2 + vid, :])

        return kernel

    return factory()


def test_what_does_not_depend_on_vid_is_the_same_work(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    clean = launch(partly_split(by_vid=False), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][1::2], 2 * (x + 1))
    assert {f.code for f in launch(partly_split(by_vid=True), x).errors} == {"AI-RACE-003"}


def reused(*, by_vid: bool, whole: bool) -> Any:
    """A buffer that held a core's own numbers is loaded anew and stored by both vector cores."""

    @tilelang.jit(out_idx=[1], pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((4, N), "float32"), y: T.Tensor((4, N), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a = T.alloc_ub([1, N], "float32")
                total = T.alloc_ub([1, N], "float32")
                T.tile.fill(total, 0.0)
                for i in T.serial(4):
                    if i > 0 and by_vid:
                        T.copy(a, total)
                    if whole:
                        T.copy(x[i, :], a)
                    else:
                        T.copy(x[i, : N // 2], a[:, : N // 2])
                    T.tile.add(total, total, a)
                    T.copy(total, y[i, :])
                    T.tile.mul(a, a, vid + 1)

        return kernel

    return factory()


def test_a_buffer_that_is_loaded_anew_is_the_same_on_both_cores(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, N), dtype=np.float32)
    clean = launch(reused(by_vid=False, whole=True), x)
    assert not clean.errors
    np.testing.assert_allclose(clean.outputs[0], x.cumsum(0), rtol=1e-5)
    for other in (reused(by_vid=True, whole=True), reused(by_vid=False, whole=False)):
        assert "AI-RACE-003" in {f.code for f in launch(other, x).errors}
