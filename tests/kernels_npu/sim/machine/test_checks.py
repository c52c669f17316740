"""Twins of the checks of one instruction: written bytes, bounds, alignment, dtypes, capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

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


@pytest.mark.parametrize(("event", "expected"), [(7, []), (8, ["warning"]), (16, ["error"])])
def test_event_ids(launch: Callable[..., Any], event: int, expected: list[str]) -> None:
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

    findings = launch(factory()).record.findings
    assert [f.severity for f in findings] == expected
    assert all(f.code == "AI-SYNC-007" for f in findings)


def element_store(loaded: int, target: str) -> Any:
    """Only `loaded` of 16 elements are written before they are copied one by one."""

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((16,), "float32"), y: T.Tensor((16,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([16], "float32")
                b = T.alloc_ub([16], "float32")
                with T.Scope("V"):
                    for i in T.serial(loaded):
                        a[i] = x[i]
                    for i in T.serial(16):
                        if target == "global":
                            y[i] = a[i] + 1.0
                        if target == "chosen":
                            b[i] = T.if_then_else(i < loaded, a[i], 0.0)
                        if target == "ub":
                            b[i] = a[i] + 1.0
                    if target != "global":
                        T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("loaded", "target", "expected"),
    [
        (16, "ub", set()),
        (15, "ub", {"AI-INIT-001"}),
        (16, "global", set()),
        (15, "global", {"AI-INIT-001"}),
        (15, "chosen", set()),
    ],
)
def test_unwritten_elements_pass_through_scalar_code(
    launch: Callable[..., Any], loaded: int, target: str, expected: set[str]
) -> None:
    x = np.arange(16, dtype=np.float32)
    result = launch(element_store(loaded, target), x)
    assert result.codes == expected
    assert result.record.findings == () or result.record.findings[0].loc is not None


def test_count_beyond_the_buffer_goes_on_into_the_next_one(launch: Callable[..., Any]) -> None:
    @tilelang.jit(out_idx=[1, 2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((64,), "float32"),
            y: T.Tensor((32,), "float32"),
            z: T.Tensor((32,), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([32], "float32")
                b = T.alloc_ub([32], "float32")
                c = T.alloc_ub([32], "float32")
                d = T.alloc_ub([32], "float32")
                T.copy(x[0:32], a)
                T.copy(x[32:64], b)
                T.tile.cast(c, a, "CAST_RINT", 64)
                T.copy(c, y)
                T.copy(d, z)

        return kernel

    x = np.arange(64, dtype=np.float32) + 0.25
    result = launch(factory(), x)
    assert [(f.code, f.severity) for f in result.record.findings] == [
        ("AI-BOUND-013", "warning")
    ] * 2
    np.testing.assert_array_equal(np.concatenate(result.outputs), np.rint(x))


@pytest.mark.parametrize(("count", "code"), [(64, None), (10**6, "AI-BOUND-013")])
def test_count_beyond_the_memory_ends_with_it(
    launch: Callable[..., Any], count: int, code: str | None
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((64,), "float16"), y: T.Tensor((64,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([64], "float16")
                b = T.alloc_ub([64], "float32")
                T.copy(x, a)
                T.tile.cast(b, a, "CAST_NONE", count)
                T.copy(b, y)

        return kernel

    x = np.arange(64).astype(np.float16)
    result = launch(factory(), x)
    assert result.errors == []
    assert result.codes == ({code} if code else set())
    np.testing.assert_array_equal(result.outputs[0], x)


def half_sum(cols: int, dim: int, target: str) -> Any:
    size = 8 if dim == -1 else cols

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, cols), "float16"), y: T.Tensor((size,), "float16")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([8, cols], "float16")
                b = T.alloc_ub([size], "float16")
                T.copy(x, a)
                T.reduce_sum(a, b, dim=dim)
                T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("cols", "dim", "target", "expected"),
    [
        (128, -1, "ascendc", set()),
        (144, -1, "ascendc", {"AI-BOUND-014"}),
        (32, 0, "ascendc", {"AI-BOUND-014"}),
        (144, -1, "pto", set()),
    ],
)
def test_sums_of_half_tiles(
    launch: Callable[..., Any], cols: int, dim: int, target: str, expected: set[str]
) -> None:
    result = launch(half_sum(cols, dim, target), np.ones((8, cols), np.float16))
    assert result.codes == expected and result.errors == []
    assert (result.outputs[0] == (cols if dim == -1 else 8)).all()


@pytest.mark.parametrize(
    ("rows", "target", "expected"),
    [(32, "ascendc", set()), (24, "ascendc", {"AI-BOUND-015"}), (24, "pto", set())],
)
def test_transposes_of_whole_tiles(
    launch: Callable[..., Any], rows: int, target: str, expected: set[str]
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((rows, 32), "float32"), y: T.Tensor((32, rows), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([rows, 32], "float32")
                b = T.alloc_ub([32, rows], "float32")
                T.copy(x, a)
                T.tile.transpose(b, a)
                T.copy(b, y)

        return kernel

    assert launch(factory(), np.zeros((rows, 32), np.float32)).codes == expected


@pytest.mark.parametrize(
    ("bits", "mode", "expected"),
    [
        (32, "VSEL_TENSOR_TENSOR_MODE", {"AI-BOUND-002", "AI-INIT-001"}),
        (64, "VSEL_TENSOR_TENSOR_MODE", set()),
        (8, "VSEL_CMPMASK_SPR", set()),
    ],
)
def test_mask_shorter_than_the_selection(
    launch: Callable[..., Any], bits: int, mode: str, expected: set[str]
) -> None:
    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((512,), "float32"), y: T.Tensor((512,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([512], "float32")
                b = T.alloc_ub([512], "float32")
                m = T.alloc_ub([bits], "uint8")
                T.copy(x, a)
                T.tile.fill(m, 255)
                T.tile.select(b, m, a, a, mode)
                T.copy(b, y)

        return kernel

    assert launch(factory(), np.ones(512, np.float32)).codes == expected


def hidden_event(event: int, *, partial: bool) -> Any:
    """A credit stays set across a product, or across a load that the border clips."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((32, 32), "float16"), y: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                u = T.alloc_ub([48, 32], "float16")
                with T.Scope("C"):
                    T.set_flag("m", "mte1", event)
                    T.copy(x, a)
                    T.gemm_v0(a, a, c, init=True)
                    T.wait_flag("m", "mte1", event)
                    T.copy(c, y)
                with T.Scope("V"):
                    T.set_flag("v", "mte2", event)
                    if partial:
                        T.copy(x[0:48, :], u)
                    T.wait_flag("v", "mte2", event)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("event", "partial", "count"), [(2, True, 0), (0, False, 1), (0, True, 2), (1, True, 1)]
)
def test_event_ids_that_operations_use_themselves(
    launch: Callable[..., Any], event: int, partial: bool, count: int
) -> None:
    x = np.ones((32, 32), np.float16)
    findings = launch(hidden_event(event, partial=partial), x).record.findings
    findings = [f for f in findings if f.severity != "hint"]
    assert [f.code for f in findings] == ["AI-SYNC-010"] * count
