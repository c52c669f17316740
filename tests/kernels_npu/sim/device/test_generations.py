"""What differs between chip generations: memories, bf16 arithmetic, fp8 products, properties."""

from __future__ import annotations

import pytest
import torch

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import configure
from kernels_npu.sim.frontend import T, tilelang

DTYPES = {"e4m3_float8": torch.float8_e4m3fn, "e5m2_float8": torch.float8_e5m2}


@tilelang.jit(out_idx=[-1], target="pto")
def product(rows, columns, depth, dtype):
    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((depth, columns), dtype),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a = T.alloc_L1((rows, depth), dtype)
            b = T.alloc_L1((depth, columns), dtype)
            c = T.alloc_L0C((rows, columns), "float32")
            with T.Scope("C"):
                T.copy(A, a)
                T.copy(B, b)
                T.barrier_all()
                T.gemm_v0(a, b, c, init=True)
                T.barrier_all()
                T.copy(c, C)

    return main


@tilelang.jit(out_idx=[-1])
def bf16_sum(columns):
    @T.prim_func
    def main(A: T.Tensor((1, columns), "bfloat16"), B: T.Tensor((1, columns), "bfloat16")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a = T.alloc_ub((1, columns), "bfloat16")
            with T.Scope("V"):
                if vid == 0:
                    T.copy(A, a)
                    T.barrier_all()
                    T.tile.add(a, a, a)
                    T.barrier_all()
                    T.copy(a, B)

    return main


@tilelang.jit(out_idx=[-1])
def large_accumulator(rows, columns):
    @T.prim_func
    def main(A: T.Tensor((rows, 16), "float16"), B: T.Tensor((16, columns), "float16"),
             C: T.Tensor((rows, columns), "float32")):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a = T.alloc_L1((rows, 16), "float16")
            b = T.alloc_L1((16, columns), "float16")
            c = T.alloc_L0C((rows, columns), "float32")
            with T.Scope("C"):
                T.copy(A, a)
                T.copy(B, b)
                T.barrier_all()
                T.gemm_v0(a, b, c, init=True)
                T.barrier_all()
                T.copy(c, C)

    return main


@pytest.mark.parametrize("dtype", DTYPES)
def test_fp8_products_need_a5(dtype: str):
    a = torch.randn(32, 64).to(DTYPES[dtype])
    b = torch.randn(64, 48).to(DTYPES[dtype])
    with configure(soc="A5"):
        c = product(32, 48, 64, dtype)(a.npu(), b.npu())
    torch.testing.assert_close(c.cpu(), a.float() @ b.float(), rtol=1e-5, atol=1e-5)
    with configure(soc="A3"), pytest.raises(AscendInferError, match="AI-TYPE"):
        product(32, 48, 64, dtype)(a.npu(), b.npu())


def test_bf16_arithmetic_needs_a5():
    x = torch.randn(1, 80).bfloat16()
    with configure(soc="A5"):
        assert torch.equal(bf16_sum(80)(x.npu()).cpu(), x + x)
    with configure(soc="A2"), pytest.raises(AscendInferError, match=r"AI-TYPE.*bf"):
        bf16_sum(80)(x.npu())


def test_a5_has_twice_the_l0c():
    a, b = torch.randn(256, 16).half(), torch.randn(16, 192).half()
    with configure(soc="A5"):
        c = large_accumulator(256, 192)(a.npu(), b.npu())
    torch.testing.assert_close(c.cpu(), a.float() @ b.float(), rtol=1e-4, atol=1e-4)
    with configure(soc="A2"), pytest.raises(AscendInferError, match=r"AI-MEM.*L0C"):
        large_accumulator(256, 192)(a.npu(), b.npu())


@pytest.mark.parametrize(
    "soc, platform, cubes", [("910B3", "A2", 20), ("A3", "A3", 24), ("A5", "A5", 36)]
)
def test_scripts_see_the_chip(soc: str, platform: str, cubes: int):
    with configure(soc=soc):
        properties = torch.npu.get_device_properties(0)
        assert tilelang.utils.target.determine_platform() == platform
        assert (properties.cube_core_num, properties.vector_core_num) == (cubes, 2 * cubes)
        assert properties.name == torch.npu.get_device_name()
