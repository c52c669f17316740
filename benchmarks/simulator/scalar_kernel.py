"""A kernel that stores one million elements of UB with the scalar unit."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.dialect import T, tilelang

STORES, WIDTH = 1_000_000, 1000


@tilelang.jit(out_idx=[0], target="ascendc")
def scalar_stores_kernel():
    """Rounds of stores to the same buffer; the last round is the result, float32 [1000]."""

    @T.prim_func
    def scalar_stores(output: T.Tensor([WIDTH], "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            buffer = T.alloc_ub([WIDTH], "float32")
            with T.Scope("V"):
                if vid == 0:
                    for r in T.serial(STORES // WIDTH):
                        for i in T.serial(WIDTH):
                            buffer[i] = r + i
                    T.set_flag("s", "mte3", 0)
                    T.wait_flag("s", "mte3", 0)
                    T.copy(buffer, output)

    return scalar_stores
