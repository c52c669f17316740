"""Python numbers beside narrow dtypes: TVM's promotion, in the IR and in values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.scalar_ops import promote


@pytest.mark.parametrize(
    ("dtype", "literal", "expected"),
    [
        ("float16", 0.1, "float32"),
        ("bfloat16", 0.1, "float32"),
        ("float32", 0.1, "float32"),
        ("float64", 0.1, "float64"),
        ("float16", 2, "float16"),
        ("bfloat16", 2, "bfloat16"),
        ("int16", 2, "int32"),
        ("uint32", 2, "uint32"),
        ("int64", 2, "int64"),
        ("int32", 0.5, "float32"),
    ],
)
def test_a_literal_beside_a_variable(dtype: str, literal: float, expected: str) -> None:
    variable = ir.Var("x", dtype)
    for op in ("add", "sub", "mul", "max"):
        assert ir.binary(op, variable, literal).dtype == expected
        assert ir.binary(op, literal, variable).dtype == expected
    compared = ir.binary("lt", variable, literal)
    assert isinstance(compared, ir.Binary) and compared.dtype == "bool"
    assert compared.b.dtype == (expected if dtype == "int32" else dtype)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int8", "int16", "int16"),
        ("int32", "uint32", "uint32"),
        ("uint8", "int8", "uint8"),
        ("float16", "bfloat16", "float16"),
        ("bfloat16", "int64", "bfloat16"),
        ("bool", "int8", "int32"),
    ],
)
def test_two_dtypes(a: str, b: str, expected: str) -> None:
    assert promote("add", a, b) == promote("add", b, a) == expected


def kernel(expression: Any, dtype: str, n: int) -> Any:
    """c[i] = expression(a[i]) in a T.Parallel."""

    @tilelang.jit(out_idx=[1], pass_configs={"tl.ascend_auto_sync": True})
    def factory() -> Any:
        @T.prim_func
        def main(a: T.Tensor((n,), dtype), c: T.Tensor((n,), dtype)):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                x = T.alloc_ub([n], dtype)
                z = T.alloc_ub([n], dtype)
                T.copy(a, x)
                for i in T.Parallel(n):
                    z[i] = expression(x[i])
                T.copy(z, c)

        return main

    return factory()


def test_a_float_beside_half_computes_in_float32_and_rounds_once(launch: Any) -> None:
    n = 208
    a = np.random.default_rng(3).standard_normal(n).astype(np.float16)
    (wide,) = launch(kernel(lambda x: x * 0.1 + x, "float16", n), a).outputs
    exact = a.astype(np.float32) * np.float32(0.1) + a.astype(np.float32)
    np.testing.assert_array_equal(wide, exact.astype(np.float16))
    (narrow,) = launch(kernel(lambda x: x * T.float16(0.1) + x, "float16", n), a).outputs
    np.testing.assert_array_equal(narrow, a * np.float16(0.1) + a)
    assert (wide != narrow).any()


def test_a_choice_between_half_and_a_float_is_rounded_to_half(launch: Any) -> None:
    n = 80
    a = np.random.default_rng(4).standard_normal(n).astype(np.float16)
    (c,) = launch(kernel(lambda x: T.if_then_else(x > 0.1, x, 0.1), "float16", n), a).outputs
    np.testing.assert_array_equal(c, np.where(a > np.float16(0.1), a, np.float16(0.1)))


def test_a_function_in_a_mixed_expression_is_refused_as_by_the_compiler() -> None:
    """It is no vector instruction any more, and scalar code has no exponential."""
    assert kernel(lambda x: T.exp(x) + T.float16(1.0), "float16", 64).compiled
    with pytest.raises(KernelSourceError, match="AI-SRC-046"):
        assert kernel(lambda x: T.exp(x) + 1.0, "float16", 64).compiled
