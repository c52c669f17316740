"""Names from files: what is shown can be printed, and is the name."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.printable import printable, shortened


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_printable_text_stays_and_other_is_escaped(text: str) -> None:
    shown = printable(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown == text or not text.isprintable()
    shown.encode()
    assert len(shortened(text, 12)) <= 12


def test_the_middle_is_left_out() -> None:
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert shortened("abcdefg", 7) == "abcdefg"
    assert shortened("a\nb", 7) == "a b"
    assert printable("a\u202e\udfff") == "a\\u202e\\udfff"
