"""Which release a host counts as, by its version or by its text."""

from __future__ import annotations

import pytest

from ascend_infer.vllm_plugin.releases import counts_as

PINNED = {
    "0.18.0": {"a.py:f": "1", "a.py:g": "2", "b.py:h": "3"},
    "0.23.0": {"a.py:f": "1", "a.py:g": "7", "b.py:h": "8"},
    "0.23.0.post1": {"a.py:f": "1", "a.py:g": "7", "b.py:h": "8"},
}
OLD, NEW = PINNED["0.18.0"], PINNED["0.23.0.post1"]
OTHER = {"a.py:f": "9", "a.py:g": None}


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.18.0", "0.18.0"),
        ("0.23.0", "0.23.0"),
        ("0.23.0.post1", "0.23.0.post1"),
        ("0.23.0.post1+dirty", "0.23.0.post1"),
        ("0.23.0+g1a2b3c4.d20261130", "0.23.0"),
        ("0.18.0+empty", "0.18.0"),
        ("0.24.0rc1", None),
        ("0.23.0rc1", None),
        ("0.23.0.post2", None),
        ("0.18.1", None),
        ("0.23", None),
        ("0.24.0rc1+dirty", None),
        ("1.0+dev1", None),
    ],
)
def test_a_release_is_what_its_version_says(version, release):
    def read():
        pytest.fail("the text was read")

    assert counts_as(version, PINNED, read) == release


@pytest.mark.parametrize(
    "version",
    [
        "",
        "0.23.1.dev3",
        "0.23.1.dev3+g1a2b3c4",
        "0.1.dev1+g1a2b3c4",
        "0.18.1rc2.dev9",
        "0.24.0.dev",
    ],
)
@pytest.mark.parametrize(
    ("text", "release"),
    [
        (OLD, "0.18.0"),
        (NEW, "0.23.0.post1"),
        ({**OLD, "a.py:f": "9"}, "0.18.0"),
        ({**NEW, "a.py:g": None}, "0.23.0.post1"),
        ({**OLD, "a.py:g": "7"}, "0.23.0.post1"),  # one difference from either
        (OTHER, "0.23.0.post1"),
        ({}, "0.23.0.post1"),
    ],
)
def test_what_lies_between_releases_is_the_one_whose_text_is_nearest(version, text, release):
    assert counts_as(version, PINNED, lambda: text) == release


def test_without_pinned_releases_there_is_none():
    assert counts_as("", {}, dict) is None
