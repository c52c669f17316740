"""Doubles a vector on the vector cores. One wait is missing; the simulated NPU says which."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def double(n, block):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // (2 * block), is_npu=True) as (cid, vid):
            a = T.alloc_ub((block,), "float32")
            start = (cid * 2 + vid) * block
            with T.Scope("V"):
                T.copy(A[start], a)
                T.set_flag("mte2", "v", 0)
                T.wait_flag("mte2", "v", 0)
                T.tile.add(a, a, a)
                T.copy(a, B[start])

    return main


x = torch.randn(4096).npu()
y = double(4096, 256)(x)
torch.testing.assert_close(y.cpu(), 2 * x.cpu())
print("Kernel Output Match!")
