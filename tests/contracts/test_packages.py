"""Wheels, source distributions and folders, read without being opened; what a name in one is."""

from __future__ import annotations

import hashlib
import inspect

import pytest
from contract_suite.checks import signature_text
from contract_suite.operators import parse
from contract_suite.packages import Package
from contract_suite.snapshot import read_snapshot, write_snapshot
from contract_suite.surface import Surface

from tests.contracts.archives import FILES, sdist, wheel


@pytest.fixture
def surface(tmp_path):
    return Surface(Package(wheel(tmp_path)))


def test_the_forms_of_a_package_hold_the_same(tmp_path):
    text = {name: data for name, data in FILES.items() if isinstance(data, str)}
    tree = tmp_path / "tree"
    for name, data in text.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(data)
    packages = [Package(p) for p in (wheel(tmp_path), sdist(tmp_path, text), tree)]
    for package in packages:
        assert package.files("torch_npu/npu/") == [
            "torch_npu/npu/__init__.py", "torch_npu/npu/graphs.py", "torch_npu/npu/utils.py",
        ]  # fmt: skip
        assert package.text("torch_npu/npu/graphs.py") == text["torch_npu/npu/graphs.py"]
        assert package.text("torch_npu/absent.py") is None
    assert packages[0].has_native_name("_raw") and not packages[0].has_native_name("_ra")
    assert packages[0].has_native_module("torch_npu._C") and not packages[1].native
    origin = packages[0].origin
    assert origin.version == "9.1"
    assert origin.sha256 == hashlib.sha256(packages[0].path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut", b"\x1f\x8b\x08\0cut"])
def test_a_damaged_archive_is_named(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises((ValueError, OSError), match=name.replace(".", r"\.") + "|gzip"):
        Package(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "kind", "signature", "exported"),
    [
        ("torch.npu", "module", None, None),
        ("torch.npu.graph", "class", "(npu_graph, pool=None, stream=None, "
         "auto_dispatch_capture=False, capture_error_mode='global')", True),
        ("torch.npu.NPUGraph", "class", "()", True),
        ("torch.npu.NPUGraph.replay", "function", "()", None),
        ("torch.npu.NPUGraph.stream", "value", None, None),
        ("torch.npu.NPUGraph.pool_size", "value", None, None),
        ("torch.npu.NPUGraph.reset", "native", None, None),
        ("torch.npu.limited", "function", "(x, y=3, *rest, z, w='a', **more)", True),
        ("torch.npu.stream", "function", "(stream=None)", True),
        ("torch.npu.sleep", "function", "(stream=None)", False),
        ("torch.npu.hidden", "value", None, False),
        ("torch.npu.graphs.hidden", "function", "()", False),
        ("torch_npu.erase", "function", "()", True),
        ("torch_npu.npu_norm", "operator", "(x, k=[1, 2], *, eps=1e-06, out=None)", True),
        ("torch_npu.npu_hidden", "operator", "(x)", False),
        ("torch_npu._C._raw", "native", None, None),
    ],
)  # fmt: skip
def test_what_a_name_is(surface, name, kind, signature, exported):
    found = surface.find(name)
    assert found.kind == kind
    assert found.exported is exported
    assert signature == (signature_text(found.signatures[0]) if found.signatures else None)


@pytest.mark.parametrize(
    "name",
    ["torch.npu.NPUGraph.rewind", "torch.npu.no", "torch.npu.graph.replay", "torch_npu._C._r",
     "torch_npu._C._raw.no", "torch_npu.npu_text", "torch_npu.npu_nor", "vllm.no"],
)  # fmt: skip
def test_what_is_not_there(surface, name):
    assert surface.find(name) is None


def test_overloads_of_an_operator(surface):
    signatures = surface.find("torch_npu.npu_norm").signatures
    assert [list(s.parameters) for s in signatures] == [["x", "k", "eps", "out"], ["x", "y"]]
    assert parse("Tensor x=None, int") is None
    assert parse("") == inspect.Signature()


def test_a_snapshot_gives_back_what_was_found(surface, tmp_path):
    names = ["torch.npu.graph", "torch.npu.limited", "torch_npu.npu_norm", "torch.npu.no"]
    path = tmp_path / "s.json"
    write_snapshot(path, surface.package.origin, surface, names)
    assert read_snapshot(path) == {name: surface.find(name) for name in names[:3]}
    assert [p.name for p in tmp_path.glob("*.json")] == ["s.json"]
