"""Hosts whose version is not that of a release: decided by their text, and said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ascend_infer.vllm_plugin import host, pins
from ascend_infer.vllm_plugin.host import ASCEND, Host, installed

#: The text of one function in each pinned release, and one that nobody knows.
TEXTS = {
    "0.18.0": "def f():\n    return 18\n",
    "0.23.0": "def f():\n    return 23\n",
    "0.23.0.post1": "def f():\n    return 23\n",
    "": "def f():\n    return 0\n",
}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {
        release: {"utils.py:f": pins.digest(text.rstrip())}
        for release, text in TEXTS.items()
        if release
    }
    monkeypatch.setattr(pins, "pinned", lambda: {ASCEND.name: hashes})
    monkeypatch.setattr(pins, "DEPENDS", {ASCEND.name: {"attention": ("utils.py:f",)}})


def made(folder: Path, version: str, vllm: str, text_of: str) -> Host:
    (folder / "utils.py").write_text(TEXTS[text_of])
    return Host(kind=ASCEND, version=version, vllm=vllm, package=folder)


@pytest.mark.parametrize(
    ("version", "vllm", "text_of", "counts_as"),
    [
        ("0.23.0.post1", "0.23.0", "0.23.0", "0.23.0.post1"),
        ("0.23.0.post1+dirty", "0.23.0", "0.23.0.post1", "0.23.0.post1"),
        ("0.23.0+g1a2b3c4.d20261130", "0.23.0+empty", "0.23.0", "0.23.0"),
        ("0.18.0+local", "0.18.0", "0.18.0", "0.18.0"),
        ("0.23.1.dev3+g1a2b3c4", "0.23.0+empty", "0.23.0", "0.23.0.post1"),
        ("0.23.1.dev3", "0.18.0", "0.18.0", "0.18.0"),
        ("0.1.dev1+g1a2b3c4", "0.23.0", "0.23.0", "0.23.0.post1"),
        ("", "0.23.0+empty", "0.23.0", "0.23.0.post1"),
    ],
)
def test_a_known_text_is_served(tmp_path, version, vllm, text_of, counts_as):
    found = made(tmp_path, version, vllm, text_of)
    assert found.release == counts_as and found.refusal("attention") is None
    assert (f"(counts as {counts_as})" in found.label) == (version != counts_as)


@pytest.mark.parametrize(
    ("version", "vllm", "text_of", "says"),
    [
        ("0.23.0.post1+dirty", "0.23.0", "", "(counts as 0.23.0.post1): utils.py:f has another"),
        ("0.23.0.post1+dirty", "0.23.0", "0.18.0", "utils.py:f has another text"),
        ("0.23.0", "0.23.0", "", "utils.py:f has another text"),
        ("0.23.1.dev3", "0.23.0", "", "vllm-ascend 0.23.1.dev3 (counts as 0.23.0.post1): utils"),
        ("0.23.1.dev3", "0.18.0", "0.23.0", "vLLM 0.18.0; vllm-ascend 0.23.1.dev3 (counts as 0"),
        ("0.23.1.dev3", "0.18.0", "0.23.0", "(counts as 0.23.0.post1) is for 0.23.0"),
        ("0.23.0", "0.23.1.dev5+gabc", "0.23.0", "vLLM 0.23.1.dev5+gabc; vllm-ascend 0.23.0 is"),
        ("", "0.23.0", "", "vllm-ascend without a version (counts as 0.23.0.post1): utils"),
        ("", "", "0.23.0", "vLLM without a version; vllm-ascend without a version (counts as"),
        ("0.23.0.post2", "0.23.0", "0.23.0", "0.23.0.post2 is none of 0.18.0, 0.23.0, 0.23.0.p"),
        ("0.24.0rc1", "0.24.0", "0.23.0", "vllm-ascend 0.24.0rc1 is none of"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_named(tmp_path, version, vllm, text_of, says):
    refusal = made(tmp_path, version, vllm, text_of).refusal("attention")
    assert refusal is not None
    assert says in refusal


def test_a_checkout_without_metadata_is_found_by_its_files(tmp_path, monkeypatch):
    package = tmp_path / "vllm_ascend"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = dataclasses.replace(installed.__wrapped__(), vllm="0.23.0")
    made(package, "", "0.23.0", "0.23.0")
    if host._version(ASCEND.name):
        pytest.skip("vllm-ascend is installed here, with its version")
    assert (found.version, found.package) == ("", package)
    assert found.label == "vllm-ascend without a version (counts as 0.23.0.post1)"
    assert found.refusal("attention") is None and found.release == "0.23.0.post1"
