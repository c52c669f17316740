"""Dispatch tables: the chapter's example, a plain loop, the check against seeded mistakes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.moe import (
    PADDING_RULES,
    DispatchTables,
    build_dispatch,
    check_dispatch,
    most_blocks,
    sample_routing,
)


@st.composite
def routings(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Also no tokens, empty experts, one expert for all, the same expert twice for a token."""
    experts = draw(st.integers(1, 9))
    tokens, top_k = draw(st.integers(0, 40)), draw(st.integers(1, 4))
    lowest = draw(st.integers(0, experts - 1))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    return random.integers(lowest, experts, (tokens, top_k)), experts


def test_nine_tokens_to_two_of_four_experts() -> None:
    """18 rows, ceil(18 / 128) + 4 = 5 blocks, 622 rows of the grid compute nothing."""
    for seed in range(5):
        routing = sample_routing("uniform", tokens=9, top_k=2, num_experts=4, seed=seed)
        tables = build_dispatch(routing, num_experts=4, block_rows=128)
        check_dispatch(tables, routing)
        assert (tables.num_rows, tables.num_blocks, tables.wasted_rows) == (18, 5, 622)


def plain_loop(
    routing: np.ndarray, experts: int, rows: int, padding: str
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Token ids, counts, offsets, padded offsets and expert of each block, one by one."""
    tokens, counts, offsets, padded, place = [], [], [], [], 0
    for expert in range(experts):
        mine = [t for t, choice in enumerate(routing.tolist()) for e in choice if e == expert]
        offsets.append(len(tokens))
        padded.append(place)
        counts.append(len(mine))
        tokens += mine
        extra = 1 if padding == "plus-one" else 0
        place += math.ceil((len(mine) + extra) / rows) * rows
    blocks = []
    for block in range(math.ceil(routing.size / rows) + experts):
        owner = 0
        for expert in range(experts):
            if block * rows >= padded[expert]:
                owner = expert
        blocks.append(owner)
    return tokens, counts, offsets, padded, blocks


@given(routings(), st.integers(1, 17), st.sampled_from(sorted(PADDING_RULES)))
def test_tables_are_those_of_a_plain_loop(
    routed: tuple[np.ndarray, int], rows: int, padding: str
) -> None:
    routing, experts = routed
    tables = build_dispatch(routing, num_experts=experts, block_rows=rows, padding=padding)
    check_dispatch(tables, routing)
    assert plain_loop(routing, experts, rows, padding) == (
        tables.token_ids.tolist(),
        tables.counts.tolist(),
        tables.offsets.tolist(),
        tables.padded_offsets.tolist(),
        tables.expert_of_block.tolist(),
    )
    assert all(
        getattr(tables, f.name).dtype == np.int32
        for f in dataclasses.fields(tables)
        if f.name != "block_rows"
    )


@given(routings(), st.integers(1, 17), st.sampled_from(sorted(PADDING_RULES)))
def test_a_kernel_that_follows_the_contract_computes_every_pair_once(
    routed: tuple[np.ndarray, int], rows: int, padding: str
) -> None:
    """The kernel's own formulas, block by block, with the experts' numbers as their weights."""
    routing, experts = routed
    t = build_dispatch(routing, num_experts=experts, block_rows=rows, padding=padding)
    outcome = np.zeros(len(routing))
    for block, expert in enumerate(t.expert_of_block):
        within = block * rows - t.padded_offsets[expert]
        start = within + t.offsets[expert]
        for row in range(start, start + max(0, min(rows, t.counts[expert] - within))):
            outcome[t.token_ids[row]] += 10.0 ** -(t.pair_ids[row] % routing.shape[1]) * expert
    weights = 10.0 ** -np.arange(routing.shape[1])
    assert np.allclose(outcome, routing @ weights)


def test_the_plus_one_rule() -> None:
    """A block more where rows divide the count, and one for an expert without tokens."""
    routing = np.repeat([0, 2, 2], 4).reshape(-1, 1)  # 4, 0 and 8 rows
    plus = build_dispatch(routing, num_experts=3, block_rows=4)
    tight = build_dispatch(routing, num_experts=3, block_rows=4, padding="ceil")
    assert plus.padded_offsets.tolist() == [0, 8, 12]
    assert tight.padded_offsets.tolist() == [0, 4, 4]
    assert plus.used_blocks == tight.used_blocks == 3
    assert plus.num_blocks == tight.num_blocks == most_blocks(12, 3, 4) == 6


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 9))
def test_the_grid_suffices_for_both_rules(counts: list[int], rows: int) -> None:
    for rule in PADDING_RULES.values():
        assert rule(np.array(counts), rows).sum() <= most_blocks(sum(counts), len(counts), rows)


def test_a_large_step_takes_no_loops() -> None:
    routing = sample_routing("zipf", tokens=20_000, top_k=8, num_experts=256, seed=1)
    assert (np.diff(np.sort(routing, axis=1), axis=1) > 0).all()
    tables = build_dispatch(routing, num_experts=256)
    check_dispatch(tables, routing)
    assert tables.counts[0] > 10 * tables.counts[-1]


def swapped(array: np.ndarray, i: int, j: int) -> np.ndarray:
    changed = array.copy()
    changed[[i, j]] = changed[[j, i]]
    return changed


def changed(array: np.ndarray, index: int, by: int) -> np.ndarray:
    other = array.copy()
    other[index] += by
    return other


#: Mistake -> the tables with it; each alone breaks the contract.
MISTAKES: dict[str, Callable[[DispatchTables], dict[str, np.ndarray]]] = {
    "a token of another row": lambda t: {"token_ids": changed(t.token_ids, 0, 1)},
    "a pair twice": lambda t: {"pair_ids": changed(t.pair_ids, 0, 1)},
    "rows of two experts swapped": lambda t: {
        "pair_ids": swapped(t.pair_ids, 0, -1),
        "token_ids": swapped(t.token_ids, 0, -1),
    },
    "a count too many": lambda t: {"counts": changed(t.counts, 1, 1)},
    "a count moved": lambda t: {"counts": changed(changed(t.counts, 1, 1), 0, -1)},
    "an offset off by one": lambda t: {"offsets": changed(t.offsets, 1, 1)},
    "an expert in the middle of a block": lambda t: {
        "padded_offsets": changed(t.padded_offsets, 2, 1)
    },
    "no room for an expert": lambda t: {
        "padded_offsets": changed(t.padded_offsets, 1, -t.block_rows)
    },
    "the last expert beyond the grid": lambda t: {
        "padded_offsets": changed(t.padded_offsets, -1, 99 * t.block_rows)
    },
    "a block of another expert": lambda t: {"expert_of_block": changed(t.expert_of_block, 0, 1)},
    "a block of no expert": lambda t: {"expert_of_block": changed(t.expert_of_block, 0, 99)},
    "a grid without its end": lambda t: {"expert_of_block": t.expert_of_block[:2]},
    "counts without the last expert": lambda t: {"counts": t.counts[:-1]},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_check_finds(mistake: str) -> None:
    routing = np.array([[0, 1], [1, 2], [0, 2], [2, 1], [0, 1]])
    tables = build_dispatch(routing, num_experts=3, block_rows=4)
    check_dispatch(tables, routing)
    broken = dataclasses.replace(tables, **MISTAKES[mistake](tables))
    with pytest.raises(UsageError) as caught:
        check_dispatch(broken, routing)
    assert caught.value.code == "AI-MOE-003" and caught.value.rule


def test_tables_of_another_routing_are_refused() -> None:
    routing = np.array([[0, 1], [1, 2]])
    tables = build_dispatch(routing, num_experts=3)
    with pytest.raises(UsageError, match="AI-MOE-003"):
        check_dispatch(tables, np.array([[0, 1], [2, 2]]))
    with pytest.raises(UsageError, match="AI-MOE-003"):
        check_dispatch(tables, np.array([[0, 1]]))


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("AI-MOE-001", lambda: build_dispatch([0, 1], num_experts=2)),
        ("AI-MOE-001", lambda: build_dispatch([[0, 2]], num_experts=2)),
        ("AI-MOE-001", lambda: build_dispatch([[-1, 0]], num_experts=2)),
        ("AI-MOE-001", lambda: build_dispatch([[0.0, 1.0]], num_experts=2)),
        ("AI-MOE-001", lambda: build_dispatch([["a"]], num_experts=2)),
        ("AI-MOE-002", lambda: build_dispatch([[0]], num_experts=1, block_rows=0)),
        ("AI-MOE-002", lambda: build_dispatch([[0]], num_experts=1, padding="none")),
        ("AI-MOE-002", lambda: build_dispatch([[0]], num_experts=1, block_rows=2**31)),
        ("AI-MOE-002", lambda: sample_routing("even", tokens=1, top_k=1, num_experts=1)),
        ("AI-MOE-002", lambda: sample_routing("zipf", tokens=1, top_k=3, num_experts=2)),
        ("AI-MOE-002", lambda: sample_routing("zipf", tokens=1 << 40, top_k=1, num_experts=2)),
    ],
)
def test_wrong_input_has_a_code(code: str, call: object) -> None:
    with pytest.raises(UsageError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.code == code and caught.value.fix
