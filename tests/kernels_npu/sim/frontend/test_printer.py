"""The printed form of a kernel."""

from __future__ import annotations

from kernels_npu.sim.ir_printer import format_body, format_expr, format_func


def test_a_whole_kernel(load):
    module = load(
        """
        rows = T.symbolic("rows")
        @T.prim_func
        def scale(A: T.Tensor((rows, 64), "float16"), eps: T.float32):
            with T.Kernel(T.ceildiv(rows, 32), is_npu=True) as (cid, vid):
                a = T.alloc_ub((16, 64), "float16")
                count = T.alloc_var("int32", init=0)
                T.annotate_address({a: 256})
                for i in T.Pipelined(4, num_stages=2):
                    first = cid * 32 + vid * 16 + i
                    if first < rows and eps > 0.5:
                        T.copy(A[first, 0], a[:1, :])
                        count += 1
                    else:
                        T.sync_all()
                for i, j in T.Parallel(16, 64):
                    a[i, j] = T.max(-a[i, j], 0.0)
        """
    )
    assert format_func(module.scale.ir) == (
        "prim_func scale(A: float16[rows, 64], eps: float32):\n"
        "    kernel((rows + 31) // 32) as (cid, vid):\n"
        "        a = alloc ub float16[16, 64] @ 256\n"
        "        count = alloc var int32[1]\n"
        "        count = 0\n"
        "        for i in pipelined(0, 4, num_stages=2, cross_interval=1):\n"
        "            first = ((cid * 32) + (vid * 16)) + i\n"
        "            if (first < rows) and (eps > 0.5):\n"
        "                copy(A[first, 0], a[0, 0 :+ 64], enable_relu=False, transpose=False)\n"
        "                count = count + 1\n"
        "            else:\n"
        "                sync_all()\n"
        "        for i, j in parallel(16, 64):\n"
        "            a[i, j] = float16(max(float32(-a[i, j]), 0.0))\n"
    )
    assert module.scale.script() == format_func(module.scale.ir)


def test_locations(kernel):
    func = kernel("T.barrier_all()")
    text = format_body(func.body, locations=True)
    assert text.rstrip().endswith(f"# {func.body[0].loc.line}")


def test_empty_branch(script):
    assert script("if n > 1:\n    pass\nelse:\n    T.barrier_all()") == [
        "if n > 1:",
        "    pass",
        "else:",
        "    pipe_barrier(ALL)",
    ]


def test_expressions(kernel):
    (store,) = kernel("a[0, 0] = (v[0] + 1.0) * T.cast(n, 'float32')").body
    assert format_expr(store.value) == "(v[0] + 1.0) * float32(n)"
