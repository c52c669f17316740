"""Which memory shared and fragment buffers get."""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.scope_inference import infer_scopes
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, codes, load

ZERO = ir.Const(0.0, "float32")


def scopes(kernel: Kernel) -> dict[str, str]:
    func, _ = infer_scopes(kernel.func())
    return {buffer.name: buffer.scope for buffer in func.allocs}


def test_fragments_by_position_in_the_matrix_operation() -> None:
    k = Kernel()
    a, b, c = (k.alloc(name, (16, 16), "float16", "fragment") for name in "abc")
    lonely = k.alloc("lonely", (16, 16), "float32", "fragment")
    k.op("mma", a, b, c)
    k.copy(lonely, k.gm("out", (16, 16)))
    assert scopes(k) == {"a": "l0a", "b": "l0b", "c": "l0c", "lonely": "l0c"}


def test_shared_in_a_matrix_operation_is_l1_even_with_vector_use() -> None:
    k = Kernel()
    a, b = (k.alloc(name, (16, 16), "float16", "shared") for name in "ab")
    c = k.alloc("c", (16, 16), "float32", "l0c")
    k.op("gemm_v0", a, b, c)
    k.op("fill", b, ZERO)
    assert scopes(k) == {"a": "l1", "b": "l1", "c": "l0c"}


def test_shared_in_vector_operations_only_is_ub() -> None:
    k = Kernel()
    a = k.alloc("a", (16, 16), "float32", "shared")
    k.op("exp", a, a)
    assert scopes(k) == {"a": "ub"}


def test_shared_that_is_only_copied() -> None:
    k = Kernel()
    source = k.gm("A", (16, 16))
    feeds = k.alloc("feeds", (16, 16), "float32", "shared")
    through = k.alloc("through", (16, 16), "float32", "shared")
    l0a = k.alloc("l0a", (16, 16), "float32", "l0a")
    k.copy(source, feeds)
    k.copy(feeds, l0a)
    k.copy(source, through)
    k.copy(through, k.gm("B", (16, 16)))
    assert scopes(k) == {"feeds": "l1", "through": "ub", "l0a": "l0a"}


def test_feeding_an_inferred_fragment_counts() -> None:
    k = Kernel()
    feeds = k.alloc("feeds", (16, 16), "float16", "shared")
    a, b = (k.alloc(name, (16, 16), "float16", "fragment") for name in "ab")
    c = k.alloc("c", (16, 16), "float32", "l0c")
    k.copy(feeds, a)
    k.op("mma", a, b, c)
    assert scopes(k)["feeds"] == "l1"


def test_the_other_side_of_a_ub_copy_becomes_ub() -> None:
    """Alone `other` would feed L0A and be L1; a copy from UB that it has no other role in wins."""
    k = Kernel()
    ub = k.alloc("ub", (16, 16), "float32", "ub")
    other = k.alloc("other", (16, 16), "float32", "shared")
    l0a = k.alloc("l0a", (16, 16), "float32", "l0a")
    k.copy(ub, other)
    k.copy(other, l0a)
    assert scopes(k)["other"] == "ub"


def test_a_pinned_l1_buffer_stays() -> None:
    k = Kernel()
    ub = k.alloc("ub", (16, 16), "float32", "ub")
    pinned = k.alloc("pinned", (16, 16), "float32", "l1")
    k.copy(ub, pinned)
    assert scopes(k) == {"ub": "ub", "pinned": "l1"}


def test_element_accesses_are_not_looked_at_and_warned_about() -> None:
    k = Kernel()
    shared = k.alloc("s", (4, 4), "float32", "shared")
    i, j = ir.Var("i"), ir.Var("j")
    k.parallel(shared, (4, 4), ZERO, (i, j))
    lowered = k.lower()
    assert lowered.func.allocs[0].scope == "l1"
    assert "AI-MEM-010" in codes(lowered)
    (note,) = [n for n in lowered.notes if n.code == "AI-MEM-010"]
    assert note.loc == shared.loc


@pytest.mark.parametrize("scope", ["shared", "l1"])
def test_a_flat_buffer_in_l1_is_refused(scope: str) -> None:
    k = Kernel()
    k.alloc("flat", (16,), "float32", scope)
    with pytest.raises(KernelSourceError) as caught:
        k.lower()
    assert caught.value.code == "AI-MEM-026"
    assert caught.value.where == k.allocs[0].loc
    clean = Kernel()
    flat = clean.alloc("flat", (16,), "float32", "shared")
    clean.op("exp", flat, flat)
    assert clean.lower().notes == ()


def test_every_reference_is_replaced() -> None:
    k = Kernel()
    shared = k.alloc("s", (16,), "float32", "shared")
    view = ir.Buffer("v", "shared", (4, 4), "float32", alias_of=shared)
    k.op("fill", shared, ZERO)
    k.op("exp", view, view)
    value = k.let("x", load(shared, 0))
    k.store(shared, 1, value)
    func, _ = infer_scopes(k.func())
    for stmt in ir.walk(func.body):
        if isinstance(stmt, ir.TileOp):
            assert all(o.scope == "ub" for o in stmt.operands if isinstance(o, ir.Buffer))
        if isinstance(stmt, ir.Let):
            assert isinstance(stmt.value, ir.Load) and stmt.value.buffer.scope == "ub"
        if isinstance(stmt, ir.Store):
            assert stmt.buffer is func.allocs[0]
    assert view.scope == "shared", "the input is not modified"


def test_a_kernel_without_placeholders_is_returned_as_it_is() -> None:
    k = Kernel()
    k.op("fill", k.alloc("a", (8,)), ZERO)
    func = k.func()
    assert infer_scopes(func) == (func, ())


@pytest.mark.parametrize("op", ["atomic_add", "printf"])
def test_atomic_adds_are_no_vector_use(op: str) -> None:
    k = Kernel()
    shared = k.alloc("s", (16, 16), "float32", "shared")
    if op == "atomic_add":
        k.op("atomic_add", k.gm("out", (16, 16)), shared)
        assert scopes(k) == {"s": "l1"}
    else:
        k.op("printf", shared, fmt="%f")
        assert scopes(k) == {"s": "ub"}
