"""Copies from UB to UB, and their conversions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine.tiles import values

SYNCED = {"tl.ascend_auto_sync": True}


def within(
    shapes: tuple[Any, Any],
    pick: Callable[[Any, Any], Any],
    dtypes: tuple[str, str] = ("float32",) * 2,
) -> Any:
    """Copies between two UB buffers; `pick(a, b)` gives the operands."""
    source, target = shapes
    first, second = dtypes

    @tilelang.jit(out_idx=[1], pass_configs=SYNCED)
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor(source, first), y: T.Tensor(target, second)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub(list(source), first)
                b = T.alloc_ub(list(target), second)
                T.copy(x, a)
                T.tile.fill(b, 0)
                T.copy(*pick(a, b))
                T.copy(b, y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("shapes", "pick", "oracle"),
    [
        (((8, 32), (8, 32)), lambda a, b: (a, b), lambda x, y: x),
        (((8, 32), (4, 64)), lambda a, b: (a[:, :], b[:, :]), lambda x, y: x.reshape(4, 64)),
        (
            ((8, 32), (8, 64)),
            lambda a, b: (a[:, :], b[:, 32:]),
            lambda x, y: np.hstack([y[:, :32], x]),
        ),
        (((8, 64), (8, 32)), lambda a, b: (a[:, 8:40], b[:, :]), lambda x, y: x[:, 8:40]),
        (
            ((8, 32), (64,)),
            lambda a, b: (a[3, 8:16], b[16:24]),
            lambda x, y: np.r_[y[:16], x[3, 8:16], y[24:]],
        ),
        (
            ((64,), (8, 8)),
            lambda a, b: (a[8:24], b[4:6, :]),
            lambda x, y: np.vstack([y[:4], x[8:24].reshape(2, 8), y[6:]]),
        ),
    ],
    ids=["whole", "reshaped", "into-columns", "out-of-columns", "row-part", "run-into-rows"],
)
def test_within_ub(
    agreeing: Callable[..., Any], rng: np.random.Generator, shapes: Any, pick: Any, oracle: Any
) -> None:
    x = values(rng, shapes[0], "float32")
    y = agreeing(within(shapes, pick), x)[0]
    np.testing.assert_array_equal(y, oracle(x, np.zeros(shapes[1], np.float32)))


@pytest.mark.parametrize(
    ("shapes", "pick"),
    [
        (((4, 8), (4, 64)), lambda a, b: (a[:, :], b[0, 0:32])),
        (((8, 32), (4, 32)), lambda a, b: (a[:, :], b[:, :])),
        (((2, 8, 32), (2, 8, 64)), lambda a, b: (a[:, :, :], b[:, :, 32:])),
    ],
    ids=["scatters", "longer", "three-dimensional"],
)
def test_within_ub_sides_that_differ_are_refused(
    launch: Callable[..., Any], shapes: Any, pick: Any
) -> None:
    with pytest.raises(KernelSourceError) as caught:
        launch(within(shapes, pick), np.zeros(shapes[0], np.float32), checks=Checks(bounds=False))
    assert caught.value.code == "AI-SRC-057"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float32", "int32"),
        ("int32", "float32"),
        ("int32", "int16"),
        ("int16", "float16"),
    ],
)
def test_within_ub_converts(
    agreeing: Callable[..., Any], rng: np.random.Generator, source: str, target: str
) -> None:
    x = values(rng, (8, 64), source)
    if numpy_dtype(source).kind != "i":
        x = (x * 100).astype(x.dtype)
    y = agreeing(within(((8, 64), (8, 64)), lambda a, b: (a, b), (source, target)), x)[0]
    element = numpy_dtype(target)
    wide = x.astype(np.float64)
    if element.kind == "i":
        wide = np.clip(np.rint(wide), np.iinfo(element).min, np.iinfo(element).max)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, wide.astype(element))
