"""The advice of a race is right when applied literally: the edited kernel is clean and exact."""

from __future__ import annotations

import ast
import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.machine.findings import Finding, Insertion

HEAD = """\
from kernels_npu.sim.frontend import T, tilelang

N = 64
TILES = 5

"""

#: y = 2 * x + 1, tile by tile, every edge by a flag. Lines with `# edge` can be taken out.
STREAMED = """
@tilelang.jit(out_idx=[1])
def make():
    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            b = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.set_flag("v", "mte2", 0)  # edge free_a
                T.set_flag("mte3", "v", 0)  # edge free_b
                for i in T.serial(TILES):
                    T.wait_flag("v", "mte2", 0)  # edge free_a
                    T.copy(x[i, :], a)
                    T.set_flag("mte2", "v", 1)  # edge load
                    T.wait_flag("mte2", "v", 1)  # edge load
                    T.wait_flag("mte3", "v", 0)  # edge free_b
                    T.tile.add(b, a, a)
                    T.tile.add(b, b, 1.0)
                    T.set_flag("v", "mte2", 0)  # edge free_a
                    T.set_flag("v", "mte3", 3)  # edge store
                    T.wait_flag("v", "mte3", 3)  # edge store
                    T.copy(
                        b,
                        y[i, :],
                    )
                    T.set_flag("mte3", "v", 0)  # edge free_b
                T.wait_flag("v", "mte2", 0)  # edge free_a
                T.wait_flag("mte3", "v", 0)  # edge free_b
    return kernel
"""

#: The load of the next row is in a nested loop, its use behind a branch.
NESTED = """
@tilelang.jit(out_idx=[1])
def make():
    @T.prim_func
    def kernel(x: T.Tensor((TILES, N), "float32"), y: T.Tensor((TILES, N), "float32")):
        with T.Kernel(1, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([1, N], "float32")
            total = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.set_flag("mte3", "v", 2)  # edge free
                for i in T.serial(TILES):
                    T.wait_flag("mte3", "v", 2)  # edge free
                    T.tile.fill(total, 0.0)
                    T.set_flag("v", "mte2", 5)  # edge again
                    for j in T.serial(i + 1):
                        T.wait_flag("v", "mte2", 5)  # edge again
                        T.copy(x[j, :], a)
                        T.set_flag("mte2", "v", 0)  # edge load
                        T.wait_flag("mte2", "v", 0)  # edge load
                        if j >= 0:
                            T.tile.add(total, total, a)
                        T.set_flag("v", "mte2", 5)  # edge again
                    T.wait_flag("v", "mte2", 5)  # edge again
                    T.set_flag("v", "mte3", 0)  # edge store
                    T.wait_flag("v", "mte3", 0)  # edge store
                    T.copy(total, y[i, :])
                    T.set_flag("mte3", "v", 2)  # edge free
                T.wait_flag("mte3", "v", 2)  # edge free
    return kernel
"""

#: The cube hands a tile over to the vector cores and gets a credit back.
HANDOVER = """
@tilelang.jit(out_idx=[2], workspace_idx=[3])
def make():
    @T.prim_func
    def kernel(
        a: T.Tensor((TILES, 16, 16), "float16"),
        b: T.Tensor((16, 16), "float16"),
        y: T.Tensor((TILES, 16, 16), "float32"),
        w: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a_l1 = T.alloc_L1([16, 16], "float16")
            b_l1 = T.alloc_L1([16, 16], "float16")
            c_l0 = T.alloc_L0C([16, 16], "float32")
            tile = T.alloc_ub([8, 16], "float32")
            with T.Scope("C"):
                T.copy(b, b_l1)
                for i in T.serial(TILES):
                    T.barrier_all()
                    T.copy(a[i, :, :], a_l1)
                    T.barrier_all()
                    T.gemm_v0(a_l1, b_l1, c_l0, init=True)
                    T.barrier_all()
                    T.wait_cross_flag(4)  # edge credit
                    T.copy(c_l0, w)
                    T.set_cross_flag("FIX", 0)  # edge data
                T.wait_cross_flag(4)  # edge credit
            with T.Scope("V"):
                T.set_cross_flag("MTE2", 4)  # edge credit
                for k in T.serial(TILES):
                    T.wait_cross_flag(0)  # edge data
                    T.copy(w[vid * 8 : vid * 8 + 8, :], tile)
                    T.set_cross_flag("MTE2", 4)  # edge credit
                    T.barrier_all()
                    T.copy(tile, y[k, vid * 8 : vid * 8 + 8, :])
                    T.barrier_all()
    return kernel
"""

