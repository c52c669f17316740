"""A wrong name or argument is found in whatever way it is reached; the right one is not flagged."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract_suite.calls import collect_text
from contract_suite.checks import BROKEN, check_all
from contract_suite.snapshot import read_snapshot

KNOWN = read_snapshot(Path(__file__).with_name("torch_npu-2.13.0.json")).get
HEAD = "import torch\nimport torch_npu\n"
#: A text with `graph_pool` for `graph_pool_handle`.
NAMES = {
    "late name": "def f():\n    n.graph_pool()\nn = torch.npu",
    "attribute set by a later method": "class A:\n    def f(self):\n        self.n.graph_pool()\n"
    "    def g(self):\n        self.n = torch.npu",
    "attribute that is None at first": "class A:\n    def __init__(self):\n        self.n = None\n"
    "    def f(self):\n        self.n.graph_pool()\n"
    "    def g(self):\n        self.n = torch.npu",
    "attribute of a class": "class A:\n    n = torch.npu\n    def f(self):\n"
    "        self.n.graph_pool()",
    "base class": "class A(torch.npu.graph_pool): pass",
    "decorated class": "@torch.npu.graph_pool\nclass A: pass",
    "import_module": "from importlib import import_module\n"
    "import_module('torch_npu').npu.graph_pool()",
    "dunder import": "__import__('torch_npu').npu.graph_pool()",
    "sys.modules": "import sys\nsys.modules['torch_npu'].npu.graph_pool()",
    "loop": "for n in (torch.npu,):\n    n.graph_pool()",
    "or": "n = None or torch.npu\nn.graph_pool()",
    "comprehension": "[n.graph_pool() for n in [0, torch.npu]]",
    "parallel assignment": "a, n = 1, torch.npu\nn.graph_pool()",
}
#: A text with `timing` for `enable_timing`, or `1, 2` for `1`.
ARGUMENTS = {
    "partial": "import functools\nfunctools.partial(torch.npu.Event, timing=True)",
    "partial by position": "from functools import partial\npartial(torch.npu.synchronize, 1, 2)",
    "written dictionary": "torch.npu.Event(**{'timing': True})",
    "written tuple": "torch.npu.synchronize(*(1, 2))",
    "loop over functions": "for event in (print, torch.npu.Event):\n    event(timing=True)",
    "comprehension over functions": "[e(timing=True) for e in [torch.npu.Event]]",
    "late function": "def f():\n    return event(timing=True)\nevent = torch.npu.Event",
    "with": "with torch.npu.NPUGraph() as graph:\n    graph.capture_begin(timing=True)",
    "torch.ops": "torch.ops.npu.npu_rms_norm(1, 2, timing=1e-5)",
    "overload": "torch.ops.npu.npu_rms_norm.default(1, 2, timing=1e-5)",
}
RIGHT = {"with": "pool", "torch.ops": "epsilon", "overload": "epsilon"}


def broken(text: str) -> bool:
    found = collect_text(HEAD + text, "a.py")
    verdicts = check_all(found.uses, KNOWN, KNOWN)
    return any(verdict.verdict in BROKEN for verdict in verdicts) or bool(found.undeclared())


@pytest.mark.parametrize("way", NAMES)
def test_a_name(way: str) -> None:
    assert broken(NAMES[way])
    assert not broken(NAMES[way].replace("graph_pool", "graph_pool_handle"))


@pytest.mark.parametrize("way", ARGUMENTS)
def test_an_argument(way: str) -> None:
    wrong = ARGUMENTS[way]
    right = wrong.replace("timing=", f"{RIGHT.get(way, 'enable_timing')}=")
    assert broken(wrong)
    assert not broken(right.replace("'timing'", "'enable_timing'").replace("1, 2)", "1)"))


@pytest.mark.parametrize(
    "text",
    [
        "def f(n):\n    n.graph_pool()\nn = torch.npu",
        "def f(n):\n    def g():\n        n.graph_pool()\nn = torch.npu",
        "def f():\n    for n in range(3):\n        n.graph_pool()\nn = torch.npu",
        "def f():\n    with open('x') as n:\n        n.graph_pool()\nn = torch.npu",
        "n = torch.npu\n[n.graph_pool() for n in range(3)]",
        "import sys\nsys.modules['os'].graph_pool()",
    ],
)
def test_what_hides_a_name(text: str) -> None:
    assert not broken(text)


def test_a_returned_tuple_is_out_of_sight() -> None:
    assert broken("def f():\n    return torch.npu, 1")
