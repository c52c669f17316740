"""Twins of the checks of one instruction: written bytes, bounds, alignment, dtypes, capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import HazardError

SYNCED = {"tl.ascend_auto_sync": True}


def partial_store(rows: int) -> Any:
    """Loads 8 rows and stores `rows` of them."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 64), "float32"), y: T.Tensor((16, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16, 64], "float32")
                b = T.alloc_ub([16, 64], "float32")
                T.copy(x, a[0:8, :])
                T.tile.add(b, a, a)
                T.copy(b[0:rows, :], y[0:rows, :])

        return kernel

    return factory()


def test_unwritten_bytes_matter_only_when_they_are_stored(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((8, 64), dtype=np.float32)
    clean = launch(partial_store(8), x)
    assert clean.record.findings == ()
    np.testing.assert_array_equal(clean.outputs[0][:8], x + x)
    twin = launch(partial_store(9), x)
    assert [f.code for f in twin.errors] == ["AI-INIT-001"]
    assert twin.errors[0].loc is not None and twin.errors[0].loc.file == __file__


def test_unwritten_rows_pass_a_row_reduction_without_reaching_other_rows(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    def make(count: int) -> Any:
        @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
        def factory() -> Any:
            @T.prim_func
            def kernel(x: T.Tensor((8, 64), "float32"), y: T.Tensor((16,), "float32")):
                with T.Kernel(1, is_npu=True, threads=1) as _cid:
                    a = T.alloc_ub([16, 64], "float32")
                    s = T.alloc_ub([16], "float32")
                    T.copy(x, a[0:8, :])
                    T.reduce_sum(a, s, dim=-1)
                    T.copy(s[0:count], y[0:count])

            return kernel

        return factory()

    x = rng.standard_normal((8, 64), dtype=np.float32)
    assert launch(make(8), x).record.findings == ()
    assert launch(make(16), x).codes == {"AI-INIT-001"}


def indexed_load() -> Any:
    """Gathers pages of a paged tensor through an index that lives in global memory."""

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((4, 2, 64), "float32"),
            pages: T.Tensor((2,), "int32"),
            y: T.Tensor((2, 2, 64), "float32"),
        ):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([2, 64], "float32")
                page = pages[cid]
                T.copy(x[page, :, :], a)
                T.copy(a, y[cid, :, :])

        return kernel

    return factory()


@pytest.mark.parametrize("bad", [4, -1, 1000])
def test_index_outside_a_tensor(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int], bad: int
) -> None:
    x = rng.standard_normal((4, 2, 64), dtype=np.float32)
    good = launch(indexed_load(), x, np.array([3, 0], np.int32))
    np.testing.assert_array_equal(good.outputs[0], x[[3, 0]])
    assert good.record.findings == ()
    result = launch(indexed_load(), x, np.array([1, bad], np.int32))
    (finding,) = result.errors
    assert finding.code == "AI-BOUND-001"
    assert f"x[{bad}, 0, 0]" in finding.message
    assert "block 1" in finding.message


