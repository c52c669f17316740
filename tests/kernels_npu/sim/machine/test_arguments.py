"""What a launch accepts: scalars of all kinds, symbolic dimensions, wrong arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import SimulationError
from kernels_npu.sim.frontend import T, tilelang

SYNCED = {"tl.ascend_auto_sync": True}


def scalar_kernel(dtype: str, register: str) -> Any:
    """y = x + s by the vector unit; z = s by the scalar unit."""

    @tilelang.jit(out_idx=[2, 3], pass_configs=SYNCED)
    def factory() -> Any:
        kind = getattr(T, register)

        @T.prim_func
        def kernel(
            s: kind,
            x: T.Tensor((1, 64), dtype),
            y: T.Tensor((1, 64), dtype),
            z: T.Tensor((1, 8), register),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, 64], dtype)
                b = T.alloc_ub([1, 8], register)
                T.copy(x, a)
                T.tile.add(a, a, s)
                T.copy(a, y)
                for i in T.serial(8):
                    b[0, i] = s * s
                T.copy(b, z)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("dtype", "register", "value"),
    [
        ("float16", "float32", 0.1),
        ("float16", "float32", np.float32(0.1)),
        ("float32", "float32", 3),
        ("int32", "int32", np.int64(70000)),
        ("int32", "int32", True),
        ("float32", "int32", 3),
    ],
)
def test_scalar_arguments(
    agreeing: Callable[..., Any], rng: np.random.Generator, dtype: str, register: str, value: Any
) -> None:
    x = rng.integers(-9, 9, (1, 64)).astype(dtype)
    y, z = agreeing(scalar_kernel(dtype, register), value, x)[:2]
    scalar = np.dtype(register).type(value)
    np.testing.assert_array_equal(y, x + scalar.astype(dtype))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(z, np.full((1, 8), scalar * scalar))


def test_dimension_that_no_tensor_binds(launch: Callable[..., Any]) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        n = T.symbolic("n")

        @T.prim_func
        def kernel(x: T.Tensor((2 * n, 64), "float32")):
            with T.Kernel(n, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 64], "float32")
                T.copy(x[cid, :], a)
                T.copy(a, x[cid, :])

        return kernel

    with pytest.raises(SimulationError) as caught:
        launch(factory(), np.zeros((4, 64), np.float32))
    assert caught.value.code == "AI-TYPE-022"
    assert "n" in caught.value.what and caught.value.where is not None


@pytest.mark.parametrize(("n", "expected"), [(7, [0, 1, 2]), (8, [0, 1, 2, 3])])
def test_grid_is_computed_like_the_device_host_code(
    launch: Callable[..., Any], n: int, expected: list[int]
) -> None:
    """`-(-n // 2)` rounds toward zero in the generated host code, unlike in Python."""

    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(n: T.int32, x: T.Tensor((8, 8), "int32")):
            with T.Kernel(-(-n // 2), is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 8], "int32")
                T.tile.fill(a, cid)
                T.copy(a, x[cid, :])

        return kernel

    x = np.full((8, 8), 9, np.int32)
    assert launch(factory(), n, x).record.findings == ()
    assert [v for v in x[:, 0].tolist() if v != 9] == expected


@pytest.mark.parametrize("schedule", [("eager", 0), ("late", 0)])
@pytest.mark.parametrize(("rows", "codes"), [(4, set()), (5, {"AI-BOUND-007"})])
def test_a_declared_shape_may_be_an_upper_bound(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    rows: int,
    codes: set[str],
    schedule: tuple[str, int],
) -> None:
    """Only accesses behind the bytes that there are get reported, by copies and by elements."""

    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(n: T.int32, x: T.Tensor((1000, 64), "float32"), s: T.Tensor((99,), "int32")):
            with T.Kernel(n, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, 64], "float32")
                T.copy(x[cid, :], a)
                T.tile.add(a, a, 1.0)
                T.copy(a, x[cid, :])
                with T.Scope("V"):
                    s[cid] = s[cid] + cid

        return kernel

    x = rng.standard_normal((4, 64)).astype(np.float32)
    s = rng.integers(0, 9, rows, dtype=np.int32)
    before, total = x.copy(), s.copy()
    result = launch(factory(), rows, x, s, schedule=schedule)
    assert result.codes == codes
    if not codes:
        np.testing.assert_array_equal(x, before + 1)
        np.testing.assert_array_equal(s, total + np.arange(rows))


def test_an_element_behind_the_last_byte(launch: Callable[..., Any]) -> None:
    @tilelang.jit(pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((8, 8), "int32"), s: T.Tensor((99,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, 8], "int32")
                T.tile.fill(a, s[40])
                T.copy(a, x[0, :])

        return kernel

    x = np.zeros((8, 8), np.int32)
    assert launch(factory(), x, np.zeros(41, np.int32)).codes == set()
    assert launch(factory(), x, np.zeros(40, np.int32)).codes == {"AI-BOUND-007"}
