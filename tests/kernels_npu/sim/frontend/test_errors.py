# ruff: noqa: RUF059 - kernels name both indices
# ruff: noqa: E501 - a table of kernel texts reads better in one line each
"""Every refusal of the front end: its code, the user's line, a rule or a fix."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from kernels_npu.error_codes import CODES
from kernels_npu.errors import KernelSourceError, SourceLocation

#: (code, body of a kernel with `#!` on the line to blame, text of the module above it)
CASES = {
    "undefined name": ("AI-SRC-002", "T.tile.fill(nope, 0)  #!", ""),
    "undefined name in an index": ("AI-SRC-002", "T.barrier_all()\na[nope, 0] = 1.0  #!", ""),
    "return": ("AI-SRC-003", "return  #!", ""),
    "break": ("AI-SRC-003", "for i in T.serial(3):\n    break  #!", ""),
    "try": ("AI-SRC-003", "try:  #!\n    pass\nexcept ValueError:\n    pass", ""),
    "import": ("AI-SRC-003", "import math  #!", ""),
    "inner function": ("AI-SRC-003", "def f():  #!\n    pass", ""),
    "walrus": ("AI-SRC-003", "idx[0] = (k := 3)  #!", ""),
    "scope as a statement": ("AI-SRC-003", 'T.Scope("V")  #!', ""),
    "two operations in one statement": ("AI-SRC-003", "[T.barrier_all(), T.barrier_all()]  #!", ""),
    "with something else": ("AI-SRC-003", "with open('x') as f:  #!\n    pass", "def open(name): return 3"),
    "for else": ("AI-SRC-003", "for i in T.serial(2):  #!\n    pass\nelse:\n    pass", ""),
    "then outside if": ("AI-SRC-003", "with T.Then():  #!\n    pass", ""),
    "if without then": ("AI-SRC-003", "with T.If(n > 0):  #!\n    T.barrier_all()", ""),
    "false assertion": ("AI-SRC-003", "assert 1 == 2, 'tile too small'  #!", ""),
    "a helper raises": ("AI-SRC-004", "T.barrier_all()\nT.tile.fill(a, bad())  #!", "def bad(): raise ValueError('no')"),
    "a store that overflows": ("AI-SRC-004", "idx[0] = T.infinity('float32')  #!", ""),
    "builtin max of run-time values": ("AI-SRC-004", "idx[0] = max(cid, n)  #!", ""),
    "loop over a list": ("AI-SRC-005", "for x in [1, 2]:  #!\n    pass", ""),
    "loop over a float": ("AI-SRC-005", "for x in T.serial(2.5):  #!\n    pass", ""),
    "persistent without a domain": ("AI-SRC-005", "for x in T.Persistent(4, 20, cid):  #!\n    pass", ""),
    "if on an int": ("AI-SRC-006", "if size % 2:  #!\n    pass", "size = 3"),
    "if on a buffer": ("AI-SRC-006", "if a:  #!\n    pass", ""),
    "conditional expression on a run-time value": ("AI-SRC-007", "idx[0] = 1 if cid == 0 else 2  #!", ""),
    "chained comparison": ("AI-SRC-007", "if 0 <= cid < 3:  #!\n    pass", ""),
    "unknown tile operation": ("AI-SRC-008", "T.tile.foo(a, b)  #!", ""),
    "unknown operation": ("AI-SRC-008", "T.coppy(a, b)  #!", ""),
    "attribute of a buffer": ("AI-SRC-008", "idx[0] = a.length  #!", ""),
    "too few arguments": ("AI-SRC-009", "T.tile.add(a, b)  #!", ""),
    "unknown keyword": ("AI-SRC-009", "T.copy(A, a, wide=True)  #!", ""),
    "both bounds in a tile operation": ("AI-SRC-010", "T.tile.exp(a[0:32, :], b[:32, :])  #!", ""),
    "both bounds in the last index": ("AI-SRC-010", "T.tile.exp(a[3, 0:64], b[3, :64])  #!", ""),
    "both bounds in a reduction": ("AI-SRC-010", "T.reduce_sum(a[0:32, :], row[:32, :])  #!", ""),
    "both bounds in atomic_add": ("AI-SRC-010", "T.tile.atomic_add(A[0:64, 0:128], a)  #!", ""),
    "run-time bounds in a tile operation": ("AI-SRC-010", "T.tile.exp(a[0:n, :], b[0:n, :])  #!", ""),
    "slice with a step": ("AI-SRC-010", "T.copy(A[0:64:2, :], a)  #!", ""),
    "too few indices": ("AI-SRC-011", "T.copy(A[0], a)  #!", ""),
    "too many indices": ("AI-SRC-011", "idx[0, 0] = 1  #!", ""),
    "float index": ("AI-SRC-011", "idx[1.5] = 1  #!", ""),
    "store to a slice": ("AI-SRC-011", "a[0, :] = 1.0  #!", ""),
    "scalar as a tile": ("AI-SRC-012", "T.tile.exp(a[0, 0], b)  #!", ""),
    "slice where a whole buffer is needed": ("AI-SRC-012", "T.tile.createvecindex(idx[:8], 0)  #!", ""),
    "named slice in a tile operation": ("AI-SRC-012", "x = b[:, :]\nT.tile.exp(a, x)  #!", ""),
    "a third operand of a copy": ("AI-SRC-012", "T.copy(A[cid, 0], a, b)  #!", ""),
    "bound value in a copy": ("AI-SRC-012", "x = A[cid, 0]\nT.copy(x, a)  #!", ""),
    "buffer as a scalar": ("AI-SRC-012", "T.tile.axpy(a, b, v)  #!", ""),
    "storing a buffer": ("AI-SRC-012", "a[0, 0] = b  #!", ""),
    "copy of different shapes": ("AI-SRC-013", "T.copy(A, v)  #!", ""),
    "copy of different ranks": ("AI-SRC-013", "T.copy(v, T.alloc_ub((1, 128), 'float32'))  #!", ""),
    "copy between elements": ("AI-SRC-013", "T.copy(A[0, 0], a[0, 0])  #!", ""),
    "sizes differ": ("AI-SRC-014", "T.tile.add(a, v, v)  #!", ""),
    "sizes differ in a slice of src1": ("AI-SRC-014", "T.tile.add(a, b, b[:32, :])  #!", ""),
    "sizes differ in sin": ("AI-SRC-014", "T.tile.sin(a, v)  #!", ""),
    "sizes differ in mul_add_dst": ("AI-SRC-014", "T.tile.mul_add_dst(a, b, v)  #!", ""),
    "shapes differ in select": ("AI-SRC-014", "T.tile.select(a, mask, v, 0.0, 'VSEL_TENSOR_SCALAR_MODE')  #!", ""),
    "run-time size": ("AI-SRC-015", "T.tile.exp(a[:n, :], b[:n, :])  #!", ""),
    "unknown compare mode": ("AI-SRC-016", "T.tile.compare(mask, a, 0.0, 'XX')  #!", ""),
    "unknown cast mode": ("AI-SRC-016", "T.tile.cast(a, b, 'CAST_UP', 8)  #!", ""),
    "unknown select mode": ("AI-SRC-016", "T.tile.select(a, mask, b, 0.0, 'SCALAR')  #!", ""),
    "select mode of another source": ("AI-SRC-016", "T.tile.select(a, mask, b, b, 'VSEL_TENSOR_SCALAR_MODE')  #!", ""),
    "unknown gather pattern": ("AI-SRC-016", "T.tile.gather_mask(a, b, 'P11')  #!", ""),
    "reduce axis": ("AI-SRC-017", "T.reduce_sum(a, row, dim=2)  #!", ""),
    "reduce output": ("AI-SRC-017", "T.reduce_max(a, v, dim=-1)  #!", ""),
    "reduce real_shape too large": ("AI-SRC-017", "T.reduce_max(a, row, dim=-1, real_shape=[64, 129])  #!", ""),
    "reduce real_shape of one": ("AI-SRC-017", "T.reduce_max(a, row, dim=-1, real_shape=[64])  #!", ""),
    "reduce clear twice": ("AI-SRC-017", "T.reduce_max(a, row, -1, True, False)  #!", ""),
    "broadcast shapes": ("AI-SRC-018", "T.tile.broadcast(a, idx[:32])  #!", ""),
    "broadcast axis": ("AI-SRC-018", "T.tile.broadcast(a, row, axis=2)  #!", ""),
    "broadcast wrong size": ("AI-SRC-018", "T.tile.broadcast(a, row[:32, :])  #!", ""),
    "gemm K": ("AI-SRC-019", "T.gemm_v0(a, b, T.alloc_L0C((64, 64), 'float32'))  #!", ""),
    "gemm rank": ("AI-SRC-019", "T.gemm_v0(v, b, T.alloc_L0C((64, 64), 'float32'))  #!", ""),
    "mma K": ("AI-SRC-019", "T.mma(a, b, T.alloc_L0C((64, 128), 'float32'))  #!", ""),
    "gemm of a named part": ("AI-SRC-019", "x = a[:32, :]\nT.gemm_v0(x, b, T.alloc_L0C((32, 64), 'float32'), transpose_B=True)  #!", ""),
    "compare with an int": ("AI-SRC-021", "T.tile.compare(mask, a, 0, 'EQ')  #!", ""),
    "select with an int": ("AI-SRC-021", "T.tile.select(a, mask, b, 1, 'VSEL_TENSOR_SCALAR_MODE')  #!", ""),
    "mainline gemm": ("AI-SRC-022", "T.gemm(a, b, a)  #!", ""),
    "mainline fill": ("AI-SRC-022", "T.clear(a)  #!", ""),
    "mainline vector function": ("AI-SRC-022", "with T.SimtVF(threads=128):  #!\n    pass", ""),
    "mainline copy option": ("AI-SRC-022", "T.copy(A, a, coalesced_width=8)  #!", ""),
    "mainline gemm option": ("AI-SRC-022", "T.gemm_v0(a, b, a, clear_accum=True)  #!", ""),
    "mainline swizzle": ("AI-SRC-022", "T.use_swizzle(panel_size=10, enable=True)  #!", ""),
    "alloc_local": ("AI-SRC-022", "x = T.alloc_local((8,), 'float32')  #!", ""),
    "second kernel": ("AI-SRC-024", "with T.Kernel(1, is_npu=True) as (c, d):  #!\n    pass", ""),
    "dropped operation": ("AI-SRC-025", "helper(a)  #!", "def helper(x):\n    T.tile.fill(x, 0.0)"),
    "size bound in the kernel": ("AI-SRC-028", "k = 8\nx = T.alloc_ub((2 * k, 8), 'float32')  #!", ""),
    "extent bound in the kernel": ("AI-SRC-015", "k = 8\nT.tile.exp(a[:k, :], b[:k, :])  #!", ""),
    "run-time parallel": ("AI-SRC-026", "for i in T.Parallel(n):  #!\n    idx[i] = 0", ""),
    "binding an operation": ("AI-SRC-027", "x = T.tile.exp(a, b)  #!", ""),
    "unpacking": ("AI-SRC-027", "x, y = 1, 2, 3  #!", ""),
    "a name twice": ("AI-SRC-027", "x, x = 1, 2  #!", ""),
    "attribute target": ("AI-SRC-027", "a.name = 'x'  #!", ""),
    "store into a list": ("AI-SRC-027", "items = [1, 2]\nitems[0] = 3  #!", ""),
    "run-time shape": ("AI-SRC-028", "x = T.alloc_ub((n, 8), 'float32')  #!", ""),
    "zero extent": ("AI-SRC-028", "x = T.alloc_ub((0, 8), 'float32')  #!", ""),
    "dtype object": ("AI-SRC-028", "x = T.alloc_ub((8, 8), T.float32)  #!", ""),
    "unknown dtype": ("AI-SRC-030", "x = T.alloc_ub((8, 8), 'float31')  #!", ""),
    "unknown pipe": ("AI-SRC-029", "T.set_flag('mte9', 'v', 0)  #!", ""),
    "flag number": ("AI-SRC-029", "T.wait_flag('mte2', 'v', 99)  #!", ""),
    "cross flag mode": ("AI-SRC-029", "T.set_cross_flag('FIX', 0, 3)  #!", ""),
    "address of a tensor": ("AI-SRC-031", "T.annotate_address({A: 0})  #!", ""),
    "run-time address": ("AI-SRC-031", "T.annotate_address({a: n})  #!", ""),
    "layout": ("AI-SRC-031", "T.annotate_layout({a: 'zn'})  #!", ""),
    "scope name": ("AI-SRC-032", "with T.Scope('X'):  #!\n    pass", ""),
    "merge of one list": ("AI-SRC-032", "T.tile.merge_sort(a, b, None)  #!", ""),
    "dump label": ("AI-SRC-032", "T.dump_tensor(a, -1, 8)  #!", ""),
    "pattern dtype": ("AI-SRC-032", "T.tile.gather_mask(a, b, idx)  #!", ""),
    "row_expand rows": ("AI-SRC-032", "T.tile.row_expand_mul(a, b, v)  #!", ""),
    "brcb size": ("AI-SRC-032", "T.tile.brcb_experiment(a, v, 17, 1, 8)  #!", ""),
    "early return of a macro": (
        "AI-SRC-033", "m(a)", "@T.macro\ndef m(x):\n    if True:\n        return x  #!\n    T.barrier_all()",
    ),
    "integer division": ("AI-SRC-034", "idx[0] = n / 2  #!", ""),
    "atomic_add into UB": ("AI-SRC-035", "T.tile.atomic_add(a, b)  #!", ""),
    "atomic_add from a tensor": ("AI-SRC-035", "T.tile.atomic_add(A, B)  #!", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(kernel, name):
    code, body, before = CASES[name]
    with pytest.raises(KernelSourceError) as caught:
        kernel(body, before)
    error = caught.value
    assert error.code == code, str(error)
    assert isinstance(error.where, SourceLocation)
    line = Path(error.where.file).read_text().splitlines()[error.where.line - 1]
    if "#!" in body + before:
        assert "#!" in line, f"{error}\nblames {line!r}"
    assert error.rule or error.fix or code == "AI-SRC-003"
    assert code in CODES


HEADS = {
    "two dimensions": ("AI-SRC-020", "T.Kernel(2, 3, is_npu=True) as (cid, vid)"),
    "threads": ("AI-SRC-020", "T.Kernel(2, is_npu=True, threads=4) as cid"),
    "float grid": ("AI-SRC-020", "T.Kernel(2.0, is_npu=True) as (cid, vid)"),
    "mainline Ascend": ("AI-SRC-022", "T.Kernel(2) as cid"),
    "mainline GPU": ("AI-SRC-022", "T.Kernel(2, 3, threads=128) as (bx, by)"),
    "indices with threads": ("AI-SRC-027", "T.Kernel(2, is_npu=True, threads=2) as (cid, vid)"),
    "one name for two indices": ("AI-SRC-027", "T.Kernel(2, is_npu=True) as (x, x)"),
    "three indices": ("AI-SRC-027", "T.Kernel(2, is_npu=True) as (x, y, z)"),
}


@pytest.mark.parametrize("name", HEADS)
def test_launch_refused(load, name):
    code, head = HEADS[name]
    with pytest.raises(KernelSourceError) as caught:
        load(
            f"""
            @T.prim_func
            def main(A: T.Tensor((16,), "float16")):
                with {head}:
                    pass
            """
        )
    assert caught.value.code == code


SIGNATURES = {
    "no annotation": ("AI-SRC-023", "A"),
    "python type": ("AI-SRC-023", "A: int"),
    "tensor of strings": ("AI-SRC-023", "A: T.Tensor(('x',), 'float16')"),
    "star arguments": ("AI-SRC-023", "*A"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature_refused(load, name):
    code, parameter = SIGNATURES[name]
    with pytest.raises(KernelSourceError) as caught:
        load(
            f"""
            @T.prim_func
            def main({parameter}):
                with T.Kernel(1, is_npu=True) as (cid, vid):
                    pass
            """
        )
    assert caught.value.code == code


OUTSIDE = {
    "no kernel": "pass",
    "operation before the kernel": "T.barrier_all()",
    "allocation before the kernel": "x = T.alloc_ub((8,), 'float32')",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_kernel(load, name):
    with pytest.raises(KernelSourceError) as caught:
        load(f"@T.prim_func\ndef main(A: T.Tensor((16,), 'float16')):\n    {OUTSIDE[name]}\n")
    assert caught.value.code == "AI-SRC-024"


def test_operations_outside_a_prim_func(load):
    with pytest.raises(KernelSourceError) as caught:
        load("T.barrier_all()")
    assert caught.value.code == "AI-SRC-024"


def test_a_lambda_has_no_kernel_source():
    from kernels_npu.sim.frontend import parse

    with pytest.raises(KernelSourceError) as caught:
        parse(lambda A: None)
    assert caught.value.code == "AI-SRC-001"


def test_interactive_source_is_refused(load):
    from kernels_npu.sim.frontend import T

    namespace = {"T": T}
    text = "@T.prim_func\ndef main(A: T.Tensor((16,), 'float16')):\n    pass\n"
    with pytest.raises(KernelSourceError) as caught:
        exec(compile(text, "<stdin>", "exec"), namespace)
    assert caught.value.code == "AI-SRC-001"


def test_string_annotations_are_explained():
    # This module has string annotations, and `rows` is used by an annotation only.
    from kernels_npu.sim.frontend import T

    def factory(rows):
        @T.prim_func
        def main(A: T.Tensor((rows,), "float16")):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                pass

        return main

    with pytest.raises(KernelSourceError, match="AI-SRC-023") as caught:
        factory(16)
    assert "from __future__" in (caught.value.fix or "")


def test_the_cause_is_kept(kernel):
    with pytest.raises(KernelSourceError) as caught:
        kernel("T.tile.fill(a, bad())", "def bad(): raise ValueError('no')")
    assert isinstance(caught.value.__cause__, ValueError)


def test_suggestions(kernel):
    with pytest.raises(KernelSourceError, match="AI-SRC-008") as caught:
        kernel("T.tile.reduce_summ(a, row)")
    assert caught.value.fix is not None
    with pytest.raises(KernelSourceError) as caught:
        kernel("T.exp2d(a)")
    assert "T.exp2" in (caught.value.fix or "")
    with pytest.raises(KernelSourceError) as caught:
        kernel("T.axpy(a, b, 2.0)")
    assert caught.value.fix == "write T.tile.axpy"


def test_hasattr_works_on_the_modules():
    from kernels_npu.sim.frontend import T

    assert not hasattr(T, "nothing") and not hasattr(T.tile, "nothing") and not hasattr(T, "gemm")


def test_every_code_of_the_front_end_is_registered():
    import re

    import kernels_npu.sim.frontend as package

    folder = Path(inspect.getfile(package)).parent
    text = "".join(p.read_text() for p in folder.rglob("*.py"))
    used = set(re.findall(r'"(AI-[A-Z]+-\d+)"', text))
    assert used and used <= set(CODES)