#: Each vector core writes its row, then reads the other's.
EXCHANGE = """
@tilelang.jit(out_idx=[1], workspace_idx=[2])
def make():
    @T.prim_func
    def kernel(
        x: T.Tensor((2, N), "float32"),
        y: T.Tensor((2, N), "float32"),
        w: T.Tensor((2, N), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub([1, N], "float32")
            with T.Scope("V"):
                T.copy(x[vid, :], a)
                T.barrier_all()
                T.copy(a, w[vid, :])
                T.set_cross_flag("MTE3", 2, mode=1)  # edge met
                T.barrier_all()
                T.wait_cross_flag(2)  # edge met
                T.copy(w[1 - vid, :], a)
                T.barrier_all()
                T.copy(a, y[vid, :])
    return kernel
"""

#: The vector cores make the cube's input, one row block each, for every tile anew.
FEED = """
@tilelang.jit(out_idx=[1], workspace_idx=[2])
def make():
    @T.prim_func
    def kernel(
        x: T.Tensor((TILES, 16, 16), "float16"),
        y: T.Tensor((TILES, 16, 16), "float32"),
        w: T.Tensor((TILES, 16, 16), "float16"),
    ):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a_l1 = T.alloc_L1([16, 16], "float16")
            c_l0 = T.alloc_L0C([16, 16], "float32")
            tile = T.alloc_ub([8, 16], "float16")
            with T.Scope("C"):
                T.set_cross_flag("MTE2", 1)
                for i in T.serial(TILES):
                    T.wait_cross_flag(0)  # edge data
                    T.copy(w[i, :, :], a_l1)
                    T.set_cross_flag("MTE2", 1)
                    T.barrier_all()
                    T.gemm_v0(a_l1, a_l1, c_l0, init=True)
                    T.barrier_all()
                    T.copy(c_l0, y[i, :, :])
                    T.barrier_all()
            with T.Scope("V"):
                for k in T.serial(TILES):
                    T.barrier_all()
                    T.copy(x[k, vid * 8 : vid * 8 + 8, :], tile)
                    T.barrier_all()
                    T.wait_cross_flag(1)
                    T.copy(tile, w[k, vid * 8 : vid * 8 + 8, :])
                    T.set_cross_flag("MTE3", 0)  # edge data
                T.wait_cross_flag(1)
    return kernel
"""


def _feed(rng: np.random.Generator) -> tuple[list[Any], Any]:
    x = rng.integers(-4, 4, (5, 16, 16)).astype(np.float16)
    return [x], x.astype(np.float32) @ x.astype(np.float32)


def _streamed(rng: np.random.Generator) -> tuple[list[Any], Any]:
    x = rng.standard_normal((5, 64), dtype=np.float32)
    return [x], 2 * x + 1


def _nested(rng: np.random.Generator) -> tuple[list[Any], Any]:
    x = rng.integers(-9, 9, (5, 64)).astype(np.float32)
    return [x], np.cumsum(x, axis=0)


def _handover(rng: np.random.Generator) -> tuple[list[Any], Any]:
    a = rng.integers(-4, 4, (5, 16, 16)).astype(np.float16)
    b = rng.integers(-4, 4, (16, 16)).astype(np.float16)
    return [a, b], a.astype(np.float32) @ b.astype(np.float32)


