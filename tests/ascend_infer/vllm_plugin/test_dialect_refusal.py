"""On an NPU nothing is replaced where no kernel could be built: the status says it beforehand."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from ascend_infer.vllm_plugin import decision, host
from ascend_infer.vllm_plugin.host import ASCEND, CPU, Host
from kernels_npu import dialect
from kernels_npu.dialect import installation
from kernels_npu.dialect.installation import ADAPTER, MAINLINE, MIXED, NONE, Installation


def refusal(monkeypatch, kind, *, torch_npu=True, wish=None, simulated=False, on=ASCEND):
    def version(name: str) -> str:
        if name == "torch_npu" and torch_npu:
            return "2.10.0"
        raise importlib.metadata.PackageNotFoundError(name)

    directory = None if kind == NONE else Path("/site-packages/tilelang")
    found = Installation(directory=directory, kind=kind)
    served = Host(kind=on, version="0.23.0", vllm="0.23.0", package=Path("/nowhere"))
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(decision, "installed", lambda: served)
    monkeypatch.setattr(host.Host, "refusal", lambda _self, _op: None)
    monkeypatch.setattr(installation, "installed", lambda: found)
    monkeypatch.setattr(dialect, "device_is_simulated", lambda: simulated)
    monkeypatch.delenv(dialect.VARIABLE, raising=False)
    if wish:
        monkeypatch.setenv(dialect.VARIABLE, wish)
    decision.refusal.cache_clear()
    decision.dialect_refusal.cache_clear()
    return decision.refusal("attention")


@pytest.fixture(autouse=True)
def _forget():
    yield
    decision.refusal.cache_clear()
    decision.dialect_refusal.cache_clear()


@pytest.mark.parametrize(
    ("kind", "wish", "says"),
    [
        (NONE, None, "no tilelang is installed"),
        (NONE, "adapter", "AI-ENV-012"),
        (MAINLINE, None, "AI-ENV-010"),
        (MIXED, None, "AI-ENV-011"),
        (ADAPTER, "sim", "ASCEND_INFER_DIALECT=sim"),
        (ADAPTER, "simulated", "AI-ENV-012"),
    ],
)
def test_an_npu_without_the_adapter(monkeypatch, kind, wish, says):
    assert says in refusal(monkeypatch, kind, wish=wish)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (ADAPTER, {}),
        (ADAPTER, {"wish": "adapter"}),
        (NONE, {"torch_npu": False}),
        (MAINLINE, {"simulated": True}),
        (NONE, {"on": CPU}),
    ],
)
def test_where_kernels_can_be_built(monkeypatch, kind, changed):
    assert refusal(monkeypatch, kind, **changed) is None
