"""Stops at the kernel's statements: what is visible there, how it steps, that nothing changes."""

from __future__ import annotations

import re
import sys
from bdb import BdbQuit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels_npu import sim
from kernels_npu.sim.debugger.kernel_pdb import debugger
from kernels_npu.sim.frontend import T, tilelang
from tests.kernels_npu.sim.machine import debugged_macros as macros

ROWS, COLS, TILES = 4, 32, 3


@pytest.fixture
def commands() -> Iterator[Callable[..., None]]:
    """Sets what the debugger executes at each breakpoint."""

    def give(*lines: str) -> None:
        debugger().commands_at_stop = list(lines)

    yield give
    debugger().commands_at_stop = []
    sys.settrace(None)


def line_of(text: str) -> int:
    """The line of this file that ends in the comment `text`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = (n for n, line in enumerate(lines, start=1) if line.endswith(f"# {text}"))
    return found


def at(text: str, conditions: str = "") -> tuple[sim.Breakpoint, ...]:
    return (sim.Breakpoint.parse(f"{__file__}:{line_of(text)}{conditions}"),)


def sums() -> Any:
    """y = tile sums of x: loops, names that hide others, a register, macros here and elsewhere."""

    @T.macro
    def twice(tile: T.Buffer) -> None:
        T.tile.add(tile, tile, tile)  # in the macro
        T.barrier_all()

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def accumulate(
            x: T.Tensor((2, 2, TILES * ROWS, COLS), "float32"),
            y: T.Tensor((2, 2, ROWS, COLS), "float32"),
        ):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                acc = T.alloc_ub([ROWS, COLS], "float32")
                tile = T.alloc_ub([ROWS, COLS], "float32")
                n = T.alloc_var("int32", init=7)
                T.tile.fill(acc, 0.0)
                T.barrier_all()
                for i in T.serial(TILES):
                    row = i * ROWS
                    T.copy(x[cid, vid, row, 0], tile)
                    T.barrier_all()
                    n = n + i  # count
                    for i in T.serial(2):
                        n = n + i  # inner
                    T.tile.add(acc, acc, tile)  # add
                    T.barrier_all()
                twice(acc)
                macros.halve(acc)
                T.copy(acc, y[cid, vid, 0, 0])  # store

        return accumulate

    return factory()


def tiles(rng: np.random.Generator) -> Any:
    return rng.standard_normal((2, 2, TILES * ROWS, COLS), dtype=np.float32)


def expected(x: Any) -> Any:
    parts = x.reshape(2, 2, TILES, ROWS, COLS)
    total = np.zeros_like(parts[:, :, 0])
    for number in range(TILES):
        total += parts[:, :, number]
    return (total + total) * np.float32(0.5)


def stops(text: str) -> list[tuple[str, str]]:
    """(block and core, file:line) of every stop in the debugger's output."""
    found = re.findall(r"^\[accumulate (block \d \w+)\]\n> (\S+)\((\d+)\)", text, re.MULTILINE)
    return [(place, f"{Path(file).name}:{line}") for place, file, line in found]


