"""`scripts/contracts` on small source trees: what it finds, prints, writes and returns."""

from __future__ import annotations

import json

import pytest
from contract_suite import __main__ as command
from contract_suite.calls import collect_text
from contract_suite.checks import MISMATCH, check
from contract_suite.packages import Package
from contract_suite.surface import Surface
from contract_suite.uses import Use

from tests.contracts.archives import FILES, GRAPHS, sdist, wheel

HEAD = "import importlib, torch, torch_npu\n"


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Check one file of ours against the small wheel, or others."""
    monkeypatch.setattr(command, "REFERENCE", tmp_path / "none")

    def call(text, *files, options=()):
        folder = tmp_path / "ours" / "graphs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.py").write_text(text)
        paths = [str(path) for path in files or [wheel(tmp_path)]]
        status = command.main([*paths, "--root", str(folder.parent), *options])
        return status, capsys.readouterr().out

    return call


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("torch_npu.npu.graph(1, capture_error_mode='relaxed')", None),
        ("torch_npu.npu.graph(1, error_mode='relaxed')", "unexpected keyword argument 'error_mo"),
        ("torch_npu.npu.graph(cuda_graph=1)", "npu_graph"),
        ("torch_npu.npu.graph(1, None, None, 'relaxed')", "by position: torch.cuda.graph has"),
        ("torch_npu.npu.graph(1, 2, 3, 4, 5, 6)", "too many positional"),
        ("torch_npu.npu.grph(1)", "torch.npu.grph: no such name"),
        ("torch_npu.npu.NPUGraph().rewind()", "torch.npu.NPUGraph.rewind: no such name"),
        ("torch_npu.npu.NPUGraph().reset()", None),
        ("torch_npu.npu.hidden", "__all__ of its module does not have it"),
        ("torch_npu.npu.hidden and getattr(torch_npu.npu, 'x', None)", "__all__"),
        ("getattr(torch_npu.npu, 'absent', None)", None),
        ("torch_npu.npu._sleep", "no such name"),
        ("torch_npu._C._raw(1, 2, 3)", None),
        ("torch_npu.npu_norm(1, k=[1, 1], eps=1.0)", None),
        ("torch_npu.npu_norm(1, 2)", None),
        ("torch_npu.npu_norm(1, epsilon=1.0)", "it is torch_npu.npu_norm(x, k=[1, 2], *, eps"),
        ("torch_npu.npu_hidden(1)", None),
        ("torch_npu.npu_hidden(1, 2)", "too many positional arguments"),
        ("def f(mode='global'): torch_npu.npu.graph(1, capture_error_mode=mode)", None),
        ("def f(mode='relaxed'): torch_npu.npu.graph(1, capture_error_mode=mode)",
         "our parameter defaults to 'relaxed', capture_error_mode to 'global'"),
        ("def f(*, pool=0): torch_npu.npu.graph(1, pool)", "defaults to 0, pool to None"),
        ("def f(ns: TorchNamespace): ns.graf()", "torch.npu.graf: no such name"),
        ("torch.get_device_module(device).graf()", "torch.npu.graf: no such name"),
        ("def f(torch_npu): torch_npu.npu.graf()", "torch.npu.graf: no such name"),
        ("def f(torch_npu: Any): torch_npu.npu.graf()", "torch.npu.graf: no such name"),
        ("torch_npu.npu_norm(1)\ndef f(torch_npu: str): torch_npu.partition('.')", None),
        ("torch_npu.npu_norm(1)\ntorch_npu, other = versions()\ntorch_npu.partition('.')", None),
        ("module, other = torch_npu.npu, 1\nmodule.graf()", "torch.npu.graf: no such name"),
        ("if (ns := torch_npu.npu): ns.graf()", "torch.npu.graf: no such name"),
        ("try: import torch_npu as n\nexcept ImportError: n = None\nn.npu.graf()", "graf: no such"),
        ("if f(): n = torch_npu.npu\nelse: n = torch.cuda\nn.graf()", "graf: no such name"),
        ("if f(): n = torch.cuda\nelse: n = torch_npu.npu\nn.graf()", "graf: no such name"),
        ("n = torch_npu.npu.graph(1)\nn = torch.cuda\nn.graf()", None),
        ("importlib.import_module('torch_npu.nothing')", "torch_npu.nothing: no such name"),
        ("async def f(ns: TorchNamespace): ns.graf()", "torch.npu.graf: no such name"),
        ("getattr(torch, kind).graf()", "torch.npu.graf: no such name"),
        ("f = '''\\nimport torch_npu\\ntorch_npu.npu.graf()\\n'''", "a.py:4: torch.npu.graf"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_found_and_a_right_one_is_not(run, line, complaint):
    status, printed = run(HEAD + line + "\n")
    assert status == (complaint is not None)
    assert ("1 broken" if complaint else "passes") in printed
    if complaint:
        (shown,) = [row for row in printed.splitlines() if row.startswith("  graphs/a.py:")]
        assert complaint in shown and shown.startswith("  graphs/a.py:") and ": torch" in shown


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("ns = getattr(torch, kind)", True),
        ("ns: TorchNamespace = getattr(torch, kind)", False),
        ("dtype: torch.dtype = getattr(torch, kind)", False),
        ("a, b = 1, getattr(torch, kind, None)", True),
        ("def f(ns): ...\nf(torch_npu.npu)", True),
        ("def f(ns: TorchNamespace): ...\nf(torch_npu.npu)", False),
        ("def f(x, ns: TorchNamespace): ...\nf(torch_npu.npu, 1)", True),
        ("def f(x, ns: TorchNamespace): ...\nf(1, ns=torch_npu.npu)", False),
        (
            "class A:\n def __init__(self, ns: TorchNamespace): self.ns = ns\nA(torch_npu.npu)",
            False,
        ),
        ("class A:\n def __init__(self, ns): self.ns = ns\nA(torch_npu.npu)", True),
        ("class A:\n ns: TorchNamespace\n def f(self): return self.ns", True),
        ("class A:\n ns: TorchNamespace\n def f(self): return self.ns.graph(1)", False),
        ("unknown(torch_npu.npu)", True),
        ("kinds = {'npu': torch_npu.npu}", True),
        ("kinds = [torch_npu.npu, 3]", True),
        ("kinds = [torch_npu.npu.graph, 3]", False),
        ("hasattr(torch_npu.npu, 'graph')", False),
    ],
)
def test_a_namespace_that_gets_out_of_sight_is_found(run, line, seen):
    status, printed = run(HEAD + line + "\n")
    assert status == seen
    assert ("annotate with TorchNamespace" in printed) == seen


def test_a_use_before_the_constructor_is_seen():
    text = (
        "class A:\n def f(self): self.n.graf()\n def __init__(self, n: TorchNamespace): self.n=n\n"
    )
    assert [use.name for use in collect_text(text, "a.py").uses] == ["torch.npu.graf"]


def test_a_promise_of_a_protocol_is_a_use(run):
    promise = "class Graph(Protocol):\n def replay(self{}) -> None: ...\n"
    assert run(promise.format(""))[0] == 0
    status, printed = run(promise.format(", stream=None"))
    assert status == 1 and "torch.npu.NPUGraph.replay: too many positional" in printed
    promise = "class Graph(Protocol):\n def keep(self, tensors={}) -> None: ...\n"
    assert run(promise.format("None"))[0] == 0
    status, printed = run(promise.format("()"))
    assert status == 1 and "our parameter defaults to (), tensors to None" in printed


def test_a_default_that_another_release_has_otherwise(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    changed = GRAPHS.replace('"global"', '"relaxed"')
    new = Surface(Package(wheel(other, {**FILES, "torch_npu/npu/graphs.py": changed})))
    old = Surface(Package(wheel(tmp_path)))
    use = Use(name="torch.npu.graph", file="a.py", line=1, call=True, positional=1)
    verdict = check(use, new.find, old.find)
    assert verdict.verdict == MISMATCH and "'relaxed' here and 'global'" in verdict.detail
    given = Use(**{**vars(use), "keywords": ("capture_error_mode",)})
    assert check(given, new.find, old.find).verdict == "ok"
    assert check(use, old.find, old.find).verdict == "ok"


def test_the_table_and_the_json_of_several_packages(run, tmp_path):
    text = HEAD + "torch_npu.npu.graph(1)\ntorch_npu.npu.grph\n"
    plugin = sdist(tmp_path, {"tilelang/__init__.py": ""}, "tilelang-0.1.tar.gz")
    out = tmp_path / "out.json"
    status, printed = run(text, wheel(tmp_path), plugin, options=["--json", str(out)])
    assert status == 1
    assert "tilelang 0.1: 0 uses, nothing to check" in printed
    assert [row.split() for row in printed.splitlines()[:3]] == [
        ["9.1"], ["torch.npu.graph", "ok"], ["torch.npu.grph", "missing"],
    ]  # fmt: skip
    first, second = json.loads(out.read_text())["releases"]
    assert (first["package"], first["version"], len(first["verdicts"])) == ("torch_npu", "9.1", 2)
    assert first["broken"] == ["graphs/a.py:3: torch.npu.grph: no such name"]
    assert second["broken"] == second["verdicts"] == []


def test_a_release_without_the_trap_is_broken(run, tmp_path):
    moved = GRAPHS.replace("auto_dispatch_capture=False,", "")
    files = {**FILES, "torch_npu/npu/graphs.py": moved}
    status, printed = run(HEAD, wheel(tmp_path, files))
    assert status == 1 and "position 4 of torch.npu.graph is not auto_dispatch_capture" in printed


def test_what_is_not_there_is_exit_code_2(run, tmp_path, capsys):
    for path in (tmp_path / "absent.whl", sdist(tmp_path, {"other/__init__.py": ""})):
        assert run(HEAD, path)[0] == 2
    assert command.main(["--root", str(tmp_path), "--cache", str(tmp_path / "cache")]) == 2
    assert "outside the repository" in capsys.readouterr().err
