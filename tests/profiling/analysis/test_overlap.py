"""Overlap of pipes against a timeline cycle by cycle."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.evidence import Evidence
from profiling.analysis import overlaps, trace_sentences
from profiling.records import Span, Trace

MOVES, COMPUTES = {"MTE2", "MTE3", "FIX"}, {"M", "V"}
PIPES = sorted({*MOVES, *COMPUTES, "S", "MTE1"})


def trace(*spans: tuple[str, int, int], process: str = "k #0 block 0 AIV0", **of: str) -> Trace:
    """Spans of (pipe, start, length)."""
    return Trace(
        file="trace.json",
        spans=tuple(
            Span(
                name="add",
                process=process,
                track=pipe,
                start=Decimal(start),
                duration=Decimal(length),
                category=of.get("category", "instruction"),
            )
            for pipe, start, length in spans
        ),
        others=0,
        evidence=Evidence.MODELLED,
        unit=of.get("unit", "cycles"),
    )


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(PIPES), st.integers(0, 40), st.integers(1, 15)), min_size=1)
)
def test_cycles_are_those_of_a_timeline(spans: list[tuple[str, int, int]]) -> None:
    (core,) = overlaps(trace(*spans))
    busy = {p: {c for q, s, n in spans if q == p for c in range(s, s + n)} for p in PIPES}
    moving = set().union(*(busy[p] for p in MOVES))
    computing = set().union(*(busy[p] for p in COMPUTES))
    assert (core.moving, core.computing, core.both) == (
        len(moving),
        len(computing),
        len(moving & computing),
    )
    assert core.busy == {pipe: len(cycles) for pipe, cycles in busy.items() if cycles}
    every = set().union(*busy.values())
    assert core.length == max(every) + 1 - min(every)


def test_sentences_name_the_longest_core_and_what_is_exposed() -> None:
    serial = trace(("MTE2", 0, 300), ("V", 300, 100), ("MTE3", 400, 200))
    (sentence,) = trace_sentences(serial)
    assert sentence.flagged
    assert sentence.text.startswith("k: in #0 block 0 AIV0 data moved in 500 of 600 cycles, 0 of")
    assert {ref.key: ref.value for ref in sentence.refs} == {
        "moving_cycles": 500,
        "computing_cycles": 100,
        "both_cycles": 0,
    }
    hidden = trace(("MTE2", 0, 300), ("V", 10, 280), ("MTE3", 290, 20))
    (sentence,) = trace_sentences(hidden)
    assert not sentence.flagged
    short = trace(("MTE2", 0, 3), ("V", 3, 1), process="k #1 block 0 AIV0")
    both = Trace(file="t", spans=(*short.spans, *serial.spans), others=0,
                 evidence=Evidence.MODELLED, unit="cycles")  # fmt: skip
    assert [s.text for s in trace_sentences(both)] == [s.text for s in trace_sentences(serial)]


def test_cube_and_vector_cores_are_told_apart() -> None:
    spans = [("MTE2", 0, 300), ("V", 300, 100), ("M", 300, 100)]
    cube = trace(*spans, process="k #0 block 0 AIC")
    vector = trace(*spans, process="k #0 block 0 AIV1")
    both = Trace(file="t", spans=(*cube.spans, *vector.spans), others=0,
                 evidence=Evidence.MODELLED, unit="cycles")  # fmt: skip
    assert [s.text.split(" data")[0] for s in trace_sentences(both)] == [
        "k: in #0 block 0 AIC",
        "k: in #0 block 0 AIV1",
    ]


def test_waits_and_other_peoples_traces_say_nothing() -> None:
    assert overlaps(trace(("MTE2", 0, 9), category="wait")) == []
    assert overlaps(trace(("MTE2", 0, 9), unit="us")) == []
    assert trace_sentences(trace(("MTE2", 0, 9))) == []
