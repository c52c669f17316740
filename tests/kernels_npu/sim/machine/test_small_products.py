"""Small products on one accumulator need a barrier of their pipe between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang


def product_kernel(
    m: int, n: int, *, barrier: bool = True, pieces: int = 3, init: bool = False
) -> Any:
    """c = a @ b in pieces of K, all of which are in L0 before the first product starts."""
    k = 16

    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def product(
            a: T.Tensor((pieces, m, k), "float16"),
            b: T.Tensor((pieces, k, n), "float16"),
            c: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as _cid:
                a_l1 = T.alloc_L1([pieces, m, k], "float16")
                b_l1 = T.alloc_L1([pieces, k, n], "float16")
                a_l0 = T.alloc_L0A([pieces, m, k], "float16")
                b_l0 = T.alloc_L0B([pieces, k, n], "float16")
                c_l0 = T.alloc_L0C([m, n], "float32")
                with T.Scope("C"):
                    for p in T.serial(pieces):
                        T.copy(a[p, 0, 0], a_l1[p, :, :])
                        T.copy(b[p, 0, 0], b_l1[p, :, :])
                    T.barrier_all()
                    for p in T.serial(pieces):
                        T.copy(a_l1[p, :, :], a_l0[p, :, :])
                        T.copy(b_l1[p, :, :], b_l0[p, :, :])
                    T.barrier_all()
                    for p in T.serial(pieces):
                        if barrier:
                            T.pipe_barrier("m")
                        T.mma(a_l0[p, :, :], b_l0[p, :, :], c_l0, init=True if init else p == 0)
                    T.barrier_all()
                    T.copy(c_l0, c)

        return product

    return factory()


def launched(launch: Callable[..., Any], rng: np.random.Generator, kernel: Any) -> Any:
    a, b = (
        rng.standard_normal([int(d) for d in tensor.shape]).astype(np.float16)
        for tensor in kernel.prim_func.tensors[:2]
    )
    result = launch(kernel, a, b)
    expected = np.einsum("pmk,pkn->mn", a.astype(np.float32), b.astype(np.float32))
    return result, expected


@pytest.mark.parametrize(
    ("m", "n", "barrier", "found"),
    [
        (16, 16, False, True),
        (48, 48, False, True),
        (16, 160, False, False),
        (16, 16, True, False),
        (48, 48, True, False),
    ],
)
def test_a_small_product_without_a_barrier_is_found(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    m: int,
    n: int,
    barrier: bool,
    found: bool,
) -> None:
    result, expected = launched(launch, rng, product_kernel(m, n, barrier=barrier))
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-3, atol=1e-3)
    assert result.codes == ({"AI-RACE-005"} if found else set())
    for finding in result.record.findings:
        assert finding.severity == "warning"
        assert finding.count == 2
        (line,) = finding.insertions
        assert (line.where, line.code) == ("before", 'T.pipe_barrier("m")')


def test_a_product_that_starts_anew_adds_to_nothing(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    result, _ = launched(launch, rng, product_kernel(16, 16, barrier=False, init=True))
    assert result.codes == set()
