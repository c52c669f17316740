"""Mistakes of the source that the compiler accepts: lost updates, endless loops, odd settings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import SimConfig, configure
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}
N = 64


def plain() -> Any:
    @T.prim_func
    def kernel(y: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([8, 8], "int32")
            total = cid * 2
            for i in T.serial(8):
                total = total + 1
                for j in T.serial(8):
                    a[i, j] = total
            T.copy(a, y)

    return kernel


def augmented() -> Any:
    @T.prim_func
    def kernel(y: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, 8], "int32")
            total = 0
            for i in T.serial(8):
                total += 1  # noqa: SIM113 (the mistake)
                for j in T.serial(8):
                    a[i, j] = total
            T.copy(a, y)

    return kernel


def register() -> Any:
    @T.prim_func
    def kernel(y: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, 8], "int32")
            total = T.alloc_var("int32", init=0)
            for i in T.serial(8):
                total += 1
                for j in T.serial(8):
                    a[i, j] = total
            T.copy(a, y)

    return kernel


def within() -> Any:
    """The second binding reads the first one of the same iteration."""

    @T.prim_func
    def kernel(y: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, is_npu=True, threads=1) as _cid:
            a = T.alloc_ub([8, 8], "int32")
            for i in T.serial(8):
                total = i * 2
                total = total + 1
                for j in T.serial(8):
                    a[i, j] = total
            T.copy(a, y)

    return kernel


@pytest.mark.parametrize(
    ("source", "expected", "rows"),
    [
        (plain, ["AI-SRC-071"], [1] * 8),
        (augmented, ["AI-SRC-071"], [1] * 8),
        (register, [], range(1, 9)),
        (within, [], range(1, 17, 2)),
    ],
)
def test_a_binding_that_does_not_accumulate(
    launch: Callable[..., Any], source: Callable[[], Any], expected: list[str], rows: list[int]
) -> None:
    result = launch(tilelang.jit(out_idx=[0], pass_configs=SYNCED)(source)())
    assert [f.code for f in result.record.findings] == expected
    np.testing.assert_array_equal(result.outputs[0], np.repeat(np.array(rows), 8).reshape(8, 8))


def searching(*, steps: bool) -> Any:
    """The first power of two that is at least x[0]; without `steps` the search stands still."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8,), "int32"), y: T.Tensor((8,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8], "int32")
                power = T.alloc_var("int32", init=1)
                while power < x[0]:
                    a[0] = power
                    if steps:
                        power = power * 2
                T.tile.fill(a, power)
                T.copy(a, y)

        return kernel

    return factory()


def test_a_while_loop_that_ends(launch: Callable[..., Any], schedule: tuple[str, int]) -> None:
    result = launch(searching(steps=True), np.full(8, 1000, np.int32))
    np.testing.assert_array_equal(result.outputs[0], np.full(8, 1024))
    assert result.record.findings == ()


def test_a_while_loop_that_does_not_end(launch: Callable[..., Any]) -> None:
    kernel = searching(steps=False).compiled
    from kernels_npu.sim.machine import GmArg

    x, y = np.full(8, 1000, np.int32), np.zeros(8, np.int32)
    args = [GmArg(v.view(np.uint8), v.shape, "int32", n) for n, v in (("x", x), ("y", y))]
    record = kernel.launch(args, SimConfig(loop_limit=100, on_finding="report"))
    (finding,) = record.findings
    assert finding.code == "AI-SRC-072" and "after 100 iterations" in finding.message
    with configure(loop_limit=5_000, on_finding="report"):
        (finding,) = kernel.launch(args).findings
    assert "after 5,000 iterations" in finding.message


@pytest.mark.parametrize(("rows", "expected"), [(16, []), (8, ["hint", "hint"])])
def test_tiles_past_the_end_are_worth_a_hint(
    launch: Callable[..., Any], rng: np.random.Generator, rows: int, expected: list[str]
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((rows, N), "float32"), y: T.Tensor((rows, N), "float32")):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([8, N], "float32")
                T.copy(x[cid * 8 : cid * 8 + 8, :], a)
                T.copy(a, y[cid * 8 : cid * 8 + 8, :])

        return kernel

    x = rng.standard_normal((rows, N), dtype=np.float32)
    result = launch(factory(), x)
    np.testing.assert_array_equal(result.outputs[0], x)
    assert [f.severity for f in result.record.findings] == expected
    assert result.codes <= {"AI-BOUND-008"}


def flagged(*, auto: bool) -> Any:
    @tilelang.jit(out_idx=[1], pass_configs={"tl.ascend_auto_sync": auto})
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((1, N), "float32"), y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                T.copy(x, a)
                T.set_flag("mte2", "mte3", 0)
                T.wait_flag("mte2", "mte3", 0)
                T.copy(a, y)

        return kernel

    return factory()


@pytest.mark.parametrize(("auto", "expected"), [(False, []), (True, ["AI-SYNC-012"])])
def test_flags_by_hand_beside_automatic_ones(
    launch: Callable[..., Any], rng: np.random.Generator, auto: bool, expected: list[str]
) -> None:
    x = rng.standard_normal((1, N), dtype=np.float32)
    result = launch(flagged(auto=auto), x)
    np.testing.assert_array_equal(result.outputs[0], x)
    assert [f.code for f in result.record.findings] == expected


@pytest.mark.parametrize("scope", ["C", "V"])
def test_a_wrong_scope_is_one_finding(launch: Callable[..., Any], scope: str) -> None:
    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, N], "float32")
                with T.Scope(scope):
                    T.tile.fill(a, 1.0)
                    for _i in T.serial(3):
                        T.tile.add(a, a, 2.0)
                    T.copy(a, y)

        return kernel

    result = launch(factory())
    found = [f for f in result.record.findings if f.code == "AI-SRC-042"]
    assert len(found) == (scope == "C")
    if found:
        assert "as 2 more here" in found[0].message
    else:
        np.testing.assert_array_equal(result.outputs[0], np.full((1, N), 7))
