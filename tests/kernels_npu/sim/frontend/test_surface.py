# ruff: noqa: E501 - a table of kernel texts reads better in one line each
"""Operations become the `TileOp`s that the machine's tables name."""

from __future__ import annotations

import pytest

from kernels_npu.sim import ir

#: call -> the printed statement
CALLS = {
    "T.copy(A[cid, 0], a)": "copy(A[cid, 0], a, enable_relu=False, transpose=False)",
    "T.copy(A[n : n + 64, :], a, pad_value=-T.infinity('float32'))": (
        "copy(A[n :+ 64, 0 :+ 128], a, enable_relu=False, transpose=False, pad_value=-inf)"
    ),
    "T.copy(a, A, enable_relu=True)": "copy(a, A, enable_relu=True, transpose=False)",
    "T.tile.add(a, a, b)": "add(a, a, b)",
    "T.tile.sub(a, a, 2)": "sub(a, a, 2)",
    "T.tile.mul(a[cid, :], b[cid, :], row[cid, 0])": "mul(a[cid, 0 :+ 128], b[cid, 0 :+ 128], row[cid, 0])",
    "T.tile.div(a, a, T.cast(n, 'float32') * 2.0)": "div(a, a, float32(n) * 2.0)",
    "T.tile.max(dst=a[0:32, :], src0=b[0:32, :], src1=b[:32, :])": (
        "max(a[0 :+ 32, 0 :+ 128], b[0 :+ 32, 0 :+ 128], b[0 :+ 32, 0 :+ 128])"
    ),
    "T.tile.add(a, a, v)": "add(a, a, v)",
    "T.tile.rsqrt(row, row)": "rsqrt(row, row)",
    "T.tile.silu(a, b)": "silu(a, b)",
    "T.tile.axpy(a, b, v[3])": "axpy(a, b, v[3])",
    "T.tile.leaky_relu(a, b, 0.5)": "leaky_relu(a, b, 0.5)",
    "T.tile.bitwise_lshift(idx, idx, 2)": "bitwise_lshift(idx, idx, 2)",
    "T.tile.mul_add_dst(a, b, b)": "mul_add_dst(a, b, b)",
    "T.tile.pow(a, b, b)": "pow(a, b, b)",
    "T.tile.fill(a[:, :64], n > 3)": "fill(a[0 :+ 64, 0 :+ 64], n > 3)",
    "T.tile.fill(v, T.alloc_ub((1,), 'float32'))": "fill(v, [0])",
    "T.tile.clear(v)": "fill(v, 0)",
    "T.tile.cast(idx, v, 'CAST_RINT', 128)": "cast(idx, v, mode='CAST_RINT', count=128)",
    "T.tile.cast(idx, v, 'CAST_RINT', n)": "cast(idx, v, mode='CAST_RINT', count=n)",
    "T.tile.compare(mask, a, 0.0, 'GE')": "compare(mask, a, 0.0, mode='GE')",
    "T.tile.compare(mask, a, b, 'LT')": "compare(mask, a, b, mode='LT')",
    "T.tile.select(a, mask, b, -1.0, 'VSEL_TENSOR_SCALAR_MODE')": (
        "select(a, mask, b, -1.0, mode='VSEL_TENSOR_SCALAR_MODE')"
    ),
    "T.tile.select(a, mask, b, a, 'VSEL_CMPMASK_SPR')": "select(a, mask, b, a, mode='VSEL_CMPMASK_SPR')",
    "T.tile.gather(v, a, idx, 4)": "gather(v, a, idx, 4)",
    "T.tile.createvecindex(idx, cid)": "createvecindex(idx, cid)",
    "T.tile.arith_progression(idx, 0, 2, 64)": "arith_progression(idx, 0, 2, count=64)",
    "T.tile.transpose(a, b)": "transpose(a, b)",
    "T.tile.broadcast(a, row)": "broadcast(a, row, axis=1)",
    "T.tile.broadcast(a, v)": "broadcast(a, v, axis=0)",
    "T.tile.topk(v, v, 8, 64)": "topk(v, v, K=8, actual_num=64)",
    "T.tile.gather_mask(v, v, 'P1010')": "gather_mask(v, v, pattern='P1010')",
    "T.tile.merge_sort(v, v, v, v)": "merge_sort(v, v, v, v)",
    "T.tile.atomic_add(B[cid, 0], a)": "atomic_add(B[cid, 0], a)",
    "T.tile.row_expand_mul_experiment(a[0:64, 0:64], b[0:64, 0:64], row)": (
        "row_expand_mul_experiment(a[0 :+ 64, 0 :+ 64], b[0 :+ 64, 0 :+ 64], row)"
    ),
    "T.reduce_sum(a, row)": "reduce_sum(a, row, dim=-1, clear=True)",
    "T.reduce_max(a, v, dim=0, clear=False)": "reduce_max(a, v, dim=0, clear=False)",
    "T.reduce_min(a, v, 0, [8, 128], False)": "reduce_min(a, v, dim=0, clear=False, real_shape=(8, 128))",
    "T.reduce_max(v, v[:1], dim=0)": "reduce_max(v, v[0], dim=-1, clear=True)",
    "T.gemm_v0(a, b, row, transpose_B=True, init=(cid == 0))": (
        "gemm_v0(a, b, row, transpose_A=False, transpose_B=True, init=cid == 0)"
    ),
    "T.mma(a, b[:, :], row, init=True) if False else T.sync_all()": "sync_all()",
    "T.set_deq_scale(0.5)": "set_deq_scale(0.5)",
    "T.reinterpretcast(idx, v, 'int32_t')": "reinterpretcast(idx, v, dtype='int32_t')",
    "T.set_flag('mte2', 'V', 1)": "set_flag(MTE2, V, 1)",
    "T.wait_flag('mte2', 'v', n % 2)": "wait_flag(MTE2, V, n % 2)",
    "T.pipe_barrier('v')": "pipe_barrier(V)",
    "T.set_cross_flag('FIX', 0)": "set_cross_flag(FIX, 0, mode=2)",
    "T.wait_cross_flag(3)": "wait_cross_flag(3)",
    "T.dump_tensor(a, 7, 16)": "dump_tensor(a, desc=7, size=16, shape=())",
    "T.printf('%s: %d %f\\n', 'row', cid, v)": "printf(cid, v, fmt='row: %d %f\\n')",
    "T.loop_break()": "break",
}  # fmt: skip