def test_it_stops_at_the_users_line_with_the_users_names(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = tiles(rng)
    commands("p ('values', cid, vid, i, row, n)", "p ('tile', float(tile.sum()))", "p x.shape")
    with sim.configure(breakpoints=at("add", ",block=1,core=aiv1")):
        result = launch(sums(), x, schedule=schedule)
    np.testing.assert_array_equal(result.outputs[0], expected(x))
    text = capsys.readouterr().out
    place = ("block 1 aiv1", f"{Path(__file__).name}:{line_of('add')}")
    assert stops(text) == [place] * TILES
    assert "-> T.tile.add(acc, acc, tile)  # add" in text
    assert f"{x.shape}" in text
    # The inner loop's `i` is gone where the outer one counts again.
    numbers = [(1, 1, i, i * ROWS, 7 + i * (i + 1) // 2 + (i + 1)) for i in range(TILES)]
    for i, values in enumerate(numbers):
        assert str(("values", *values)) in text
        total = float(x[1, 1, i * ROWS : (i + 1) * ROWS].sum())
        assert f"('tile', {total!r})" in text


def test_buffers_say_where_they_lie_and_are_the_memory(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = tiles(rng)
    commands("buffers", "!acc[:] = 5.0", "p acc[0, 0] + 1")
    with sim.configure(breakpoints=at("store")):
        result = launch(sums(), x)
    np.testing.assert_array_equal(result.outputs[0], np.full((2, 2, ROWS, COLS), 5, np.float32))
    text = capsys.readouterr().out
    assert f"acc: float32[{ROWS}, {COLS}] in UB bytes [0x0, 0x200)" in text
    assert f"tile: float32[{ROWS}, {COLS}] in UB bytes [0x200, 0x400)" in text
    assert len(stops(text)) == 4 and text.count("6.0") == 4


def test_next_stays_on_the_core_and_follows_the_source(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands(*["next"] * 6)
    with sim.configure(breakpoints=at("count", ",block=0,core=aiv0")):
        launch(sums(), tiles(rng))
    lines = [place.split(":")[1] for _, place in stops(capsys.readouterr().out)]
    start = line_of("count")
    seven = [start, start + 1, start + 2, start + 1, start + 2, start + 1, start + 3]
    assert list(map(int, lines[:7])) == seven


def test_step_follows_execution_over_cores_and_blocks(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands("step", "p vid", "step")
    with sim.configure(breakpoints=at("store", ",block=0,core=aiv0")):
        launch(sums(), tiles(rng))
    places = [place for place, _ in stops(capsys.readouterr().out)]
    assert places == ["block 0 aiv0", "block 0 aiv1", "block 0 aiv1"]


def test_macros_of_this_and_of_another_file(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands("next", "next")
    with sim.configure(breakpoints=at("in the macro", ",block=0,core=aiv1")):
        launch(sums(), tiles(rng))
    text = capsys.readouterr().out
    start = line_of("in the macro")
    here, there = Path(__file__).name, Path(macros.__file__).name
    halving = Path(macros.__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(halving, start=1) if "T.tile.mul" in text)
    assert [place for _, place in stops(text)] == [
        f"{here}:{start}",
        f"{here}:{start + 1}",
        f"{there}:{line}",
    ]
    assert "-> T.tile.mul(tile, tile, 0.5)" in text
    with sim.configure(breakpoints=(sim.Breakpoint.parse(f"{there}:{line},block=1,core=aiv0"),)):
        launch(sums(), tiles(rng))
    assert stops(capsys.readouterr().out)[0] == ("block 1 aiv0", f"{there}:{line}")


def test_the_stack_is_the_kernel_on_the_caller(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    marker = "seen from the kernel"
    commands("up", "up", "p marker", "down", "down", "p vid + 40")
    with sim.configure(breakpoints=at("store", ",block=0,core=aiv1")):
        launch(sums(), tiles(rng))
    text = capsys.readouterr().out
    assert marker in text and "\n41\n" in text


def test_quit_ends_the_launch_and_the_kernel_still_works(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    commands: Callable[..., None],
) -> None:
    kernel, x = sums(), tiles(rng)
    commands("quit")
    with sim.configure(breakpoints=at("add")), pytest.raises(BdbQuit):
        launch(kernel, x)
    np.testing.assert_array_equal(launch(kernel, x).outputs[0], expected(x))


def test_a_breakpoint_that_nothing_reaches_names_the_nearest_lines(
    launch: Callable[..., Any], rng: np.random.Generator
) -> None:
    (wrong,) = at("add")
    wrong = sim.Breakpoint(file=wrong.file, line=wrong.line + 40)
    points = (wrong, *at("add", ",block=9"), sim.Breakpoint.parse("no/such.py:1"))
    with sim.configure(breakpoints=points):
        assert launch(sums(), tiles(rng)).errors == []
    told = [str(problem) for problem in debugger().missed(points)]
    assert len(told) == 3 and all(text.startswith("AI-DBG-002") for text in told)
    assert "no kernel statement stands at" in told[0]
    assert re.search(rf"on lines \d+, \d+, {line_of('store')}$", told[0])
    assert "was never reached" in told[1]
    assert "no launched kernel" in told[2]


def test_without_a_terminal_there_is_a_coded_error(
    launch: Callable[..., Any], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        sim.configure(breakpoints=at("add")),
        open("/dev/null", encoding="utf-8") as nothing,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", nothing)
        with pytest.raises(Exception, match="AI-DBG-001") as caught:
            launch(sums(), tiles(rng))
    assert f"{__file__}:{line_of('add')}" in str(caught.value)


def test_a_failing_statement_keeps_its_line_under_the_debugger(
    launch: Callable[..., Any], rng: np.random.Generator, commands: Callable[..., None]
) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def divide(x: T.Tensor((COLS,), "int32"), y: T.Tensor((COLS,), "int32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([COLS], "int32")
                T.copy(x, a)
                T.barrier_all()
                n = a[0] // (a[1] - a[1])  # divides
                a[2] = n
                T.barrier_all()
                T.copy(a, y)

        return divide

    commands("p a[0]")
    with sim.configure(breakpoints=at("divides")):
        result = launch(factory(), rng.integers(1, 9, COLS).astype(np.int32))
    (finding,) = result.errors
    assert finding.code == "AI-SRC-062" and finding.loc.line == line_of("divides")


def test_memory_can_be_kept_for_afterwards(
    launch: Callable[..., Any], rng: np.random.Generator, schedule: tuple[str, int]
) -> None:
    x = tiles(rng)
    kernel = sums()
    config = sim.SimConfig(schedule=schedule[0], seed=schedule[1], keep_memory=True)
    args = [
        sim_argument(x, "x"),
        sim_argument(np.empty((2, 2, ROWS, COLS), np.float32), "y"),
    ]
    with sim.collect_report() as report:
        record = kernel.compiled.launch(args, config)
    assert report.memory["accumulate"] == record.memory
    assert [(m.block, m.core) for m in record.memory] == [
        (block, core) for block in range(2) for core in ("aiv0", "aiv1")
    ]
    for memory in record.memory:
        last = x[memory.block, int(memory.core[-1]), -ROWS:]
        np.testing.assert_array_equal(memory.buffers["tile"], last)
        assert "in UB bytes" in memory.buffers["tile"].place
    assert kernel.compiled.launch(args, sim.SimConfig()).memory == ()


def sim_argument(array: Any, name: str) -> Any:
    from kernels_npu.sim.machine import GmArg

    return GmArg(array.reshape(-1).view(np.uint8), array.shape, "float32", name)
