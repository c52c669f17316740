"""Traces of kernels: complete, ordered by flags, the same under every schedule, free when off."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels_npu import sim
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.tracing.chrome_file import THREADS

ROWS, COLS, TILES, M, N, K = 8, 64, 4, 64, 64, 96
Events = list[dict[str, Any]]


def staged(*, buffers: int, serial: bool = False, auto: bool = False) -> Any:
    """y = 2 x, tile by tile through `buffers` pairs of buffers; `serial`: a barrier after each."""
    configs = {"tl.ascend_auto_sync": True} if auto else {}

    @tilelang.jit(out_idx=[1], pass_configs=configs)
    def factory() -> Any:
        @T.prim_func
        def double(
            x: T.Tensor((2, TILES * ROWS, COLS), "float32"),
            y: T.Tensor((2, TILES * ROWS, COLS), "float32"),
        ):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([buffers, ROWS, COLS], "float32")
                with T.Scope("V"):
                    if not (serial or auto):
                        for s in T.serial(buffers):
                            T.set_flag("mte3", "mte2", s)
                    for i in T.serial(TILES):
                        if not (serial or auto):
                            T.wait_flag("mte3", "mte2", i % buffers)
                        T.copy(x[cid, i * ROWS, 0], a[i % buffers, :, :])
                        if serial:
                            T.barrier_all()
                        elif not auto:
                            T.set_flag("mte2", "v", i % buffers)
                            T.wait_flag("mte2", "v", i % buffers)
                        T.tile.add(a[i % buffers, :, :], a[i % buffers, :, :], a[i % buffers, :, :])
                        if serial:
                            T.barrier_all()
                        elif not auto:
                            T.set_flag("v", "mte3", i % buffers)
                            T.wait_flag("v", "mte3", i % buffers)
                        T.copy(a[i % buffers, :, :], y[cid, i * ROWS, 0])
                        if serial:
                            T.barrier_all()
                        elif not auto:
                            T.set_flag("mte3", "mte2", i % buffers)
                    if not (serial or auto):
                        for s in T.serial(buffers):
                            T.wait_flag("mte3", "mte2", s)

        return double

    return factory()


def product() -> Any:
    """c = a b + 1 by way of a workspace: cube, cross-core flag, vector with T.Parallel."""

    @tilelang.jit(out_idx=[2], workspace_idx=[3])
    def factory() -> Any:
        @T.prim_func
        def main(
            a: T.Tensor((M, K), "float16"),
            b: T.Tensor((K, N), "float16"),
            c: T.Tensor((M, N), "float32"),
            w: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                a_l1 = T.alloc_L1([M, K], "float16")
                b_l1 = T.alloc_L1([K, N], "float16")
                acc = T.alloc_L0C([M, N], "float32")
                tile = T.alloc_ub([M // 2, N], "float32")
                with T.Scope("C"):
                    T.copy(a, a_l1)
                    T.copy(b, b_l1)
                    T.barrier_all()
                    T.gemm_v0(a_l1, b_l1, acc, init=True)
                    T.barrier_all()
                    T.copy(acc, w)
                    T.set_cross_flag("FIX", 2)
                with T.Scope("V"):
                    T.wait_cross_flag(2)
                    T.copy(w[vid * (M // 2), 0], tile)
                    T.barrier_all()
                    for i, j in T.Parallel(M // 2, N):
                        tile[i, j] = tile[i, j] + 1.0
                    T.barrier_all()
                    T.copy(tile, c[vid * (M // 2), 0])

        return main

    return factory()


def tiles(rng: np.random.Generator) -> Any:
    return rng.standard_normal((2, TILES * ROWS, COLS), dtype=np.float32)


def factors(rng: np.random.Generator) -> tuple[Any, Any]:
    shapes = ((M, K), (K, N))
    return tuple(rng.standard_normal(s).astype(np.float16) for s in shapes)  # type: ignore[return-value]


def traced(
    launch: Callable[..., Any], path: Path, kernel: Any, *inputs: Any, **options: Any
) -> tuple[Any, Events]:
    with sim.trace(path):
        result = launch(kernel, *inputs, **options)
    assert result.errors == []
    return result, json.loads(path.read_text())["traceEvents"]


def slices(events: Events, category: str = "") -> Events:
    return [e for e in events if e["ph"] == "X" and category in ("", e["cat"])]


def check_structure(events: Events) -> None:
    """Threads are named, their slices follow each other, arrows pair and go forward in slices."""
    threads: dict[tuple[int, int], Events] = defaultdict(list)
    for event in slices(events):
        assert event["dur"] > 0
        threads[(event["pid"], event["tid"])].append(event)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert set(threads) <= named
    for on_thread in threads.values():
        for before, after in pairwise(on_thread):
            assert before["ts"] + before["dur"] <= after["ts"]
    tails = {e["id"]: e for e in events if e["ph"] == "s"}
    heads = {e["id"]: e for e in events if e["ph"] == "f"}
    assert set(tails) == set(heads)
    assert len(tails) == sum(e["ph"] == "s" for e in events)
    for number, tail in tails.items():
        head = heads[number]
        assert tail["ts"] <= head["ts"]
        for end, category in ((tail, "set"), (head, "wait")):
            around = threads[(end["pid"], end["tid"])]
            (inside,) = [s for s in around if s["ts"] <= end["ts"] < s["ts"] + s["dur"]]
            assert inside["cat"] == category


def check_complete(record: Any, events: Events) -> None:
    """Every counted instruction is there, with its modelled cycles and its bytes."""
    instructions = slices(events, "instruction")
    pipe = {e["tid"]: THREADS[e["tid"] - 1] for e in instructions}
    counts = Counter(pipe[e["tid"]] for e in instructions)
    cycles: Counter[str] = Counter()
    for event in instructions:
        cycles[pipe[event["tid"]]] += event["dur"]
        assert Path(event["args"]["source"].rpartition(":")[0]) == Path(__file__)
    assert counts == record.counters.instructions
    assert cycles == record.counters.cycles
    moved = sum(e["args"]["bytes"] for e in instructions if "in GM" in e["args"]["operands"])
    assert moved == sum(record.counters.gm_paths.values())
    final: dict[tuple[int, str], int] = {}
    for event in sorted((e for e in events if e["ph"] == "C"), key=lambda e: e["ts"]):
        key = (event["pid"], event["name"])
        assert event["args"]["value"] > final.get(key, 0)
        final[key] = event["args"]["value"]
    assert sum(final.values()) == moved


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_trace_is_complete_and_orders_what_flags_order(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    tmp_path: Path,
    buffers: int,
) -> None:
    x = tiles(rng)
    result, events = traced(
        launch, tmp_path / "t.json", staged(buffers=buffers), x, schedule=schedule
    )
    np.testing.assert_array_equal(result.outputs[0], x + x)
    check_structure(events)
    check_complete(result.record, events)
    assert sum(e["ph"] == "s" for e in events) == 2 * (3 * TILES + buffers)


def test_schedules_give_the_same_trace(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    inputs = factors(rng)
    runs = [
        traced(launch, tmp_path / "t.json", product(), *inputs, schedule=(name, 3))[1]
        for name in ("eager", "late", "random")
    ]
    for events in runs:
        for event in events:
            event.pop("id", None)
    unordered = [sorted(json.dumps(e, sort_keys=True) for e in events) for events in runs]
    assert unordered[0] == unordered[1] == unordered[2]


def test_cube_and_vector_are_processes_joined_by_the_cross_core_flag(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    a, b = factors(rng)
    result, events = traced(launch, tmp_path / "t.json", product(), a, b)
    expected = a.astype(np.float32) @ b.astype(np.float32) + 1
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-4, atol=1e-4)
    check_structure(events)
    check_complete(result.record, events)
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    arrows = [(names[e["pid"]].split()[-1], e["ph"]) for e in events if e["ph"] in "sf"]
    assert Counter(arrows) == {("AIC", "s"): 2, ("AIV0", "f"): 1, ("AIV1", "f"): 1}
    cube_end = max(
        e["ts"] + e["dur"] for e in slices(events, "instruction") if names[e["pid"]].endswith("AIC")
    )
    assert all(
        e["ts"] >= cube_end
        for e in slices(events, "instruction")
        if not names[e["pid"]].endswith("AIC")
    )


def test_critical_path_shows_what_overlaps(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    x = tiles(rng)
    paths = {}
    for name, kernel in (
        ("barriers", staged(buffers=1, serial=True)),
        ("one", staged(buffers=1)),
        ("two", staged(buffers=2)),
    ):
        with sim.collect_report() as report:
            result, _ = traced(launch, tmp_path / "t.json", kernel, x)
        paths[name] = result.record.critical_path
        assert report.kernels["double"].critical_path == paths[name]
        cycles = result.record.counters.cycles
    # Both blocks run side by side; with barriers nothing within a block does.
    assert paths["barriers"] == sum(cycles.values()) // 2
    assert max(cycles.values()) // 2 < paths["two"] < paths["one"]
    assert launch(staged(buffers=1), x).record.critical_path is None


def test_automatic_synchronisation_orders_by_buffer(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    x = tiles(rng)
    result, events = traced(launch, tmp_path / "t.json", staged(buffers=2, auto=True), x)
    np.testing.assert_array_equal(result.outputs[0], x + x)
    check_structure(events)
    check_complete(result.record, events)
    ends = 0
    for event in (e for e in slices(events, "instruction") if e["pid"] == 1):
        assert event["ts"] >= ends  # one buffer: the chain load, add, store has no gap to overlap
        ends = event["ts"] + event["dur"]


def exchange_meeting(kind: str) -> Any:
    @tilelang.jit(out_idx=[1], workspace_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def meeting(
            x: T.Tensor((3, 2, COLS), "float32"),
            y: T.Tensor((3, 2, COLS), "float32"),
            w: T.Tensor((3, 2, COLS), "float32"),
        ):
            with T.Kernel(3, is_npu=True) as (cid, vid):
                a = T.alloc_ub([1, COLS], "float32")
                with T.Scope("C"):
                    if kind == "sync_all":
                        for _ in T.serial(2):
                            T.sync_all()
                with T.Scope("V"):
                    for _ in T.serial(cid + 1):
                        T.copy(x[cid, vid, :], a)
                        T.barrier_all()
                    T.copy(a, w[cid, vid, :])
                    T.barrier_all()
                    for flag in T.serial(2):
                        if kind == "sync_all":
                            T.sync_all()
                        else:
                            T.set_cross_flag("MTE3", flag, mode=0)
                            T.wait_cross_flag(flag)
                    T.copy(w[(cid + 1) % 3, vid, :], a)
                    T.barrier_all()
                    T.copy(a, y[cid, vid, :])

        return meeting

    return factory()


@pytest.mark.parametrize("kind", ["sync_all", "mode 0"])
def test_everyone_goes_on_when_the_slowest_has_come(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    tmp_path: Path,
    kind: str,
) -> None:
    x = rng.standard_normal((3, 2, COLS), dtype=np.float32)
    result, events = traced(
        launch, tmp_path / "t.json", exchange_meeting(kind), x, schedule=schedule
    )
    np.testing.assert_array_equal(result.outputs[0], np.roll(x, -1, axis=0))
    check_structure(events)
    check_complete(result.record, events)
    last_store = max(e["ts"] + e["dur"] for e in slices(events) if "writes w" in str(e["args"]))
    loads = [e["ts"] for e in slices(events) if "reads w" in str(e["args"])]
    assert len(loads) == 6 and len(set(loads)) == 1 and loads[0] >= last_store


def test_an_untraced_launch_runs_the_same_program_as_ever(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    kernel = staged(buffers=2)
    traced(launch, tmp_path / "t.json", kernel, tiles(rng))
    variants = kernel.compiled._variants
    (mode,) = (mode for mode in variants.generated if mode.traced)
    by_tracing = variants.of(mode).programs[1].source
    untraced = dataclasses.replace(mode, traced=False, stepwise=True)
    assert "X." in by_tracing
    without = [line for line in by_tracing.splitlines() if "X." not in line]
    assert variants.generate(untraced).programs[1].source.splitlines() == without


def test_the_event_limit_ends_a_trace_cleanly(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    with sim.trace(tmp_path / "t.json", events=60):
        launch(staged(buffers=2), tiles(rng))
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["otherData"]["complete"] is False
    assert len(content["traceEvents"]) < 70
    check_structure(content["traceEvents"])


def test_a_launch_that_stops_is_traced_up_to_its_fault(
    launch: Callable[..., Any], rng: np.random.Generator, tmp_path: Path
) -> None:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def beyond(x: T.Tensor((4, COLS), "float32"), y: T.Tensor((4, COLS), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([1, COLS], "float32")
                for i in T.serial(5):
                    T.copy(x[3 - i, :], a)
                    T.barrier_all()
                    T.copy(a, y[3 - i, :])
                    T.barrier_all()

        return beyond

    with sim.trace(tmp_path / "t.json"):
        result = launch(factory(), rng.standard_normal((4, COLS), dtype=np.float32))
    assert {f.code for f in result.errors} == {"AI-BOUND-001"}
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    check_structure(events)
    assert len(slices(events, "instruction")) == 8
