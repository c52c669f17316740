"""Automatic cross-core flags: pairing, hoisting, rejections."""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.passes.cross_core_sync import hoisting_depths
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, codes, shape_of


def attention() -> Kernel:
    """Online softmax in outline: S goes to the vector cores, P comes back, O goes over."""
    k = Kernel()
    q, out = k.gm("Q", (64, 64), "float16"), k.gm("Out", (64, 64))
    scores, probs = k.gm("workspace_1", (64, 64)), k.gm("workspace_2", (64, 64), "float16")
    partial = k.gm("workspace_3", (64, 64))
    l1 = k.alloc("l1", (64, 64), "float16", "l1")
    l0c = k.alloc("l0c", (64, 64), "float32", "l0c")
    ub, half = k.alloc("ub", (32, 64)), k.alloc("half", (32, 64), "float16")
    k.copy(q, l1)
    with k.loop("k", 2):
        k.op("gemm_v0", l1, l1, l0c)
        k.copy(l0c, scores)
        k.copy(probs, l1)
        k.op("gemm_v0", l1, l1, l0c)
        k.copy(l0c, partial)
    with k.loop("_k", 2):
        k.copy(scores, ub)
        k.copy(half, probs)
        k.copy(partial, ub)
    k.copy(ub, out)
    return k


def test_pairs_of_the_attention_kernel() -> None:
    lowered = attention().lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert shape_of(lowered.cube) == [
        "copy",
        ["for k", "gemm_v0", "copy", "set 0 FIX", "wait 1", "copy", "gemm_v0", "copy", "set 2 FIX"],
    ]
    assert shape_of(lowered.vector) == [
        ["for _k", "wait 0", "copy", "copy", "set 1 MTE3", "wait 2", "copy"],
        "copy",
    ]
    assert codes(lowered) == []


def test_flags_carry_mode_2_and_the_line_of_the_copy() -> None:
    lowered = attention().lower(auto_cv_combine=True, auto_cross_core_sync=True)
    flags = [s for s in ir.walk(lowered.cube) if isinstance(s, ir.SetCrossFlag)]
    copies = [s for s in ir.walk(lowered.cube) if isinstance(s, ir.TileOp) and s.op == "copy"]
    assert [f.mode for f in flags] == [2, 2]
    assert {f.loc for f in flags} <= {c.loc for c in copies}


def test_without_combine_nothing_happens_and_it_is_said() -> None:
    lowered = attention().lower(auto_cross_core_sync=True)
    flags = (ir.SetCrossFlag, ir.WaitCrossFlag)
    assert not any(isinstance(s, flags) for s in (*ir.walk(lowered.cube), *ir.walk(lowered.vector)))
    assert codes(lowered) == ["AI-SYNC-025"]
    assert codes(attention().lower()) == []


def producer_consumer(writes: int, reads: int, *, loops: tuple[int, int] = (1, 1)) -> Kernel:
    k = Kernel()
    workspace = k.gm("workspace", (16, 16))
    l0c, ub = k.alloc("l0c", (16, 16), "float32", "l0c"), k.alloc("ub", (16, 16))
    for index in range(writes):
        with k.loop(f"c{index}", loops[0]):
            k.copy(l0c, workspace)
    for index in range(reads):
        with k.loop(f"v{index}", loops[1]):
            k.copy(workspace, ub)
    return k


def test_counts_must_match() -> None:
    with pytest.raises(KernelSourceError) as caught:
        producer_consumer(2, 1).lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert caught.value.code == "AI-SYNC-021"
    assert "2 times" in caught.value.what and "1 times" in caught.value.what


def test_directions_must_differ() -> None:
    k = Kernel()
    workspace = k.gm("workspace", (16, 16))
    l1, ub = k.alloc("l1", (16, 16), "float32", "l1"), k.alloc("ub", (16, 16))
    first = k.copy(workspace, l1)
    second = k.copy(workspace, ub)
    with pytest.raises(KernelSourceError) as caught:
        k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert caught.value.code == "AI-SYNC-021"
    assert str(first.loc) in caught.value.what and str(second.loc) in caught.value.what


def test_names_without_workspace_are_not_paired() -> None:
    k = Kernel()
    tensor = k.gm("scratch", (16, 16))
    l0c, ub = k.alloc("l0c", (16, 16), "float32", "l0c"), k.alloc("ub", (16, 16))
    k.copy(l0c, tensor)
    k.copy(tensor, ub)
    lowered = k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert shape_of(lowered.cube) == ["copy"]
    assert shape_of(lowered.vector) == ["copy"]


