# ruff: noqa: E501 - a table of kernel texts reads better in one line each
"""Binding and scoping: one test per rule of the dialect."""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir


def test_a_binding_is_evaluated_where_it_stands(script):
    assert script("x = a[0, 0]\na[0, 0] = 2.0\na[1, 0] = x") == [
        "x = a[0, 0]",
        "a[0, 0] = 2.0",
        "a[1, 0] = x",
    ]


def test_python_values_stay_static(script):
    assert script("k = 3\nname = 'CAST_NONE'\nT.tile.cast(a, b, name, k * 2)") == [
        "cast(a, b, mode='CAST_NONE', count=6)"
    ]


def test_bound_numbers_serve_everything_but_sizes(script):
    body = "k = 8\nfor i in range(k):\n    T.copy(A[i * k : i * k + k, :], a[i * k : i * k + k, :])\nT.tile.exp(a[k : k + 8, :] if True else a, b[:8, :])"
    assert script(body) == [
        "for i in serial(0, 8):",
        "    copy(A[i * 8 :+ 8, 0 :+ 128], a[i * 8 :+ 8, 0 :+ 128], enable_relu=False, transpose=False)",
        "exp(a[8 :+ 8, 0 :+ 128], b[0 :+ 8, 0 :+ 128])",
    ]


def test_rebinding_makes_a_new_binding(kernel):
    body = kernel("x = cid + 1\ny = x + 1\nx = y * 2\na[x, 0] = 1.0").body
    lets = [s for s in body if isinstance(s, ir.Let)]
    assert [s.var.name for s in lets] == ["x", "y", "x"]
    store = body[-1]
    assert isinstance(store, ir.Store) and store.indices[0] is lets[2].var


def test_no_name_is_carried_by_a_loop(kernel):
    body = kernel("x = cid + 0 * vid\nfor i in T.serial(4):\n    x = x + 1\na[x, 0] = 1.0").body
    outer, loop, store = body
    assert isinstance(loop, ir.For) and isinstance(loop.body[0], ir.Let)
    inner = loop.body[0]
    assert isinstance(inner.value, ir.Binary) and inner.value.a is outer.var
    assert store.indices[0] is outer.var, "after the loop the outer binding is back"


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.serial(4):\n    x = cid + i\na[x, 0] = 1.0",
        "if cid == 0:\n    x = cid + 1\na[x, 0] = 1.0",
        "if True:\n    x = cid + 1\na[x, 0] = 1.0",
        'with T.Scope("V"):\n    x = cid + 1\na[x, 0] = 1.0',
        "while a[0, 0] < 1.0:\n    x = cid + 1\na[x, 0] = 1.0",
        "for i in T.serial(4):\n    pass\na[i, 0] = 1.0",
    ],
)
def test_names_of_a_nested_body_end_with_it(kernel, body):
    with pytest.raises(KernelSourceError) as error:
        kernel(body)
    assert error.value.code == "AI-SRC-002"


def test_alloc_var_is_mutable(script):
    assert script(
        "s = T.alloc_var('int32', init=2)\nfor i in T.serial(n):\n    s = s + i\n    s += 1\na[s, 0] = 1.0"
    ) == [
        "s = 2",
        "for i in serial(0, n):",
        "    s = s + i",
        "    s = s + 1",
        "a[s, 0] = 1.0",
    ]


def test_alloc_var_defaults_to_zero_and_takes_expressions(script):
    assert script(
        "s = T.alloc_var('int32')\nt = T.alloc_var('float32', cid)\nu = T.alloc_var('int32', 1, 'local.var')"
    ) == [
        "s = 0",
        "t = float32(cid)",
        "u = 1",
    ]


def test_a_read_of_alloc_var_is_taken_where_it_stands(script):
    assert script("s = T.alloc_var('int32', init=1)\nx = s\ns = 5\na[x, 0] = 1.0") == [
        "s = 1",
        "x = s",
        "s = 5",
        "a[x, 0] = 1.0",
    ]


