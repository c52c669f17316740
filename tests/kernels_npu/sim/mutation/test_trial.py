"""Verdicts on small kernels: what is needed is found, what is not is redundant with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.config import Checks
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import GmArg
from kernels_npu.sim.mutation.capture import Captured, Snapshot
from kernels_npu.sim.mutation.deletions import Deletion, deletions
from kernels_npu.sim.mutation.trial import FOUND, NOT_REACHED, REDUNDANT, SURVIVOR, Trial, Verdict
from kernels_npu.sim.mutation.worker import judge_trials

ROWS, COLS, TILES = 8, 40, 5

Judged = dict[str, Verdict]


def pipeline() -> Any:
    """y = 2x + 1 in tiles through one slot, with the flags that it needs and some barriers."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def double(
            x: T.Tensor((TILES * ROWS, COLS), "float32"),
            y: T.Tensor((TILES * ROWS, COLS), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([ROWS, COLS], "float32")
                with T.Scope("V"):
                    T.set_flag("mte3", "mte2", 0)
                    for i in T.serial(TILES):
                        T.wait_flag("mte3", "mte2", 0)
                        T.copy(x[i * ROWS, 0], a)
                        T.set_flag("mte2", "v", 1)
                        T.wait_flag("mte2", "v", 1)
                        T.barrier_all()
                        T.tile.add(a, a, a)
                        T.pipe_barrier("v")
                        T.tile.add(a, a, 1.0)
                        T.set_flag("v", "mte3", 2)
                        T.wait_flag("v", "mte3", 2)
                        T.copy(a, y[i * ROWS, 0])
                        T.set_flag("mte3", "mte2", 0)
                        if i > TILES:
                            T.barrier_all()
                    T.wait_flag("mte3", "mte2", 0)

        return double

    return factory()


def handover() -> Any:
    """The AIV prepares a tile in a workspace, the AIC multiplies it."""

    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def product(
            x: T.Tensor((32, 32), "float16"),
            workspace: T.Tensor((32, 32), "float16"),
            y: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([32, 32], "float16")
                l1 = T.alloc_L1([32, 32], "float16")
                l0 = T.alloc_L0C([32, 32], "float32")
                with T.Scope("V"):
                    T.copy(x, a)
                    T.barrier_all()
                    T.tile.add(a, a, a)
                    T.barrier_all()
                    T.copy(a, workspace)
                    T.set_cross_flag("MTE3", 3)
                with T.Scope("C"):
                    T.wait_cross_flag(3)
                    T.copy(workspace, l1)
                    T.barrier_all()
                    T.gemm_v0(l1, l1, l0, init=True)
                    T.barrier_all()
                    T.copy(l0, y)

        return product

    return factory()


def captured(kernel: Any, rng: np.random.Generator) -> Captured:
    args: list[GmArg | int | float] = []
    for param in kernel.prim_func.params:
        shape = tuple(int(getattr(d, "value", d)) for d in param.shape)
        array = rng.standard_normal(shape).astype(param.dtype)
        args.append(GmArg(array.reshape(-1).view(np.uint8), shape, param.dtype, param.name))
    return Captured(kernel.compiled, Snapshot(args))


def judge(kernel: Any, rng: np.random.Generator, **options: Any) -> dict[Deletion, Verdict]:
    return dict(judge_trials([Trial(captured(kernel, rng), **options)]))


@pytest.fixture
def verdicts(rng: np.random.Generator) -> dict[Deletion, Verdict]:
    return judge(pipeline(), rng)


def of(verdicts: dict[Deletion, Verdict], kind: str, *statements: str) -> list[Verdict]:
    """The verdicts on deletions of a kind whose statements begin so, in the order of the lines."""
    found = []
    for deletion, verdict in sorted(verdicts.items()):
        names = [p.statement for p in deletion.places]
        if deletion.kind == kind and all(a.startswith(b) for a, b in zip(names, statements)):
            found.append(verdict)
    return found


def test_every_half_of_a_flag_is_found(verdicts: dict[Deletion, Verdict]) -> None:
    halves = of(verdicts, "half")
    assert len(halves) == 8
    assert {v.outcome for v in halves} == {FOUND}
    assert {v.code[:7] for v in halves} == {"AI-RACE", "AI-SYNC"}


def test_pairs_and_channels_are_judged_by_the_orders_they_make(
    verdicts: dict[Deletion, Verdict],
) -> None:
    (store,) = of(verdicts, "pair", "set_flag(V, MTE3)")
    assert (store.outcome, store.code) == (FOUND, "AI-RACE-001")
    (channel,) = of(verdicts, "channel")
    assert (channel.outcome, channel.code) == (FOUND, "AI-RACE-003")
    (load,) = of(verdicts, "pair", "set_flag(MTE2, V)")
    assert load.outcome == REDUNDANT
    assert load.reason.startswith("implied: MTE2 write at line ")
    assert "barrier_all at line" in load.reason


def test_barriers_that_order_nothing_else_are_redundant(
    verdicts: dict[Deletion, Verdict],
) -> None:
    needless, unreached = of(verdicts, "barrier", "barrier_all")
    assert needless.outcome == REDUNDANT
    assert "set_flag(MTE2, V) at line" in needless.reason
    assert unreached.outcome == NOT_REACHED
    (vector,) = of(verdicts, "barrier", "pipe_barrier(V)")
    assert vector.outcome == REDUNDANT
    assert vector.reason.startswith("the device compiler orders these units itself: V write")


def test_cross_flags_and_their_barriers(rng: np.random.Generator) -> None:
    verdicts = judge(handover(), rng)
    (pair,) = of(verdicts, "pair", "set_cross_flag")
    # The AIC comes first here: it reads before the AIV writes.
    assert (pair.outcome, pair.code) == (FOUND, "AI-RACE-002")
    assert [v.code for v in of(verdicts, "half", "set_cross")] == ["AI-SYNC-002"]
    (wait,) = of(verdicts, "half", "wait_cross")
    assert wait.outcome == FOUND
    outcomes = [v.outcome for v in of(verdicts, "barrier")]
    # gemm_v0 waits for its operands itself and lets FIX wait for it.
    assert outcomes == [FOUND, FOUND, REDUNDANT, REDUNDANT]


def test_a_hole_in_the_checks_is_a_survivor(rng: np.random.Generator) -> None:
    """Without checks and other schedules nothing is noticed, and the graph says what is lost."""
    verdicts = judge(pipeline(), rng, checks=Checks.none(), schedules=())
    (store,) = of(verdicts, "pair", "set_flag(V, MTE3)")
    assert store.outcome == SURVIVOR
    assert store.reason.startswith("lost: V write at line")
    (load,) = of(verdicts, "pair", "set_flag(MTE2, V)")
    assert load.outcome == REDUNDANT


def test_a_wrong_value_under_another_schedule_is_enough(rng: np.random.Generator) -> None:
    verdicts = judge(pipeline(), rng, checks=Checks.none())
    (store,) = of(verdicts, "pair", "set_flag(V, MTE3)")
    assert (store.outcome, store.code, store.schedule) == (FOUND, "value", "late")


@tilelang.jit(out_idx=[1])
def tail_kernel(blocks: int) -> Any:
    """Block b adds 1 to rows [8b, 8b + 8), the last one to half as many."""

    @T.prim_func
    def tail(
        x: T.Tensor((blocks * 8 - 4, 16), "float32"), y: T.Tensor((blocks * 8 - 4, 16), "float32")
    ):
        with T.Kernel(blocks, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([8, 16], "float32")
            with T.Scope("V"):
                T.copy(x[cid * 8, 0], a)
                T.barrier_all()
                T.tile.add(a, a, 1.0)
                T.barrier_all()
                T.copy(a, y[cid * 8, 0])

    return tail


def test_blocks_that_do_the_same_are_executed_once(rng: np.random.Generator) -> None:
    assert Trial(captured(tail_kernel(30), rng)).blocks == (0, 29)


def test_a_snapshot_keeps_contents_and_shared_bytes(rng: np.random.Generator) -> None:
    storage = rng.integers(0, 255, 96).astype(np.uint8)
    alone = rng.integers(0, 255, 32).astype(np.uint8)
    snapshot = Snapshot(
        [
            GmArg(storage[32:], (16,), "float32", "tail"),
            3,
            GmArg(alone, (8,), "float32", "alone"),
            GmArg(storage[:64], (16,), "float32", "head"),
        ]
    )
    tail, number, other, head = snapshot.arguments()
    assert number == 3
    np.testing.assert_array_equal(tail.data, storage[32:])
    np.testing.assert_array_equal(other.data, alone)
    head.data[40] ^= 1
    assert tail.data[8] == storage[40] ^ 1
    assert snapshot.arguments()[0].data[8] == storage[40]
    storage[:] = 0
    assert snapshot.arguments()[3].data.any()


def test_deletions_of_one_channel() -> None:
    from kernels_npu.sim.mutation.deletions import Place

    prime, wait, again, drain, other = (
        Place("k.py", n, s)
        for n, s in enumerate(["set_flag", "wait_flag", "set_flag", "wait_flag", "barrier_all"])
    )
    found = deletions(
        [prime, wait, again, drain, other], {(prime, wait), (again, wait), (again, drain)}
    )
    kinds = [d.kind for d in found]
    assert kinds == ["channel", "pair", "pair", "pair", "barrier", "half", "half", "half", "half"]
    assert found[0].places == (prime, wait, again, drain)
