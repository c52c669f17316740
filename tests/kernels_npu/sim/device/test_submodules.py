"""Submodules of torch_npu that scripts and serving hosts import."""

from __future__ import annotations

import importlib

import pytest
import torch

from kernels_npu.sim import device as simulated
from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.submodules import SUBMODULES
from kernels_npu.sim.soc import SOCS


@pytest.mark.parametrize("name", sorted(SUBMODULES))
def test_is_imported_with_its_members_and_names_what_it_lacks(name):
    module = importlib.import_module(name)
    parent = importlib.import_module(name.rpartition(".")[0])
    assert getattr(parent, name.rpartition(".")[2]) is module
    for member in SUBMODULES[name]:
        assert hasattr(module, member)
    with pytest.raises(AttributeError, match=rf"AI-DEV-008: {name}\.no_such_thing"):
        module.no_such_thing


def test_allocators_can_be_named_and_not_made():
    for name in ("NPUPluggableAllocator", "MemPool"):
        with pytest.raises(NotSimulatedError, match=f"AI-DEV-008.*{name}"):
            getattr(torch.npu.memory, name)("library", "malloc", "free")
    assert torch.npu.memory.memory_allocated() == torch.npu.memory_allocated()


def test_numbers_of_chips():
    from torch_npu.npu._backends import get_soc_version

    found = {}
    for name, soc in SOCS.items():
        simulated.configure(soc=name)
        found.setdefault(soc.platform, set()).add(get_soc_version())
    simulated.configure(soc="Ascend910B1")
    assert get_soc_version() == 220
    assert found == {"A2": set(range(220, 226)), "A3": set(range(250, 256)), "A5": {260}}