def test_a_slice_binds_as_an_alias(script):
    assert script("x = A[cid * 4 : cid * 4 + 4, :]\nT.copy(x, a[:4, :])") == [
        "copy(A[cid * 4 :+ 4, 0 :+ 128], a[0 :+ 4, 0 :+ 128], enable_relu=False, transpose=False)"
    ]


def test_a_static_if_is_folded(script):
    assert script(
        "if flag:\n    T.tile.exp(a, b)\nelse:\n    T.tile.undefined(a)", "flag = True"
    ) == ["exp(a, b)"]


def test_a_runtime_if_stays(script):
    assert script(
        "if cid == 0 and n > 2:\n    T.barrier_all()\nelif not (vid == 1):\n    T.sync_all()"
    ) == [
        "if (cid == 0) and (n > 2):",
        "    pipe_barrier(ALL)",
        "else:",
        "    if not (vid == 1):",
        "        sync_all()",
    ]


def test_a_static_conditional_expression_is_folded(script):
    assert script("T.tile.exp(a, b) if flag else T.tile.ln(a, b)", "flag = False") == ["ln(a, b)"]


def test_augmented_assignment_of_an_element(script):
    assert script("a[cid, 3] += 2.0\nidx[vid] *= 3") == [
        "a[cid, 3] = a[cid, 3] + 2.0",
        "idx[vid] = idx[vid] * 3",
    ]


def test_tuple_targets(script):
    assert script("x, (y, z) = cid + 1, (vid + 2, n + 3)\nidx[x] = y + z") == [
        "x = cid + 1",
        "y = vid + 2",
        "z = n + 3",
        "idx[x] = y + z",
    ]


def test_chained_assignment(script):
    assert script("x = y = cid + 1\nidx[x] = y")[-1] == "idx[x] = y"


def test_annotated_binding_converts(script):
    assert script("x: T.int64 = cid\nidx[0] = T.cast(x, 'int32')")[0] == "x = int64(cid)"


def test_buffers_in_tuples_and_comprehensions(kernel):
    func = kernel(
        "bufs = [T.alloc_ub((16,), 'float32') for _ in range(2)]\nT.tile.exp(bufs[0], bufs[1])"
    )
    assert [b.name for b in func.allocs[-2:]] == ["bufs_0", "bufs_1"]


def test_a_buffer_keeps_its_first_name(kernel):
    func = kernel("c = a\nT.tile.exp(c, b)")
    assert func.body[0].operands[0].name == "a"


def test_closure_global_and_builtin_names(load):
    module = load(
        """
        SIZE = 32
        def factory(rows):
            def double(x):
                return 2 * x
            @T.prim_func
            def main(A: T.Tensor((rows, SIZE), "float16")):
                with T.Kernel(1, is_npu=True) as (cid, vid):
                    a = T.alloc_ub((min(rows, 8), double(SIZE)), "float16")
                    T.tile.fill(a, f"{rows}" == "16")
            return main
        """
    )
    func = module.factory(16).ir
    assert func.allocs[0].shape == (8, 64)
    assert func.body[0].operands[1].value is True


def test_bindings_before_the_kernel_serve_the_grid(load):
    module = load(
        """
        m = T.symbolic("m")
        @T.prim_func
        def main(A: T.Tensor((m, 128), "float16")):
            blocks = T.ceildiv(m, 16)
            with T.Kernel(blocks, is_npu=True) as (cid, vid):
                pass
        """
    )
    func = module.main.ir
    assert (
        func.body == () and isinstance(func.grid, ir.Binary) and func.params[0].shape[0] is module.m
    )


def test_every_statement_has_the_users_line(kernel):
    func = kernel("x = cid + 1\nif x == 2:\n    T.copy(\n        A[x, 0],\n        a,\n    )")
    let, branch = func.body
    assert branch.loc.line == let.loc.line + 1
    assert branch.then[0].loc.line == let.loc.line + 2
    assert let.loc.file.endswith(".py")
