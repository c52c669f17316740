"""What each core type runs, with and without automatic combine."""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, codes, load, shape_of

ZERO = ir.Const(0.0, "float32")


def mixed() -> tuple[Kernel, dict[str, ir.Buffer]]:
    k = Kernel()
    buffers = {
        "a": k.gm("A", (16, 16), "float16"),
        "out": k.gm("out", (16, 16)),
        "l1": k.alloc("l1", (16, 16), "float16", "l1"),
        "l0c": k.alloc("l0c", (16, 16), "float32", "l0c"),
        "ub": k.alloc("ub", (16, 16)),
    }
    return k, buffers


# --------------------------------------------------------------------------- ownership rules


def test_each_core_keeps_the_operations_it_owns() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    k.op("gemm_v0", b["l1"], b["l1"], b["l0c"])
    k.copy(b["l0c"], b["out"])
    k.copy(b["out"], b["ub"])
    k.op("exp", b["ub"], b["ub"])
    k.op("atomic_add", b["out"], b["l0c"])
    k.op("atomic_add", b["out"], b["ub"])
    k.op("printf", fmt="hello")
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy", "gemm_v0", "copy", "atomic_add", "printf"]
    assert shape_of(lowered.vector) == ["copy", "exp", "atomic_add", "printf"]


def test_scopes_hide_regions_and_disappear() -> None:
    k, b = mixed()
    with k.scope("cube"):
        k.copy(b["a"], b["l1"])
        k.barrier()
        k.set_cross("FIX", 0)
    with k.scope("vector"):
        k.wait_cross(0)
        k.copy(b["out"], b["ub"])
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy", "PipeBarrier", "set 0 FIX"]
    assert shape_of(lowered.vector) == ["wait 0", "copy"]


def test_an_operation_in_the_wrong_scope_never_runs_and_is_reported() -> None:
    k, b = mixed()
    with k.scope("cube"):
        k.copy(b["a"], b["l1"])
        wrong = k.op("exp", b["ub"], b["ub"])
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy"]
    assert lowered.vector == ()
    (note,) = lowered.notes
    assert (note.code, note.loc) == ("AI-SRC-042", wrong.loc)


def test_unscoped_flags_run_on_whoever_reaches_them() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    k.copy(b["out"], b["ub"])
    k.set_flag("MTE2", "V")
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy", "SetFlag"]
    assert shape_of(lowered.vector) == ["copy", "SetFlag"]


def test_a_pure_vector_kernel_leaves_the_cube_without_work() -> None:
    k, b = mixed()
    with k.loop("i", 4):
        k.copy(b["out"], b["ub"])
        k.barrier()
        k.set_flag("MTE2", "V")
    lowered = k.lower()
    assert lowered.cube == ()
    assert shape_of(lowered.vector) == [["for i", "copy", "PipeBarrier", "SetFlag"]]


def test_global_element_stores_run_on_both_cores_unless_only_one_knows_the_value() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    k.copy(b["out"], b["ub"])
    k.store(b["out"], 0, ZERO)
    k.store(b["out"], 1, load(b["ub"], 0))
    value = k.let("x", load(b["ub"], 1))
    k.store(b["out"], 2, value + 1.0)
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy", "store out"]
    assert shape_of(lowered.vector) == ["copy", "store out", "store out", "let x", "store out"]
    assert codes(lowered) == []


def test_global_scalar_reads_stay_on_both() -> None:
    k, b = mixed()
    table = k.gm("table", (8,), "int32")
    n = k.let("n", load(table, 0))
    with k.loop("i", n):
        k.copy(b["a"], b["l1"])
        k.copy(b["out"], b["ub"])
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["let n", ["for i", "copy"]]
    assert shape_of(lowered.vector) == ["let n", ["for i", "copy"]]


def test_cube_work_that_depends_on_ub_is_an_error_with_its_line() -> None:
    k, b = mixed()
    n = k.let("n", load(b["ub"], 0))
    with k.loop("i", n):
        k.copy(b["a"], b["l1"])
    lowered = k.lower()
    assert {note.code for note in lowered.errors} == {"AI-SRC-040"}
    assert len(lowered.errors) == 2, "the read and the loop"


def test_vector_work_under_a_ub_condition_is_fine() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    n = k.let("n", load(b["ub"], 0))
    with k.branch(n > 0.0):
        k.op("exp", b["ub"], b["ub"])
    lowered = k.lower()
    assert codes(lowered) == []
    assert shape_of(lowered.cube) == ["copy"]
    assert shape_of(lowered.vector) == ["let n", ["if", "exp"]]


@pytest.mark.parametrize("combine", [False, True])
def test_parallel_goes_where_its_instructions_go(combine: bool) -> None:
    k, b = mixed()
    i, j = ir.Var("i"), ir.Var("j")
    k.copy(b["a"], b["l1"])
    k.parallel(b["ub"], (16, 16), load(b["ub"], i, j) * 2.0, (i, j))
    k.parallel(b["out"], (16, 16), load(b["ub"], i, j) + load(b["ub"], i, j), (i, j))
    k.parallel(b["out"], (16, 16), ir.Cast(load(b["l0c"], i, j), "float32"), (i, j))
    lowered = k.lower(auto_cv_combine=combine)
    assert shape_of(lowered.cube) == ["copy", "Parallel"]
    assert shape_of(lowered.vector) == ["Parallel", "Parallel"]


