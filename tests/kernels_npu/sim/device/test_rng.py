"""A draw of a generator is taken back by its offset, as hosts do that discard a sampled token."""

from __future__ import annotations

import pytest
import torch

from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.rng import default_generator
from kernels_npu.sim.device.setup import enable


@pytest.fixture
def generator():
    enable()
    return torch.Generator(device="npu").manual_seed(11)


def draw(generator, size=7):
    return torch.empty(size, device="npu").exponential_(generator=generator).cpu()


def test_a_discarded_draw_comes_again(generator):
    first, discarded = draw(generator), draw(generator, 33)
    assert generator.get_offset() == 8
    assert generator.set_offset(generator.get_offset() - 4) is generator
    assert torch.equal(draw(generator, 33), discarded) and generator.get_offset() == 8
    generator.set_offset(0)
    assert torch.equal(draw(generator), first)
    with pytest.raises(NotSimulatedError, match=r"AI-DEV-008.*set_offset\(8\) at 4"):
        generator.set_offset(8)  # what is taken back is no place to go on from


def test_other_operations_of_a_device_count_too(generator):
    default = default_generator(0)
    default.manual_seed(3)
    drawn = [torch.randn(5, device="npu"), torch.nn.functional.dropout(torch.ones(9).npu(), 0.5)]
    assert default.get_offset() == 8
    default.set_offset(4)
    again = torch.nn.functional.dropout(torch.ones(9).npu(), 0.5)
    assert torch.equal(again.cpu(), drawn[1].cpu())


@pytest.mark.parametrize("restart", ["seed", "manual_seed", "set_state"])
def test_a_new_state_is_a_new_beginning(generator, restart):
    draw(generator)
    arguments = {"seed": (), "manual_seed": (1,), "set_state": (generator.get_state(),)}
    getattr(generator, restart)(*arguments[restart])
    assert generator.get_offset() == 0
    for offset in (4, -4):
        with pytest.raises(NotSimulatedError, match="draws kept from none"):
            generator.set_offset(offset)


def test_the_last_draws_can_be_taken_back_and_no_others(generator):
    drawn = [draw(generator) for _ in range(20)]
    with pytest.raises(NotSimulatedError, match="AI-DEV-008"):
        generator.set_offset(12)
    generator.set_offset(16)
    assert torch.equal(draw(generator), drawn[4])
