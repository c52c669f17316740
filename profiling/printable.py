"""Names from files as they may stand in a table or on a page."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters, overrides of direction and halves of characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def shortened(text: str, most: int) -> str:
    """The text, its middle left out where it is longer than `most` characters."""
    text = printable(text).replace("\n", " ")
    if len(text) <= most:
        return text
    kept = (most - 1) // 2
    return f"{text[: most - 1 - kept]}…{text[-kept:]}"
