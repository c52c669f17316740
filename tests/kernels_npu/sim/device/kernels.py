"""Small kernels for launch tests; no postponed annotations, the front end evaluates them."""

from kernels_npu.sim.frontend.shims import T, tilelang


@tilelang.jit(out_idx=[-1])
def scaled_sum(columns, factor=1.0, dtype="float32"):
    rows = T.symbolic("rows")

    @T.prim_func
    def scaled_sum(
        a: T.Tensor([rows, columns], dtype),
        b: T.Tensor([rows, columns], dtype),
        c: T.Tensor([rows, columns], dtype),
    ):
        with T.Kernel(rows, is_npu=True) as (cid, vid):
            a_ub = T.alloc_ub([1, columns], dtype)
            b_ub = T.alloc_ub([1, columns], dtype)
            with T.Scope("V"):
                if vid == 0:
                    T.copy(a[cid : cid + 1, :], a_ub)
                    T.copy(b[cid : cid + 1, :], b_ub)
                    T.barrier_all()
                    T.tile.add(a_ub, a_ub, b_ub)
                    T.barrier_all()
                    T.tile.mul(a_ub, a_ub, factor)
                    T.barrier_all()
                    T.copy(a_ub, c[cid : cid + 1, :])

    return scaled_sum


@tilelang.jit()
def increment(columns, dtype="float32"):
    rows = T.symbolic("rows")

    @T.prim_func
    def increment(x: T.Tensor([rows, columns], dtype), amount: T.float32):
        with T.Kernel(rows, is_npu=True) as (cid, vid):
            x_ub = T.alloc_ub([1, columns], dtype)
            with T.Scope("V"):
                if vid == 0:
                    T.copy(x[cid : cid + 1, :], x_ub)
                    T.barrier_all()
                    T.tile.add(x_ub, x_ub, amount)
                    T.barrier_all()
                    T.copy(x_ub, x[cid : cid + 1, :])

    return increment


@tilelang.jit(out_idx=[2, 1], workspace_idx=[3])
def two_outputs(rows, columns, dtype="float32"):
    @T.prim_func
    def two_outputs(
        x: T.Tensor([rows, columns], dtype),
        doubled: T.Tensor([rows, columns], dtype),
        halved: T.Tensor([rows, columns], dtype),
        scratch: T.Tensor([rows, columns], dtype),
    ):
        with T.Kernel(rows, is_npu=True) as (cid, vid):
            x_ub = T.alloc_ub([1, columns], dtype)
            y_ub = T.alloc_ub([1, columns], dtype)
            with T.Scope("V"):
                if vid == 0:
                    T.copy(x[cid : cid + 1, :], x_ub)
                    T.barrier_all()
                    T.tile.mul(y_ub, x_ub, 2.0)
                    T.barrier_all()
                    T.copy(y_ub, doubled[cid : cid + 1, :])
                    T.barrier_all()
                    T.tile.mul(y_ub, x_ub, 0.5)
                    T.barrier_all()
                    T.copy(y_ub, halved[cid : cid + 1, :])
                    T.copy(y_ub, scratch[cid : cid + 1, :])

    return two_outputs
