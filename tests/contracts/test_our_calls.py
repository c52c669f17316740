"""Our calls against the snapshots: every release of torch_npu, the language of the adapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from contract_suite.calls import collect, collect_text
from contract_suite.checks import BROKEN, check_all, check_traps
from contract_suite.snapshot import read_snapshot
from contract_suite.uses import root_of

from tests.contracts.fake_torch_npu import SNAPSHOTS as RELEASES

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
REFERENCE = HERE / "torch_npu-2.13.0.json"
(ADAPTER,) = HERE.glob("tilelang-*.json")
FAMILIES = ("activation", "attention", "kv_cache", "normalization", "rotary")


@pytest.fixture(scope="module")
def collection():
    return collect(ROOT)


@pytest.fixture(scope="module")
def uses(collection):
    return collection.uses


def problems(uses, snapshot):
    known = read_snapshot(snapshot)
    reference = None if snapshot == ADAPTER else read_snapshot(REFERENCE).get
    return [
        f"{v.use.file}:{v.use.line}: {v.use.name}: {v.detail}"
        for v in check_all(uses, known.get, reference)
        if v.verdict in BROKEN
    ]


@pytest.mark.parametrize("snapshot", RELEASES, ids=lambda path: path.stem)
def test_every_call_into_torch_npu(uses, snapshot):
    ours = [use for use in uses if root_of(use.name) in ("torch.npu", "torch_npu")]
    files = {use.file for use in ours}
    callers = {"graphs/device_api.py", "graphs/task_groups.py", "kernels_npu/stream/current.py"}
    assert callers <= files
    assert not problems(ours, snapshot), "or a new name: write the snapshots again, see docs"
    assert not check_traps(read_snapshot(snapshot).get)


def test_every_holder_of_a_namespace_declares_it(collection):
    assert not collection.undeclared()
    assert {handover.function for handover in collection.handovers} >= {"DeviceApi", "TaskGroups"}


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_speak_the_language_of_the_adapter(uses, family):
    ours = [use for use in uses if use.file.startswith(f"kernels_npu/{family}/")]
    assert any(use.name.startswith("tilelang.language.") for use in ours)
    assert not problems([use for use in ours if root_of(use.name) == "tilelang"], ADAPTER)


def test_examples_and_benchmarks_speak_it_too(uses):
    ours = [use for use in uses if not use.file.startswith("kernels_npu/")]
    ours = [use for use in ours if root_of(use.name) == "tilelang"]
    assert {use.file.partition("/")[0] for use in ours} >= {"docs", "benchmarks"}
    assert not problems(ours, ADAPTER)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("T.tile.add(", "T.tile.plus(", "no such name"),
        ("T.alloc_ub(", "T.alloc_unified(", "no such name"),
        ("T.Select(", "T.Selekt(", "no such name"),
        ("T.Kernel(", "T.Kernel(grid=1, *", "unexpected keyword"),
        ("@tilelang.jit(", "@tilelang.jit(output=[1], ", "unexpected keyword"),
        ("T.copy(", "T.copy(*a, align=True, **b) or print(", "unexpected keyword"),
    ],
)
def test_a_kernel_outside_the_language_is_found(old, new, complaint):
    path = ROOT / "kernels_npu/activation/silu_and_mul.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    found = problems(collect_text(text.replace(old, new), "kernel.py").uses, ADAPTER)
    assert found
    assert all(re.search(complaint, line) for line in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "graph, pool=pool, stream=stream, capture_error_mode=error_mode",
            "graph, pool, stream, error_mode",
        ),
        ("capture_error_mode=error_mode", "error_mode=error_mode"),
        ('error_mode: str = "global"', 'error_mode: str = "relaxed"'),
        ("ns.NPUGraph()", "ns.NPUGraph(keep_graph=True)"),
        ("_namespace.graph_pool_handle()", "_namespace.graph_pool()"),
        ("_namespace.synchronize(self.device)", "_namespace.synchronize(self.device, 1)"),
    ],
)
def test_a_wrong_call_in_the_device_api_is_found(old, new):
    text = (ROOT / "graphs/device_api.py").read_text(encoding="utf-8")
    assert old in text
    for snapshot in RELEASES:
        assert problems(collect_text(text.replace(old, new), "device_api.py").uses, snapshot)
        assert not problems(collect_text(text, "device_api.py").uses, snapshot)


def test_an_operator_is_not_taken_for_a_name_of_the_npu_module():
    text = "import torch_npu\ntorch_npu.npu_rms_norm(1, 2)\ntorch_npu.npu.synchronize()\n"
    names = [use.name for use in collect_text(text, "a.py").uses]
    assert names == ["torch_npu.npu_rms_norm", "torch.npu.synchronize"]
