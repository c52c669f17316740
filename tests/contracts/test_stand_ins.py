"""The simulated `torch.npu` takes what the release that it follows takes, and nothing else."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from contract_suite.snapshot import read_snapshot

from kernels_npu.sim.device import npu_module
from kernels_npu.sim.device.torch_npu_shim import VERSION

RELEASE = VERSION.partition("+")[0]
KNOWN = read_snapshot(Path(__file__).parent / f"torch_npu-{RELEASE}.json")
SIMULATED = npu_module.build()
NAMES = [name for name in SIMULATED.__all__ if not inspect.ismodule(getattr(SIMULATED, name))]


def differences(dotted, stand_in, *, bound=False):
    """What a function or class of ours takes otherwise than the release's."""
    known = KNOWN.get(dotted)
    if known is None:
        return [f"{RELEASE} has no {dotted}"]
    if not known.signatures:
        return []
    ours = list(inspect.signature(stand_in).parameters.values())[bound:]
    theirs = list(known.signatures[0].parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in theirs):  # what we name of it is ours to choose
        ours = [p for p in ours if p.kind is not p.KEYWORD_ONLY]
        theirs = [p for p in theirs if p.kind is not p.VAR_KEYWORD]
        ours = [p for p in ours if p.kind is not p.VAR_KEYWORD]
    as_text = [(p.name, p.kind, p.empty if p.default is p.empty else repr(p.default)) for p in ours]
    expected = [(p.name, p.kind, p.default) for p in theirs]
    return [] if as_text == expected else [f"{dotted}: {as_text}, expected {expected}"]


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name):
    value = getattr(SIMULATED, name)
    found = differences(f"torch.npu.{name}", value) if callable(value) else []
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        if not method.startswith("_") and inspect.isfunction(function):
            found += differences(f"torch.npu.{name}.{method}", function, bound=True)
    assert not found


def test_a_different_stand_in_is_found():
    def get_device_name(device=None):
        return device

    def graph(npu_graph, pool=None, stream=None, capture_error_mode="global"):
        return npu_graph

    def synchronize(device=0):
        return device

    for stand_in in (get_device_name, graph, synchronize):
        assert differences(f"torch.npu.{stand_in.__name__}", stand_in)
    assert differences("torch.npu.no_such_name", print)