@pytest.mark.parametrize("call", [c for c in CALLS if "mma" not in c])
def test_call(script, call):
    assert script(call) == [CALLS[call]]


#: expression -> printed value
EXPRESSIONS = {
    "T.ceildiv(n, 4)": "(n + 3) // 4",
    "T.min(n, 4) + T.max(cid, n)": "min(n, 4) + max(cid, n)",
    "T.if_then_else(cid == 0, n, 1)": "select(cid == 0, n, 1)",
    "T.Select(n > 1, 2, vid)": "select(n > 1, 2, vid)",
    "T.And(n > 1, vid == 0)": "(n > 1) and (vid == 0)",
    "T.Not(n)": "not n",
    "n > 1 or vid == 0": "(n > 1) or (vid == 0)",
    "1 << vid": "1 << vid",
    "~n": "~n",
    "T.floordiv(n, 2) % 3": "(n // 2) % 3",
    "T.reinterpret('int32', v[0])": "reinterpret[int32](v[0])",
    "T.abs(n)": "abs(n)",
    "n * (cid != 0)": "n * (cid != 0)",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(script, expression):
    assert script(f"x = {expression}") == [f"x = {EXPRESSIONS[expression]}"]


def test_float_functions_and_literals(script):
    assert script(
        "x = T.exp(v[0]) * T.float32(2) + 1\ny = T.sqrt(x)\nv[0] = T.infinity('float32')"
    ) == [
        "x = (exp(v[0]) * 2.0) + 1.0",
        "y = sqrt(x)",
        "v[0] = inf",
    ]


def test_literals_take_the_dtype_of_the_other_side(kernel):
    half = kernel(
        "h = T.alloc_ub((8,), 'float16')\nh[0] = T.max(h[1], 0.0)\nh[0] = h[1] * 2 + 0.5"
    ).body
    assert [store.value.dtype for store in half] == ["float16", "float16"]


def test_static_numbers_stay_python_numbers():
    from kernels_npu.sim.frontend import T

    assert T.ceildiv(10, 4) == 3 and isinstance(T.ceildiv(10, 4), int)
    assert T.max(T.ceildiv(1, 4), 1).value == 1
    assert T.floordiv(-7, 2) == -3, "the device divides like C"
    assert T.if_then_else(True, 2, 3).value == 2


def test_allocations(kernel):
    func = kernel(
        "x = T.alloc_L1((16, 16), 'half')\ny = T.alloc_L0A([16, 16], 'float16')\n"
        "z = T.alloc_L0B((16, 16), 'float16')\nw = T.alloc_L0C((16, 16), 'float')\n"
        "s = T.alloc_shared(24, 'bfloat16')\nf = T.alloc_fragment((16, 16), 'float16')\n"
    )
    assert [(b.name, b.scope, b.dtype, b.shape) for b in func.allocs[-6:]] == [
        ("x", "l1", "float16", (16, 16)),
        ("y", "l0a", "float16", (16, 16)),
        ("z", "l0b", "float16", (16, 16)),
        ("w", "l0c", "float32", (16, 16)),
        ("s", "shared", "bfloat16", (24,)),
        ("f", "fragment", "float16", (16, 16)),
    ]


def test_addresses_layouts_and_views(kernel):
    func = kernel(
        "x = T.alloc_L1((16, 32), 'float16')\nT.annotate_address({x: 64, a: 0})\n"
        "T.annotate_layout({x: make_zn_layout(x)})\ny = T.reshape(x, (32, 16))\nz = T.view(x, [16, 16], 'float32')",
        "from kernels_npu.sim.frontend.shims import MODULES\n"
        "make_zn_layout = MODULES['tilelang.intrinsics'].make_zn_layout",
    )
    x, y, z = func.allocs[-3:]
    assert func.addresses == {x: 64, func.allocs[0]: 0}
    assert func.layouts == {x: "zn"}
    assert y.alias_of is x and z.alias_of is x and z.dtype == "float32"


def test_scalar_parameters(load):
    module = load(
        """
        @T.prim_func
        def main(A: T.Tensor[(16,), "float16"], n: T.int32, eps: T.float32):
            with T.Kernel(n, is_npu=True) as (cid, vid):
                a = T.alloc_ub((16,), "float32")
                T.tile.add(a, a, eps)
        """
    )
    tensor, n, eps = module.main.params
    assert isinstance(tensor, ir.Buffer) and tensor.scope == "global"
    assert (n.name, n.dtype, eps.name, eps.dtype) == ("n", "int32", "eps", "float32")
    assert module.main.ir.grid is n


def test_slices_fold_to_static_extents(kernel):
    body = kernel(
        "T.copy(A[cid * 64 + vid * 64 // 2 : cid * 64 + vid * 64 // 2 + 64 // 2, :], a[:32, :])\n"
        "T.copy(A[(cid + 1) * 8 : (cid + 2) * 8, n : 2 * n - n + 16], a[:8, :16])\n"
        "T.copy(A[cid * 4 : n, :], a)"
    ).body
    extents = [
        [e.value if isinstance(e, ir.Const) else None for e in op.operands[0].extents]
        for op in body
    ]
    assert extents == [[32, 128], [8, 16], [None, 128]]


def test_macros_are_hygienic(script):
    before = """
SCALE = 2.0
@T.macro
def scale(x, factor=SCALE):
    i = 5
    T.tile.mul(x, x, factor)
    T.tile.fill(x[i, :], 0.0)
"""
    assert script("i = cid + 1\nscale(a)\nscale(b, factor=n)\nidx[i] = 0", before) == [
        "i = cid + 1",
        "mul(a, a, 2.0)",
        "fill(a[5, 0 :+ 128], 0.0)",
        "mul(b, b, n)",
        "fill(b[5, 0 :+ 128], 0.0)",
        "idx[i] = 0",
    ]


def test_macros_return_values_and_nest(script):
    before = """
@T.macro
def inner(x):
    y = x + 1
    return y * 2
@T.macro
def outer(x):
    T.barrier_all()
    return inner(x)
"""
    assert script("z = outer(cid)\nidx[z] = 0", before) == [
        "pipe_barrier(ALL)",
        "y = cid + 1",
        "z = y * 2",
        "idx[z] = 0",
    ]


def test_unhygienic_macros_see_the_caller(script):
    before = "@T.macro(hygienic=False)\ndef mark():\n    idx[where] = 1"
    assert script("where = cid + 1\nmark()", before)[-1] == "idx[where] = 1"


def test_helpers_that_return_the_operation_emit_it(script):
    before = "def cast_or_copy(dst, src):\n    return T.copy(src, dst)"
    assert script("cast_or_copy(a, b)", before) == [
        "copy(b, a, enable_relu=False, transpose=False)"
    ]


def test_swizzle_keeps_the_index(script):
    assert script("c = T.use_swizzle(cid, 1024, 512, 64, 128, 256, off=3)\nidx[c] = 0") == [
        "idx[cid] = 0"
    ]


def test_prints_around_the_launch_belong_to_the_kernel(load):
    module = load(
        """
        @T.prim_func
        def main(A: T.Tensor((16,), "float16")):
            T.printf("before")
            with T.Kernel(1, is_npu=True) as (cid, vid):
                T.barrier_all()
            T.dump_tensor(A, 1, 16)
        """
    )
    ops = [getattr(s, "op", "barrier") for s in module.main.ir.body]
    assert ops == ["printf", "barrier", "dump_tensor"]