@pytest.mark.parametrize(("row", "expected"), [(3, set()), (4, {"AI-BOUND-008"})])
def test_single_row_past_the_end_moves_nothing(
    launch: Callable[..., Any], rng: np.random.Generator, row: int, expected: set[str]
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((4, 64), "float32"), y: T.Tensor((1, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 64], "float32")
                T.copy(x[cid + row, :], a[0, :])
                T.copy(a[0, :], y[cid, :])

        return kernel

    x = rng.standard_normal((4, 64), dtype=np.float32)
    result = launch(factory(), x)
    assert result.codes == expected
    np.testing.assert_array_equal(result.outputs[0][0], x[3] if row == 3 else 0 * x[3])


def row_operand(width: int) -> Any:
    """Works on single rows of a [4, width] buffer."""

    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((4 * width,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([4, width], "float32")
                for i in T.serial(4):
                    T.tile.fill(a[i, :], 1.0)
                flat = T.reshape(a, [4 * width])
                T.copy(flat, y)

        return kernel

    return factory()


def test_rows_that_start_between_32_byte_boundaries(launch: Callable[..., Any]) -> None:
    assert launch(row_operand(16)).record.findings == ()
    assert "AI-BOUND-006" in launch(row_operand(12)).codes


@pytest.mark.parametrize(
    ("dtype", "operation", "code"),
    [
        ("float32", "exp", None),
        ("float16", "exp", None),
        ("bfloat16", "exp", "AI-TYPE-001"),
        ("int32", "exp", "AI-TYPE-001"),
        ("int32", "abs", None),
        ("bfloat16", "abs", "AI-TYPE-001"),
    ],
)
def test_arithmetic_that_the_vector_unit_lacks(
    launch: Callable[..., Any], dtype: str, operation: str, code: str | None
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        op = getattr(T.tile, operation)

        @T.prim_func
        def kernel(x: T.Tensor((16, 64), dtype), y: T.Tensor((16, 64), dtype)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16, 64], dtype)
                T.copy(x, a)
                op(a, a)
                T.copy(a, y)

        return kernel

    element = {"bfloat16": ml_dtypes.bfloat16}.get(dtype) or np.dtype(dtype)
    result = launch(factory(), np.ones((16, 64), element))
    assert result.codes == ({code} if code else set())
    silent = launch(factory(), np.ones((16, 64), element), checks=Checks(dtypes=False))
    assert silent.codes == set()


@pytest.mark.parametrize(("rows", "severity"), [(700, None), (768, "warning"), (769, "error")])
def test_capacity_of_the_unified_buffer(
    launch: Callable[..., Any], rows: int, severity: str | None
) -> None:
    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((rows, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([rows, 64], "float32")
                T.tile.fill(a, 1.0)
                T.copy(a, y)

        return kernel

    result = launch(factory())
    assert [f.severity for f in result.record.findings] == ([severity] if severity else [])
    if severity:
        assert str(rows * 256) in result.record.findings[0].message


def test_column_slice_used_as_a_vector_is_refused(launch: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((16, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16, 64], "float32")
                T.tile.fill(a[:, :32], 1.0)
                T.copy(a, y)

        return kernel

    with pytest.raises(KernelSourceError) as caught:
        launch(factory())
    assert caught.value.code == "AI-SRC-053"


def test_findings_raise_by_default(rng: np.random.Generator) -> None:
    from kernels_npu.sim.machine import GmArg

    kernel = indexed_load()
    arrays = [
        rng.standard_normal((4, 2, 64), dtype=np.float32),
        np.array([0, 9], np.int32),
        np.zeros((2, 2, 64), np.float32),
    ]
    args = [
        GmArg(a.reshape(-1).view(np.uint8), a.shape, p.dtype, p.name)
        for a, p in zip(arrays, kernel.prim_func.params)
    ]
    with pytest.raises(HazardError) as caught:
        kernel.compiled.launch(args, SimConfig())
    assert caught.value.code == "AI-BOUND-001"
    assert str(caught.value).count("AI-BOUND-001") == 1


def scalar_operand(width: int) -> Any:
    @tilelang.jit(out_idx=[0], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((8, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                s = T.alloc_ub([8, width], "float32")
                a = T.alloc_ub([8, 64], "float32")
                T.tile.createvecindex(s, 3.0)
                T.tile.fill(a, 1.0)
                for i in T.serial(8):
                    T.tile.mul(a[i, :], a[i, :], s[i, 0])
                T.copy(a, y)

        return kernel

    return factory()


def test_element_of_a_wide_buffer_as_scalar_operand(launch: Callable[..., Any]) -> None:
    clean = launch(scalar_operand(1))
    column = np.arange(3, 11, dtype=np.float32)
    np.testing.assert_array_equal(clean.outputs[0], np.repeat(column[:, None], 64, axis=1))
    assert clean.record.findings == ()
    assert launch(scalar_operand(8)).codes == {"AI-BOUND-010"}


@pytest.mark.parametrize(("blocks", "expected"), [(24, set()), (25, {"AI-SYNC-008"})])
def test_global_barrier_needs_all_blocks_on_cores(
    launch: Callable[..., Any], blocks: int, expected: set[str]
) -> None:
    @tilelang.jit(out_idx=[0])
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((blocks, 64), "float32")):
            with T.Kernel(blocks, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, 64], "float32")
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    T.barrier_all()
                    if vid == 0:
                        T.copy(a, y[cid, :])
                T.sync_all()

        return kernel

    assert launch(factory()).codes == expected


@pytest.mark.parametrize(("event", "expected"), [(7, set()), (16, {"AI-SYNC-007"})])
def test_event_ids(launch: Callable[..., Any], event: int, expected: set[str]) -> None:
    @tilelang.jit(out_idx=[0])
    def factory() -> Any:
        @T.prim_func
        def kernel(y: T.Tensor((8, 64), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, 64], "float32")
                with T.Scope("V"):
                    T.tile.fill(a, 1.0)
                    for i in T.serial(event, event + 1):
                        T.set_flag("v", "mte3", i)
                        T.wait_flag("v", "mte3", i)
                    T.copy(a, y)

        return kernel

    assert launch(factory()).codes == expected
