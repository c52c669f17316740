from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.errors import PlanInputError
from graphs.planning.histogram import parse_histogram, parse_joint_trace, parse_trace, uniform

counts = st.dictionaries(st.integers(1, 600), st.integers(1, 10**9), min_size=1)
batches = st.lists(st.integers(0, 70), min_size=1).filter(any)


@given(counts, st.sampled_from([",", " ", "\n", ", "]))
def test_a_histogram_is_read_in_every_form(steps: dict[int, int], separator: str) -> None:
    pairs = separator.join(f"{size}:{count}" for size, count in steps.items())
    assert parse_histogram(pairs) == steps
    assert parse_histogram(json.dumps(steps)) == steps


@given(batches, st.sampled_from([",", " ", "\n"]))
def test_a_trace_is_counted_without_empty_steps(trace: list[int], separator: str) -> None:
    expected = {size: n for size, n in Counter(trace).items() if size}
    assert parse_trace(separator.join(map(str, trace))) == expected
    assert parse_trace(json.dumps(trace)) == expected


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1))
def test_a_joint_trace(trace: list[tuple[int, int]]) -> None:
    text = "\n".join(f"{batch}:{blocks}" for batch, blocks in trace)
    assert parse_joint_trace(text) == Counter(trace)
    assert parse_joint_trace(json.dumps(trace)) == Counter(trace)
    assert parse_trace(text) == Counter(batch for batch, _ in trace)


def test_repeated_sizes_are_added() -> None:
    assert parse_histogram("8:2 1:1 8:3") == {1: 1, 8: 5}


def test_uniform() -> None:
    assert uniform(3) == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize(
    "text",
    ["", "8", "8:x", "8:1:2", "-1:4", "8:-1", "0:7", "{", '{"8": 1.5}', '{"8": true}', "[1]"],
)
def test_no_histogram(text: str) -> None:
    with pytest.raises(PlanInputError, match=r"AI-GRAPH-040: here: found"):
        parse_histogram(text, "here")


@pytest.mark.parametrize("text", ["", "0 0", "one", "1.5", "[1, true]", "[[1, 2, 3]]", "3:0", "-4"])
def test_no_trace(text: str) -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-040"):
        parse_trace(text)


@pytest.mark.parametrize("text", ["4", "4:2 5", "4:x"])
def test_no_joint_trace(text: str) -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-040"):
        parse_joint_trace(text)