# --------------------------------------------------------------------------- combine


def test_flags_follow_the_statement_before_them() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    k.set_flag("MTE2", "MTE1")
    k.copy(b["out"], b["ub"])
    k.barrier()
    k.set_cross("MTE3", 3)
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == ["copy", "SetFlag"]
    assert shape_of(lowered.vector) == ["copy", "PipeBarrier", "set 3 MTE3"]


def test_flags_before_any_decision_are_dropped_in_both_and_reported() -> None:
    k, b = mixed()
    lost = k.wait_cross(1)
    k.copy(b["out"], b["ub"])
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.vector) == ["copy"]
    (note,) = lowered.notes
    assert (note.code, note.severity, note.loc) == ("AI-SYNC-020", "warning", lost.loc)


def test_the_decision_crosses_loop_borders() -> None:
    k, b = mixed()
    with k.loop("i", 2):
        k.copy(b["a"], b["l1"])
    k.barrier()  # follows the copy inside the loop
    k.copy(b["out"], b["ub"])
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == [["for i", "copy"], "PipeBarrier"]
    assert shape_of(lowered.vector) == ["copy"]


def test_loops_without_content_disappear_from_the_copy() -> None:
    k, b = mixed()
    with k.loop("i", 2):
        k.op("exp", b["ub"], b["ub"])
    with k.loop("j", 2):
        k.copy(b["a"], b["l1"])
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == [["for j", "copy"]]
    assert shape_of(lowered.vector) == [["for i", "exp"]]


def test_element_stores_by_scope() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    k.store(b["ub"], 0, ZERO)
    k.store(b["out"], 0, ZERO)
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == ["copy", "store out"]
    assert shape_of(lowered.vector) == ["store ub"]


def test_register_assignments_exist_in_the_cube_copy_only() -> None:
    k, b = mixed()
    counter = k.alloc("counter", (1,), "int32", "var")
    init = ir.Store(
        loc=counter.loc or k.loc(),
        buffer=counter,
        indices=(ir.Const(0, "int32"),),
        value=ir.Const(7, "int32"),
    )
    k.emit(init)
    changed = k.store(counter, 0, load(counter, 0) + 1)
    with k.branch(load(counter, 0) > 3):
        k.copy(b["a"], b["l1"])
        k.copy(b["out"], b["ub"])
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == ["store counter", "store counter", ["if", "copy"]]
    assert shape_of(lowered.vector) == ["store counter", ["if", "copy"]]
    (note,) = lowered.notes
    assert (note.code, note.loc) == ("AI-SRC-041", changed.loc)


def test_without_combine_registers_live_on_both() -> None:
    k, b = mixed()
    counter = k.alloc("counter", (1,), "int32", "var")
    k.store(counter, 0, 7)
    with k.branch(load(counter, 0) > 3):
        k.copy(b["a"], b["l1"])
        k.copy(b["out"], b["ub"])
    lowered = k.lower()
    for program in (lowered.cube, lowered.vector):
        assert shape_of(program) == ["store counter", ["if", "copy"]]


def test_explicit_scopes_nest_inside_the_copies() -> None:
    k, b = mixed()
    with k.scope("vector"):
        k.copy(b["out"], b["ub"])
        k.copy(b["a"], b["l1"])  # cube by its kind, hidden by the scope
    lowered = k.lower(auto_cv_combine=True)
    assert lowered.cube == ()
    assert shape_of(lowered.vector) == ["copy"]


def test_sync_all_crashes_the_real_pass() -> None:
    k, b = mixed()
    k.copy(b["out"], b["ub"])
    stmt = k.emit(ir.SyncAll(loc=k.loc()))
    with pytest.raises(KernelSourceError) as caught:
        k.lower(auto_cv_combine=True)
    assert (caught.value.code, caught.value.where) == ("AI-SRC-043", stmt.loc)
    assert shape_of(k.lower().vector) == ["copy", "SyncAll"]


def test_unvectorised_parallel_to_global_memory_lands_in_the_cube_copy() -> None:
    """`constant * element` matches no pattern: element stores are left, and those are cube."""
    k, b = mixed()
    i, j = ir.Var("i"), ir.Var("j")
    k.copy(b["out"], b["ub"])
    k.parallel(b["out"], (16, 16), 2.0 * load(b["ub"], i, j), (i, j))
    lowered = k.lower(auto_cv_combine=True)
    assert shape_of(lowered.cube) == ["Parallel"]
    assert shape_of(lowered.vector) == ["copy"]
    assert "AI-SRC-040" in {note.code for note in lowered.errors}
    assert shape_of(k.lower().vector) == ["copy", "Parallel"]


def test_a_persistent_loop_without_own_work_disappears() -> None:
    k, b = mixed()
    k.copy(b["a"], b["l1"])
    with k.loop("w", 4, kind="persistent") as w:
        with k.branch(w > 2):
            k.emit(ir.Break(loc=k.loc()))
        k.op("exp", b["ub"], b["ub"])
    lowered = k.lower()
    assert shape_of(lowered.cube) == ["copy"]
    assert shape_of(lowered.vector) == [["for w", ["if", "Break"], "exp"]]
