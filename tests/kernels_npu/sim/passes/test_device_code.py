"""What the compiler's code generators refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.frontend import JITKernel, T
from kernels_npu.sim.frontend.entry import PrimFuncObject


def tile_kernel(statement: Callable[[Any, Any, Any, Any], None], dtype: str) -> PrimFuncObject:
    """`statement(x, z, i, j)` for every element of a T.Parallel."""

    @T.prim_func
    def kernel(a: T.Tensor((32, 64), dtype), c: T.Tensor((32, 64), dtype)):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            x = T.alloc_ub((32, 64), dtype)
            z = T.alloc_ub((32, 64), dtype)
            with T.Scope("V"):
                T.copy(a, x)
                T.barrier_all()
                for i, j in T.Parallel(32, 64):
                    statement(x, z, i, j)
                T.barrier_all()
                T.copy(z, c)

    return kernel


@T.macro
def one_function(x, z, i, j):
    z[i, j] = T.exp(x[i, j])


@T.macro
def functions_joined(x, z, i, j):
    z[i, j] = T.exp(x[i, j]) + T.sqrt(x[i, j])


@T.macro
def nested(x, z, i, j):
    z[i, j] = T.exp(x[i, j] + 1.0)


@T.macro
def without_instruction(x, z, i, j):
    z[i, j] = T.sin(x[i, j])


@T.macro
def chosen(x, z, i, j):
    z[i, j] = T.if_then_else(x[i, j] > 0.0, T.log(x[i, j]), 0.0)


def compiled(statement: Any, dtype: str = "float32", target: str = "ascendc") -> Any:
    return JITKernel(tile_kernel(statement, dtype), out_idx=[1], target=target).compiled


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("statement", [one_function, functions_joined])
def test_functions_of_single_elements_are_instructions(statement: Any, target: str) -> None:
    assert compiled(statement, target=target).static_check().findings == ()


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("statement", [nested, without_instruction, chosen])
def test_a_function_in_scalar_code_is_refused(statement: Any, target: str) -> None:
    with pytest.raises(KernelSourceError, match="AI-SRC-046") as caught:
        compiled(statement, target=target)
    assert str(caught.value.where).startswith(__file__)


@pytest.mark.parametrize("dtype", ["float64", "bool"])
def test_dtypes_that_the_device_lacks_are_not_copied(dtype: str) -> None:
    with pytest.raises(KernelSourceError, match="AI-TYPE-009"):
        compiled(lambda x, z, i, j: None, dtype)
