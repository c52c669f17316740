"""Copies into L1 and out of L0C: clearing, conversion, relu, scale."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import values

SYNCED = {"tl.ascend_auto_sync": True}


def through_l1(rows: int, slot: int, run_time: bool, target: str = "ascendc") -> Any:
    """Two loads into slot `slot` of an L1 buffer; products with the identity show what is in it."""

    @tilelang.jit(out_idx=[3], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((rows, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            s: T.int32,
            y: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([2, 32, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                T.copy(eye, b)
                if run_time:
                    T.copy(x[0:32, :], a[s, :, :])
                    T.gemm_v0(a[s, :, :], b, c, init=True)
                else:
                    T.copy(x[0:32, :], a[slot, :, :])
                    T.gemm_v0(a[slot, :, :], b, c, init=True)
                T.copy(c, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("rows", "slot", "run_time", "found"),
    [
        (32, 0, False, False),
        (32, 1, False, False),
        (32, 0, True, False),
        (11, 0, False, False),
        (11, 1, False, True),
        (11, 1, True, True),
        (11, 0, True, True),  # the compiler sees an offset that is not constant
    ],
)
def test_only_a_clipped_load_to_the_start_of_l1_clears_it(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    rows: int,
    slot: int,
    run_time: bool,
    found: bool,
) -> None:
    x = values(rng, (rows, 32), "float16")
    eye = np.eye(32, dtype=np.float16)
    result = launch(through_l1(rows, slot, run_time), x, eye, slot)
    assert result.codes == ({"AI-INIT-001"} if found else set())
    np.testing.assert_array_equal(result.outputs[0][:rows], x.astype(np.float32))
    if not found:
        assert not result.outputs[0][rows:].any()


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("run_time", [False, True])
def test_target_pto_clears_what_a_clipped_load_leaves_of_its_tile(
    launch: Callable[..., Any], rng: np.random.Generator, slot: int, run_time: bool
) -> None:
    x = values(rng, (11, 32), "float16")
    eye = np.eye(32, dtype=np.float16)
    result = launch(through_l1(11, slot, run_time, "pto"), x, eye, slot)
    assert result.codes == set()
    np.testing.assert_array_equal(result.outputs[0][:11], x.astype(np.float32))
    assert not result.outputs[0][11:].any()


def spliced(first: int, cols: int, target: str) -> Any:
    """A matrix in L1 loaded in two pieces of rows, `cols` of its 32 columns."""

    @tilelang.jit(out_idx=[2], pass_configs=SYNCED, target=target)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((64, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            y: T.Tensor((64, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([64, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([64, 32], "float32")
                T.copy(eye, b)
                if first > 0:
                    T.copy(x[:first, :cols], a[:first, :cols])
                T.copy(x[first:, :cols], a[first:, :cols])
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y)

        return kernel

    return factory()


@pytest.mark.parametrize("first", [0, 1, 11, 57])
def test_a_matrix_in_l1_is_loaded_in_pieces(
    agreeing: Callable[..., Any], rng: np.random.Generator, first: int
) -> None:
    x = values(rng, (64, 32), "float16")
    y = agreeing(spliced(first, 32, "ascendc"), x, np.eye(32, dtype=np.float16))[0]
    np.testing.assert_array_equal(y, x.astype(np.float32))


@pytest.mark.parametrize(
    ("first", "cols", "severities"),
    [(0, 32, set()), (16, 32, {"warning"}), (0, 16, {"error"})],
)
def test_target_pto_lays_out_each_piece_by_itself(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    first: int,
    cols: int,
    severities: set[str],
) -> None:
    x = values(rng, (64, 32), "float16")
    result = launch(spliced(first, cols, "pto"), x, np.eye(32, dtype=np.float16))
    found = {f.severity for f in result.record.findings if f.code == "AI-BOUND-019"}
    assert found == severities


@pytest.mark.parametrize("convert", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("relu", [False, True])
def test_fixpipe_converts_clips_and_applies_relu(
    agreeing: Callable[..., Any], rng: np.random.Generator, convert: str, relu: bool
) -> None:
    @tilelang.jit(out_idx=[2], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((32, 32), "float16"),
            eye: T.Tensor((32, 32), "float16"),
            y: T.Tensor((40, 50), convert),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "float16")
                b = T.alloc_L1([32, 32], "float16")
                c = T.alloc_L0C([32, 32], "float32")
                T.copy(x, a)
                T.copy(eye, b)
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y[20:52, 30:62], enable_relu=relu)

        return kernel

    x = values(rng, (32, 32), "float16")
    y = agreeing(factory(), x, np.eye(32, dtype=np.float16))[0]
    expected = np.maximum(x, 0) if relu else x
    np.testing.assert_array_equal(y[20:, 30:], expected[:20, :20].astype(numpy_dtype(convert)))


def quantised(scale: float) -> Any:
    @tilelang.jit(out_idx=[2, 3], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((32, 32), "int8"),
            w: T.Tensor((32, 32), "int8"),
            y: T.Tensor((32, 32), "float16"),
            z: T.Tensor((32, 32), "int32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_L1([32, 32], "int8")
                b = T.alloc_L1([32, 32], "int8")
                c = T.alloc_L0C([32, 32], "int32")
                T.set_deq_scale(scale)
                T.copy(x, a)
                T.copy(w, b)
                T.gemm_v0(a, b, c, init=True)
                T.copy(c, y)
                T.copy(c, z)

        return kernel

    return factory()


@pytest.mark.parametrize("scale", [1.0, 0.125])
def test_fixpipe_scales_integers(
    agreeing: Callable[..., Any], rng: np.random.Generator, scale: float
) -> None:
    x, w = (values(rng, (32, 32), "int8") for _ in range(2))
    product = x.astype(np.int32) @ w.astype(np.int32)
    y, z = agreeing(quantised(scale), x, w)[:2]
    np.testing.assert_array_equal(z, product)
    with np.errstate(over="ignore"):
        expected = (product.astype(np.float32) * np.float32(scale)).astype(np.float16)
    np.testing.assert_array_equal(y, expected)
