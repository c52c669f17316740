"""What orders the scalar unit with the other pipes, and what does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang

BLOCKS, N = 4, 64


def waits_on_scalar() -> Any:
    """The scalar unit waits for a load, under a schedule that may hold a core back."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 8), "int32"), y: T.Tensor((8, 8), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 8], "int32")
                b = T.alloc_ub([8, 8], "int32")
                with T.Scope("V"):
                    for i in T.serial(8):
                        T.copy(x[i, :], a[i, :])
                        T.set_flag("mte2", "s", 1)
                        T.wait_flag("mte2", "s", 1)
                        for j in T.serial(8):
                            b[i, j] = a[i, j] + 1
                    T.set_flag("s", "mte3", 0)
                    T.wait_flag("s", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize("seed", range(8))
def test_random_schedule_does_not_lose_flags_for_the_scalar_unit(
    launch: Callable[..., Any], rng: np.random.Generator, seed: int
) -> None:
    x = rng.integers(0, 99, (8, 8)).astype(np.int32)
    result = launch(waits_on_scalar(), x, schedule=("random", seed))
    assert result.record.findings == ()
    np.testing.assert_array_equal(result.outputs[0], x + 1)


def scalar_between(*, read: bool, loaded: bool) -> Any:
    """The scalar unit reads what the vector unit made, then the buffer is loaded again."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((2, N), "float32"), y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                b = T.alloc_ub([1, N], "float32")
                total = T.alloc_var("float32", init=0.0)
                with T.Scope("V"):
                    T.copy(x[0, :], a)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.add(b, a, a)
                    if read:
                        total = b[0, 3]
                    if loaded:
                        T.copy(x[1, :], a)
                        T.set_flag("mte2", "v", 0)
                        T.wait_flag("mte2", "v", 0)
                        T.tile.add(b, a, total)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


def test_scalar_read_waits_for_the_vector_unit(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    clean = launch(scalar_between(read=True, loaded=True), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][0], x[1] + 2 * x[0, 3])
    twin = launch(scalar_between(read=False, loaded=True), x)
    assert [f.code for f in twin.errors] == ["AI-RACE-002"]


def stored_element(*, flag: bool, load_flag: bool = True) -> Any:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((1, N), "int32"), y: T.Tensor((1, N), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "int32")
                b = T.alloc_ub([1, N], "int32")
                with T.Scope("V"):
                    T.copy(x, a)
                    if load_flag:
                        T.set_flag("mte2", "s", 0)
                        T.wait_flag("mte2", "s", 0)
                    for i in T.serial(N):
                        b[0, i] = a[0, i] + 1
                    if flag:
                        T.set_flag("s", "mte3", 0)
                        T.wait_flag("s", "mte3", 0)
                    T.copy(b, y)

        return kernel

    return factory()


def test_elements_stored_without_a_flag_are_worth_a_warning(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.integers(0, 9, (1, N)).astype(np.int32)
    assert launch(stored_element(flag=True), x).record.findings == ()
    result = launch(stored_element(flag=False), x)
    assert [(f.code, f.severity) for f in result.record.findings] == [("AI-RACE-001", "warning")]
    assert 'T.set_flag("s", "mte3", 0)' in result.record.findings[0].fix
    np.testing.assert_array_equal(result.outputs[0], x + 1)


def test_elements_read_before_the_load_are_an_error(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = rng.integers(0, 9, (1, N)).astype(np.int32)
    result = launch(stored_element(flag=True, load_flag=False), x)
    assert [f.code for f in result.errors] == ["AI-RACE-001"]
    if schedule[0] == "late":
        assert not np.array_equal(result.outputs[0], x + 1)