def test_vector_only_workspaces_get_half_of_a_flag() -> None:
    """As the compiler generates it: numbered by position among the vector program's accesses."""
    k = Kernel()
    l0c, ub = k.alloc("l0c", (16, 16), "float32", "l0c"), k.alloc("ub", (16, 16))
    shared, own = k.gm("workspace_1", (16, 16)), k.gm("workspace_v", (16, 16))
    k.copy(l0c, shared)
    k.copy(shared, ub)
    with k.loop("i", 3):
        k.copy(ub, own)
        k.copy(own, ub)
    lowered = k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert shape_of(lowered.cube) == ["copy", "set 0 FIX"]
    assert shape_of(lowered.vector) == [
        "wait 0",
        "copy",
        ["for i", "copy", "set 1 MTE3", "wait 2", "copy"],
    ]
    assert codes(lowered) == ["AI-SYNC-023", "AI-SYNC-023"]
    assert all(note.severity == "warning" for note in lowered.notes)


def test_atomic_adds_are_writes() -> None:
    k = Kernel()
    workspace = k.gm("workspace", (16, 16))
    l1, ub = k.alloc("l1", (16, 16), "float32", "l1"), k.alloc("ub", (16, 16))
    k.op("atomic_add", workspace, ub)
    k.copy(workspace, l1)
    lowered = k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert shape_of(lowered.vector) == ["atomic_add", "set 0 MTE3"]
    assert shape_of(lowered.cube) == ["wait 0", "copy"]


def test_a_clash_with_a_flag_set_by_hand_is_reported() -> None:
    k = producer_consumer(1, 1)
    k.set_cross("V", 0)
    lowered = k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert codes(lowered) == ["AI-SYNC-024"]


def test_a_flag_set_by_hand_beside_automatic_ones_is_reported() -> None:
    k = producer_consumer(1, 1)
    k.set_cross("V", 7)
    lowered = k.lower(auto_cv_combine=True, auto_cross_core_sync=True)
    assert codes(lowered) == ["AI-SYNC-026"]


def test_flags_leave_the_loops_that_only_one_side_has() -> None:
    lowered = producer_consumer(1, 1, loops=(4, 1)).lower(
        auto_cv_combine=True, auto_cross_core_sync=True
    )
    assert shape_of(lowered.cube) == [["for c0", "copy"], "set 0 FIX"]
    assert shape_of(lowered.vector) == [["for v0", "wait 0", "copy"]]


# --------------------------------------------------------------------------- hoisting depths


def nest(*loops: tuple[str, int | None]) -> tuple[ir.For, ...]:
    loc = SourceLocation("kernel.py", 1)
    return tuple(
        ir.For(
            loc=loc,
            var=ir.Var(name),
            start=ir.Const(0, "int32"),
            stop=ir.Var("n") if count is None else ir.Const(count, "int32"),
            body=(),
        )
        for name, count in loops
    )


@pytest.mark.parametrize(
    ("cube", "vector", "expected"),
    [
        ([], [], (0, 0)),
        ([("k", 4)], [("k", 4)], (1, 1)),
        ([("k", 4)], [("x", 4)], (1, 1)),
        ([("k", 4), ("i", 2)], [("k", 4)], (1, 1)),
        ([("k", 4)], [("k", 4), ("i", 2)], (1, 1)),
        ([("k", 8)], [("k", 4), ("i", 2)], (1, 2)),
        ([("k", 2), ("i", 2), ("j", 3)], [("x", 4)], (2, 1)),
        ([("k", 1)], [], (1, 0)),
        ([], [("x", 1)], (0, 1)),
        ([("k", None)], [("k", None)], (1, 1)),
        ([("k", None), ("i", 4)], [("k", None)], (1, 1)),
        ([("k", 4)], [("x", 6)], (0, 0)),
    ],
)
def test_depths(
    cube: list[tuple[str, int | None]],
    vector: list[tuple[str, int | None]],
    expected: tuple[int, int],
) -> None:
    assert hoisting_depths(nest(*cube), nest(*vector)) == expected


def test_unshared_run_time_loops_are_refused() -> None:
    with pytest.raises(KernelSourceError) as caught:
        hoisting_depths(nest(("k", None)), nest(("x", None)))
    assert caught.value.code == "AI-SYNC-022"
