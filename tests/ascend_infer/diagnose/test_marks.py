"""No line that says something goes without marks, and marks are on the right lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_infer.diagnose import events
from ascend_infer.diagnose.events import read_line
from ascend_infer.diagnose.marks import (
    CAPTURE,
    CODE,
    EXCEPTION,
    FRAME,
    RUNTIME,
    WORD,
    marked_lines,
)
from ascend_infer.diagnose.signatures import SIGNATURES

HEAD = "[ERROR] RUNTIME(7,python):2026-03-10-16:49:31.543.228 [a.cc:7]7 "


def marks_of(text: str) -> int:
    """The marks of a text without line ends."""
    return dict(marked_lines(text.encode())).get(0, 0)


@pytest.mark.parametrize("number", range(len(SIGNATURES)), ids=[row.key for _, row in SIGNATURES])
def test_a_text_that_a_table_explains_has_a_word(number: int) -> None:
    pattern, _ = SIGNATURES[number]

    @settings(max_examples=25, deadline=None, database=None)
    @given(st.from_regex(pattern, alphabet=st.characters(codec="ascii", exclude_characters="\n\r")))
    def check(text: str) -> None:
        if pattern.search(text.split("\n")[0]):
            assert marks_of(text.split("\n")[0]) & WORD

    check()


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.from_regex(events._EXCEPTION, alphabet=st.characters(codec="ascii")).map(
            lambda text: (text, EXCEPTION)
        ),
        st.from_regex(events._TEXT_CODE, alphabet=st.characters(codec="ascii")).map(
            lambda text: (text, CODE)
        ),
        st.from_regex(re.compile(r"retCode=[125]07[0-9]{3} ")).map(lambda text: (text, CODE)),
        st.sampled_from([107000, 107999, 207008, 507899, 507015, 507999, 207999]).flatmap(
            lambda code: st.sampled_from([f"ret=0x{code:x}", f"ret=0X000{code:X}"]).map(
                lambda text: (text, CODE)
            )
        ),
        st.just((HEAD + "x", RUNTIME)),
        st.just(('(Worker pid=3) ERROR 01-02 03:04:05 [a.py:7]   File "x.py", line 7', FRAME)),
        st.just(("capture begin success, device_id=0, model_id=3", CAPTURE)),
        st.just(("Traceback (most recent call last):", EXCEPTION)),
        st.just(("Exception ignored in: <function f>", EXCEPTION)),
    ),
    st.integers(0, 9),
)
def test_what_a_pattern_knows_is_marked(case: tuple[str, int], blanks: int) -> None:
    text, mark = case
    first = next((line for line in text.splitlines() if line.strip()), "")
    read = read_line(first.encode())
    if read.error is not None or read.context or mark in (RUNTIME, CAPTURE):
        assert marks_of(" " * blanks + first) & mark


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["", "x", "abc", "E", "ValueError: x", "retCode=507015", "Killed"])),
    st.integers(0, 5),
)
def test_marks_are_on_their_lines(lines: list[str], blanks: int) -> None:
    said = {"ValueError: x": EXCEPTION, "retCode=507015": CODE, "Killed": WORD}
    block = "\n".join([*lines, " " * blanks])
    expected = {number: said[line] for number, line in enumerate(lines) if line in said}
    assert dict(marked_lines(block.encode())) == expected


def test_what_differs_from_line_to_line_is_not_marked() -> None:
    lines = [
        "INFO 01-02 03:04:05 [engine.py:7] request 3fa9c2d1-77b0 finished after 12 tokens",
        "2026-01-02 03:04:05,123 loaded /models/x/model-00003-of-00009.safetensors in 3.2 s",
        "step 17 of 2000, loss 5.07e-3, address 0xffff8a3c20b0",
        "",
    ]
    assert dict(marked_lines("\n".join(lines).encode())) == {}
