"""Rows, keys and pairs of a step against counting them one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.estimates import Sequence, Work
from kernels_npu.errors import UsageError

WINDOWS = st.sampled_from([0, 1, 2, 7, 50])


@given(st.integers(1, 40), st.integers(0, 60), WINDOWS)
def test_pairs_and_keys_by_counting(tokens: int, past: int, window: int) -> None:
    seen = []
    for query in range(past, past + tokens):
        first = max(0, query - window + 1) if window else 0
        seen.append(range(first, query + 1))
    sequence = Sequence(tokens=tokens, past=past)
    assert sequence.pairs(window) == sum(len(keys) for keys in seen)
    assert sequence.keys_read(window) == len(set().union(*seen))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), WINDOWS)
def test_decode_sums_over_sequences(contexts: list[int], window: int) -> None:
    work = Work.decode(contexts)
    keys = sum(min(context, window) if window else context for context in contexts)
    assert work.rows == work.sequences == len(contexts)
    assert work.keys_read(window) == work.pairs(window, prefill=False) == keys
    assert work.pairs(window, prefill=True) == work.prefill_rows == 0


def test_chunked_prefill_adds_up() -> None:
    whole, parts = Work.prefill(100), (Work.prefill(60), Work.prefill(40, past=60))
    pairs = [part.pairs(0, prefill=True) for part in parts]
    assert sum(pairs) == whole.pairs(0, prefill=True) == 100 * 101 // 2
    mixed = parts[1] + Work.batch(3, 50)
    assert (mixed.rows, mixed.sequences, mixed.prefill_rows) == (43, 4, 40)
    assert Work.batch(2, 5) + Work.batch(1, 5) == Work.decode([5, 5, 5])


@pytest.mark.parametrize("bad", [0, -1, 10**13, True, 1.5, "8", None, float("nan")])
def test_numbers_that_cannot_be_meant(bad: object) -> None:
    for make in (
        lambda: Work.batch(bad, 5),  # type: ignore[arg-type]
        lambda: Work.batch(5, bad),  # type: ignore[arg-type]
        lambda: Work.decode([5, bad]),  # type: ignore[list-item]
        lambda: Work.prefill(bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError) as caught:
            make()
        assert caught.value.code == "AI-EST-001"
