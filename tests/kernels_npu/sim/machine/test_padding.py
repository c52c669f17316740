"""Unwritten bytes that reach global memory: padding behind results is a warning, else an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.frontend import T, tilelang


def row_maxima(rows: int, stored: int) -> Any:
    """The maxima of `rows` rows, stored as `stored` numbers."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(x: T.Tensor((rows, 16), "float32"), y: T.Tensor((1, stored), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([rows, 16], "float32")
                m = T.alloc_ub([1, 32], "float32")
                with T.Scope("V"):
                    T.copy(x, a)
                    T.barrier_all()
                    T.reduce_max(a, m[0, :rows], dim=-1)
                    T.barrier_all()
                    T.copy(m[0, :stored], y)

        return kernel

    return factory()


@pytest.mark.parametrize(
    ("rows", "stored", "expected"),
    [
        (8, 8, []),
        (5, 8, [("AI-INIT-003", "warning")]),
        (13, 16, [("AI-INIT-003", "warning")]),
        (8, 16, [("AI-INIT-001", "error")]),
        (5, 16, [("AI-INIT-001", "error")]),
    ],
)
def test_padding_and_missing_data(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    rows: int,
    stored: int,
    expected: list[tuple[str, str]],
) -> None:
    x = rng.standard_normal((rows, 16), dtype=np.float32)
    result = launch(row_maxima(rows, stored), x)
    np.testing.assert_array_equal(result.outputs[0][0, :rows], x.max(axis=1))
    found = [(f.code, f.severity) for f in result.record.findings if f.severity != "hint"]
    assert found == expected
