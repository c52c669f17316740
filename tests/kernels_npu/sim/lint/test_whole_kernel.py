"""What only a look at the whole kernel shows; each mistake beside the kernel without it."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import pytest

from kernels_npu.sim.lint import FileReport

Lint = Callable[..., FileReport]

FRAME = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def factory():
    @T.prim_func
    def main(A: T.Tensor((48, 64), "float32"), C: T.Tensor((48, 64), "float32")):
        with T.Kernel({grid}, is_npu=True) as (cid, vid):
            a = T.alloc_ub((24, 64), "float32")
            b = T.alloc_ub((24, 64), "float32")
            with T.Scope("V"):
{body}
    return main

factory()
"""


def findings(lint: Lint, body: str, grid: str = "2") -> dict[str, str]:
    """Code -> severity of what lint says about a kernel with `body`."""
    text = FRAME.format(grid=grid, body=indent(body.strip("\n"), " " * 16))
    return {f.code: f.severity for f in lint(text).all_findings}


LOAD = "T.copy(A[cid * 24, 0], a)\nT.barrier_all()\n"
STORE = "\nT.barrier_all()\nT.copy(a, C[cid * 24, 0])"

#: Body that leaves a buffer or tensor -> the same body within its bounds.
BOUNDS = {
    "element": (
        "for i in T.serial(25):\n    a[i, 0] = 1.0",
        "for i in T.serial(24):\n    a[i, 0] = 1.0",
    ),
    "offset": (
        "for i in T.serial(12):\n    a[i * 2 + 2, 0] = 1.0",
        "for i in T.serial(12):\n    a[i * 2 + 1, 0] = 1.0",
    ),
    "let": (
        "for i in T.serial(12):\n    row = 23 - i * 2\n    a[row - 2, 0] = 1.0",
        "for i in T.serial(12):\n    row = 23 - i * 2\n    a[row - 1, 0] = 1.0",
    ),
    "vid": ("a[vid * 24, 0] = 1.0", "a[vid * 23, 0] = 1.0"),
    "block": ("a[cid * 24, 0] = 1.0", "a[cid * 23, 0] = 1.0"),
    "row": (
        "for i in T.serial(24):\n    T.tile.exp(a[i + 1, :], a[i, :])",
        "for i in T.serial(23):\n    T.tile.exp(a[i + 1, :], a[i, :])",
    ),
    "branch": (
        "if cid == 1:\n    a[cid + 24, 0] = 1.0",
        "if cid == 2:\n    a[cid * 12, 0] = 1.0",
    ),
    "tensor": ("a[0, 0] = A[48, 0]", "a[0, 0] = A[47, 0]"),
    "beyond the tensor": ("T.copy(A[48, 0], a)", "T.copy(A[cid * 30, 0], a)"),
    "parallel": (
        "for i, j in T.Parallel(24, 64):\n    a[i, j] = a[i, j + 1] + 1.0",
        "for i, j in T.Parallel(24, 63):\n    a[i, j] = a[i, j + 1] + 1.0",
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_indices_that_leave_a_buffer_for_certain(lint: Lint, case: str) -> None:
    wrong, right = BOUNDS[case]
    assert {"AI-BOUND-001": "error", "AI-BOUND-002": "error"}.items() & (
        findings(lint, LOAD + wrong + STORE).items()
    )
    assert findings(lint, LOAD + right + STORE) == {}


def test_only_what_is_certain_is_reported(lint: Lint) -> None:
    # Run-time bounds, run-time conditions and tails are for an execution.
    for body in (
        "n = A[0, 0]\nif n > 3.0:\n    for i in T.serial(30):\n        a[T.min(i, 23), 0] = 1.0",
        "for i in T.serial(48):\n    if i < 24:\n        a[i, 0] = 1.0",
        "for i in T.serial(A_rows):\n    a[i % 24, 0] = 1.0".replace("A_rows", "100"),
    ):
        assert findings(lint, LOAD + body + STORE) == {}


FLAGS = {
    "wait without set": (
        'T.wait_flag("v", "mte3", 1)',
        'T.set_flag("v", "mte3", 1)\nT.wait_flag("v", "mte3", 1)',
        {"AI-SYNC-001": "error"},
    ),
    "another id": (
        'T.set_flag("v", "mte3", 2)\nT.wait_flag("v", "mte3", 1)',
        'for i in T.serial(2):\n    T.set_flag("v", "mte3", i)\n    T.wait_flag("v", "mte3", i)',
        {"AI-SYNC-001": "error", "AI-SYNC-003": "warning"},
    ),
    "set without wait": (
        'T.set_flag("v", "mte3", 1)',
        "T.barrier_all()",
        {"AI-SYNC-003": "warning"},
    ),
    "id 9": (
        'T.set_flag("v", "mte3", 9)\nT.wait_flag("v", "mte3", 9)',
        'T.set_flag("v", "mte3", 7)\nT.wait_flag("v", "mte3", 7)',
        {"AI-SYNC-007": "warning"},
    ),
    "cross wait without set": (
        "T.wait_cross_flag(3)",
        'T.set_flag("v", "mte3", 0)\nT.wait_flag("v", "mte3", 0)',
        {"AI-SYNC-001": "error"},
    ),
    "buffer that nothing writes": (
        "T.tile.add(a, a, b)",
        "T.tile.fill(b, 2.0)\nT.tile.add(a, a, b)",
        {"AI-INIT-004": "warning"},
    ),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags_and_buffers_without_a_partner(lint: Lint, case: str) -> None:
    wrong, right, expected = FLAGS[case]
    assert findings(lint, LOAD + wrong + STORE) == expected
    assert findings(lint, LOAD + right + STORE) == {}


def test_outputs_that_are_never_written(lint: Lint) -> None:
    assert findings(lint, LOAD + "T.tile.exp(a, a)") == {"AI-INIT-002": "error"}
    assert findings(lint, LOAD + "T.tile.exp(a, a)" + STORE) == {}


def test_an_output_that_is_an_input_names_what_is_written_instead(lint: Lint) -> None:
    text = FRAME.format(grid="2", body=indent(LOAD + STORE, " " * 16))
    (finding,) = lint(text.replace("out_idx=[1]", "out_idx=[-2]")).all_findings
    assert finding.code == "AI-INIT-002"
    assert "output A (out_idx 0) is never written; C, which the kernel writes" in finding.message
    assert finding.fix.startswith("put 1 in place of 0 into out_idx")


def test_every_statement_that_cannot_run_is_named(lint: Lint) -> None:
    body = (
        LOAD + "T.tile.add(a, A[:24, :], a)\nT.tile.exp(a[:, 3], a[:, 3])\nT.tile.exp(b, a)" + STORE
    )
    assert set(findings(lint, body)) == {"AI-SRC-052", "AI-SRC-053"}


def test_one_element_is_moved_into_a_tile_of_one(lint: Lint) -> None:
    """Every extent is 1: there is no dimension in which the tile could be larger."""
    body = """
one = T.alloc_ub((1, 1), "float32")
for i in T.serial(64):
    T.copy(A[cid, i : i + 1], one)
    T.barrier_all()
    T.copy(one, C[cid, i : i + 1])
    T.barrier_all()
"""
    assert "error" not in findings(lint, body).values()
