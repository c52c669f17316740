from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs.batch import INPUT_NAMES, DecodeBatch
from graphs.kv_state import KvState, random_content, rolled, with_other_slots, written_slots
from graphs.verification.scenarios import Geometry, Scenario, ScenarioMaker

BLOCK_SIZES = st.sampled_from([1, 3, 4, 16])


@st.composite
def makers(draw: st.DrawFn) -> tuple[ScenarioMaker, Geometry, int]:
    """A maker, its geometry, and a batch size that fits."""
    rows = draw(st.integers(1, 6))
    block_size = draw(BLOCK_SIZES)
    max_blocks = draw(st.integers(1, 5))
    geometry = Geometry(
        num_blocks=draw(st.integers(rows + 1, 40)),
        block_size=block_size,
        max_blocks=max_blocks,
        vocab_size=draw(st.integers(2, 50)),
        max_context=draw(st.integers(1, max_blocks * block_size)),
    )
    cache = torch.zeros(geometry.num_blocks, block_size, 2)
    state = KvState(tensors={"cache": cache}, block_size=block_size)
    content = random_content(state, torch.Generator().manual_seed(0))
    return ScenarioMaker(geometry, content, draw(st.integers(0, 99))), geometry, rows


def owned_slots(scenario: Scenario, block_size: int) -> list[list[int]]:
    """Slots of each sequence's tokens, in order."""
    batch = scenario.batch
    return [
        [
            int(batch.block_table[row, t // block_size]) * block_size + t % block_size
            for t in range(int(batch.seq_lens[row]))
        ]
        for row in range(batch.size)
    ]


@given(makers(), st.integers(1, 4))
def test_batches_are_valid(made: tuple[ScenarioMaker, Geometry, int], count: int) -> None:
    maker, geometry, rows = made
    for _ in range(count):
        scenario = maker.make(rows)
        batch = scenario.batch
        slots = owned_slots(scenario, geometry.block_size)
        flat = [slot for row in slots for slot in row]
        assert len(flat) == len(set(flat)), "two sequences share a slot"
        assert {s // geometry.block_size for s in flat} == scenario.owned_blocks
        assert len(scenario.owned_blocks) < geometry.num_blocks, "no block is unowned"
        assert batch.slot_mapping.tolist() == [row[-1] for row in slots]
        assert batch.positions.tolist() == [len(row) - 1 for row in slots]
        assert int(batch.seq_lens.min()) >= 1 and int(batch.seq_lens.max()) <= geometry.max_context
        assert batch.block_table.shape[1] <= geometry.max_blocks
        assert batch.token_ids.max() < geometry.vocab_size


@given(makers())
def test_a_mutation_changes_one_input_and_stays_in_range(
    made: tuple[ScenarioMaker, Geometry, int],
) -> None:
    maker, geometry, rows = made
    scenario = maker.make(rows)
    for name in INPUT_NAMES:
        mutated = maker.mutate(scenario, name)
        assert mutated is not None
        changed = [
            n
            for n in INPUT_NAMES
            if not torch.equal(getattr(mutated.batch, n), getattr(scenario.batch, n))
        ]
        assert changed == [name]
        batch = mutated.batch
        assert int(batch.token_ids.min()) >= 0 and batch.token_ids.max() < geometry.vocab_size
        assert int(batch.block_table.min()) >= 0 and batch.block_table.max() < geometry.num_blocks
        assert batch.positions.min() >= 0 and batch.seq_lens.min() >= 0
        assert batch.slot_mapping.min() >= -1


@given(makers())
def test_irrelevant_changes_leave_what_a_row_owns(
    made: tuple[ScenarioMaker, Geometry, int],
) -> None:
    maker, geometry, rows = made
    scenario = maker.make(rows)
    slots = owned_slots(scenario, geometry.block_size)

    unowned = maker.unowned_content(scenario)
    changed = written_slots(scenario.content, unowned.content, geometry.block_size)
    everything = set(range(geometry.num_blocks * geometry.block_size))
    assert changed == everything - {slot for row in slots for slot in row}
    assert unowned.batch is scenario.batch

    others = maker.other_rows(scenario)
    changed = written_slots(scenario.content, others.content, geometry.block_size)
    assert not changed & set(slots[0])
    assert {slot for row in slots[1:] for slot in row} <= changed
    assert torch.equal(others.batch.token_ids[:1], scenario.batch.token_ids[:1])
    assert (others.batch.token_ids[1:] != scenario.batch.token_ids[1:]).all()


@given(makers())
def test_the_border_scenario_crosses_in_its_second_step(
    made: tuple[ScenarioMaker, Geometry, int],
) -> None:
    maker, geometry, rows = made
    scenario = maker.border_scenario(rows)
    if scenario is None:
        assert geometry.blocks_per_row(rows) < 2
        return
    following = maker.next_step(scenario.batch)
    size = geometry.block_size
    for row in range(rows):
        table = following.block_table[row].tolist()
        assert int(scenario.batch.slot_mapping[row]) == table[0] * size + size - 1
        assert int(following.slot_mapping[row]) == table[1] * size
        assert int(following.seq_lens[row]) == size + 1 == int(following.positions[row]) + 1
    assert {int(b) for b in following.block_table.flatten()} == scenario.owned_blocks


def test_the_same_seed_makes_the_same_scenarios() -> None:
    def batches(seed: int) -> list[list[int]]:
        geometry = Geometry(
            num_blocks=20, block_size=4, max_blocks=4, vocab_size=50, max_context=16
        )
        maker = ScenarioMaker(geometry, {}, seed)
        made: list[DecodeBatch] = [maker.make(3).batch for _ in range(4)]
        return [batch.block_table.flatten().tolist() + batch.token_ids.tolist() for batch in made]

    assert batches(1) == batches(1) != batches(2)


def test_padding_targets_are_unowned_in_every_second_scenario() -> None:
    geometry = Geometry(num_blocks=9, block_size=2, max_blocks=2, vocab_size=9, max_context=4)
    maker = ScenarioMaker(geometry, {}, 0)
    for _ in range(6):
        assert not {0, 8} & maker.make(3).owned_blocks
        maker.make(3)


def test_rolled_content_differs_in_every_block() -> None:
    content = {"k": torch.randn(5, 2, 3)}
    moved = rolled(content, 2)["k"]
    assert all(torch.equal(moved[(i + 2) % 5], content["k"][i]) for i in range(5))


def test_written_slots_sees_single_bits_in_any_tensor() -> None:
    before = {"k": torch.zeros(3, 2, 4, dtype=torch.bfloat16), "v": torch.zeros(3, 2, 4)}
    after = with_other_slots(before, 2, torch.tensor([], dtype=torch.int64))
    assert written_slots(before, after, 2) == set()
    after["k"][1, 1, 3] = -0.0
    after["v"][2, 0, 0] = float("nan")
    assert written_slots(before, after, 2) == {3, 4}