def _exchange(rng: np.random.Generator) -> tuple[list[Any], Any]:
    x = rng.standard_normal((2, 64), dtype=np.float32)
    return [x], x[::-1]


KERNELS = {
    "streamed": (STREAMED, _streamed),
    "nested": (NESTED, _nested),
    "handover": (HANDOVER, _handover),
    "feed": (FEED, _feed),
    "exchange": (EXCHANGE, _exchange),
}


def edges_of(source: str) -> dict[str, list[int]]:
    """Line numbers (from 0) of the removable lines, by the name of their edge."""
    edges: dict[str, list[int]] = {}
    for number, line in enumerate(source.splitlines()):
        if "# edge " in line:
            edges.setdefault(line.rsplit(" ", 1)[1], []).append(number)
    return edges


def deletions() -> list[Any]:
    """Each edge taken out whole, and each of its lines alone."""
    cases = []
    for name, (source, _) in KERNELS.items():
        for edge, lines in edges_of(source).items():
            cases.append(pytest.param(name, tuple(lines), id=f"{name}-{edge}"))
            cases += [pytest.param(name, (n,), id=f"{name}-{edge}-line{n}") for n in lines]
    return cases


def load(text: str, path: Path) -> Any:
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


def apply(source: str, insertions: tuple[Insertion, ...]) -> str:
    """`source` (a whole file) with the lines added where they say."""
    lines = source.splitlines()
    statements = {
        node.lineno: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)
    }
    places = []
    for order, insertion in enumerate(insertions):
        node = statements[insertion.loc.line]
        after = insertion.where == "after"
        assert node.end_lineno is not None
        row = node.end_lineno if after else node.lineno - 1
        places.append((row, order, " " * node.col_offset + insertion.code))
    for row, _, line in sorted(places, reverse=True):
        lines.insert(row, line)
    return "\n".join(lines) + "\n"


def problems(result: Any) -> list[Finding]:
    return [f for f in result.record.findings if f.severity != "hint"]


@pytest.mark.parametrize("name", KERNELS)
def test_clean_kernels_are_silent(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path, name: str
) -> None:
    source, data = KERNELS[name]
    inputs, expected = data(rng)
    for schedule in (("eager", 0), ("late", 0), ("random", 1)):
        result = launch(load(source, tmp_path / "clean.py"), *inputs, schedule=schedule)
        assert problems(result) == []
        np.testing.assert_array_equal(result.outputs[0], expected)


@pytest.mark.parametrize(("name", "lines"), deletions())
def test_advice_makes_the_twin_clean(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    tmp_path: Path,
    name: str,
    lines: tuple[int, ...],
) -> None:
    source, data = KERNELS[name]
    inputs, expected = data(rng)
    kept = [line for n, line in enumerate(source.splitlines()) if n not in lines]
    text = "\n".join(kept) + "\n"
    for attempt in itertools.count():
        path = tmp_path / f"twin{attempt}.py"
        result = launch(load(text, path), *inputs)
        found = problems(result)
        if not found:
            break
        assert attempt < 3, "\n".join(map(str, found)) + text
        advised = [f for f in found if f.insertions]
        assert advised, "\n".join(map(str, found))
        worst = min(advised, key=lambda f: ("error", "warning").index(f.severity))
        text = apply(HEAD + text, worst.insertions).removeprefix(HEAD)
    assert attempt > 0, "the deletion was not found"
    for schedule in (("eager", 0), ("late", 0), ("random", 1)):
        again = launch(load(text, path), *inputs, schedule=schedule)
        assert problems(again) == []
        np.testing.assert_array_equal(again.outputs[0], expected)
    # No more lines than were taken out: an edge that is there in part is completed, not doubled.
    assert len(text.splitlines()) <= len(source.splitlines())
