"""npu tensors in PyTorch: creation, transfer, autograd, modules, saving, random numbers, memory."""

from __future__ import annotations

import copy
import importlib.util
import io
import pickle

import pytest
import torch
from torch import nn

from kernels_npu.sim.device.memory import host


def test_device_and_transfer():
    x = torch.randn(2, 3, device="npu")
    assert x.device == torch.device("npu:0") and x.is_npu and not x.is_cpu
    assert x.npu() is x and x.to("npu") is x and x.to(torch.device("npu")) is x
    assert x.cpu().device.type == "cpu" and torch.equal(x.cpu().npu().cpu(), x.cpu())
    assert type(x) is torch.Tensor
    assert x.to("cpu", torch.float16).dtype == torch.float16
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        x.numpy()


def test_host_alias_is_the_same_memory():
    x = torch.arange(6.0, device="npu").view(2, 3)
    alias = host(x.t())
    assert alias.device.type == "cpu" and alias.data_ptr() == x.data_ptr()
    assert alias.stride() == (1, 3)


def test_transfers_copy():
    source = torch.zeros(3)
    x = source.npu()
    source.fill_(1)
    back = x.cpu()
    x.fill_(2)
    assert x.tolist() == [2, 2, 2] and back.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64])
def test_fresh_memory_is_poison(dtype):
    x = torch.empty(5, dtype=dtype, device="npu")
    assert host(x).view(torch.uint8).eq(0xFF).all()
    assert host(torch.empty_strided((2, 3), (1, 4), device="npu")).isnan().all()
    assert host(torch.empty_like(x)).view(torch.uint8).eq(0xFF).all()
    assert host(x.new_empty(2, 2)).view(torch.uint8).eq(0xFF).all()


def test_default_device():
    torch.set_default_device("npu")
    try:
        tensors = [torch.randn(2), torch.tensor([1.0]), torch.arange(3), torch.zeros(2)]
        tensors.append(nn.Linear(2, 2).weight)
        assert all(t.is_npu for t in tensors)
        assert torch.zeros(2, pin_memory=True).is_pinned()
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).is_cpu


def test_second_device():
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        x = torch.ones(2, device="npu")
    assert x.device.index == 1 and (x * 2).device.index == 1
    assert x.npu(0).device.index == 0
    with pytest.raises(RuntimeError, match="AI-DEV-006"):
        torch.ones(1, device="npu:7")


def test_random_numbers_are_those_of_the_host():
    draws = [
        lambda d: torch.randn(7, device=d),
        lambda d: torch.rand(2, 3, device=d, dtype=torch.float64),
        lambda d: torch.randint(0, 100, (5,), device=d),
        lambda d: torch.randperm(9, device=d),
        lambda d: torch.empty(4, device=d).normal_(),
        lambda d: torch.randn_like(torch.zeros(3, device=d)),
        lambda d: torch.multinomial(torch.arange(1.0, 6.0, device=d), 3),
    ]
    for draw in draws:
        torch.manual_seed(11)
        expected = draw("cpu")
        torch.manual_seed(11)
        assert torch.equal(draw("npu").cpu(), expected)


def test_dropout_is_seeded_and_leaves_the_host_generator_alone():
    x = torch.ones(64, device="npu")
    torch.manual_seed(3)
    first, host_draw = nn.functional.dropout(x), torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), host_draw)
    assert torch.equal(nn.functional.dropout(x).cpu(), first.cpu())


def test_generators():
    generator = torch.Generator(device="npu").manual_seed(5)
    assert generator.device == torch.device("npu:0") and isinstance(generator, torch.Generator)
    expected = torch.randn(4, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.randn(4, device="npu", generator=generator).cpu(), expected)
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator"):
        torch.randn(4, device="npu", generator=torch.Generator())
    state = torch.npu.get_rng_state()
    first = torch.randn(3, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(3, device="npu").cpu(), first.cpu())


def test_autograd_equals_cpu():
    torch.manual_seed(0)
    x, dy = torch.randn(4, 8), torch.randn(4, 8)
    gradients = []
    for device in ("cpu", "npu"):
        leaf = x.to(device).bfloat16().requires_grad_()
        torch.rms_norm(leaf.float(), normalized_shape=[8]).to(leaf.dtype).backward(dy.to(device))
        gradients.append(leaf.grad)
    assert gradients[1].is_npu
    torch.testing.assert_close(gradients[1].cpu(), gradients[0], rtol=0, atol=0)


def test_autograd_sees_inplace_changes():
    leaf = torch.ones(3, device="npu", requires_grad=True)
    middle = leaf * 2
    product = middle * middle
    middle.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_module_training_step_equals_cpu():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))
    twin, x = copy.deepcopy(model).to("npu"), torch.randn(5, 6)
    for m, inputs in ((model, x), (twin, x.npu())):
        optimizer = torch.optim.AdamW(m.parameters(), lr=0.1)
        m(inputs).square().sum().backward()
        optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters()):
        assert b.is_npu
        torch.testing.assert_close(b.detach().cpu(), a.detach())
    assert all(p.dtype == torch.float16 for p in twin.half().parameters())
    assert all(p.is_cpu for p in twin.cpu().parameters())


def test_inference_mode_tensors_work_outside():
    x = torch.randn(3, device="npu")
    with torch.inference_mode():
        inside = torch.zeros(3, device="npu").copy_(x)
    assert torch.equal((inside + 1).mul_(2).cpu(), (x.cpu() + 1) * 2)


def test_deepcopy_pickle_and_save():
    x = torch.randn(4, 6, device="npu")
    twin = copy.deepcopy(x)
    assert torch.equal(twin.cpu(), x.cpu()) and twin.data_ptr() != x.data_ptr()
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())
    buffer = io.BytesIO()
    torch.save({"whole": x, "part": x[1:]}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["whole"].is_npu and torch.equal(loaded["whole"].cpu(), x.cpu())
    loaded["part"].zero_()
    assert loaded["whole"][1:].count_nonzero().item() == 0  # still one storage
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu")["whole"].is_cpu
    buffer = io.BytesIO()
    torch.save(x.cpu(), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location="npu").is_npu


def test_repr_and_comparison_helpers():
    x = torch.arange(3, device="npu")
    assert repr(x) == "tensor([0, 1, 2], device='npu:0')"
    torch.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 3"):
        torch.testing.assert_close(x, torch.tensor([0, 1, 9], device="npu"))


def test_memory_accounting():
    before = torch.npu.memory_allocated()
    x = torch.empty(1000, device="npu")
    view = x[10:]
    assert torch.npu.memory_allocated() - before == 4000
    del x
    assert torch.npu.memory_allocated() - before == 4000
    del view
    assert torch.npu.memory_allocated() == before
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total == 64 << 30


def test_pinned_memory():
    assert torch.zeros(3, pin_memory=True).is_pinned()
    assert torch.zeros(3).pin_memory().is_pinned()
    assert not torch.zeros(3).is_pinned()


def test_properties_and_accelerator():
    properties = torch.npu.get_device_properties(0)
    assert (properties.cube_core_num, properties.vector_core_num) == (24, 48)
    assert torch.npu.get_device_name() == "Ascend910B1" and torch.npu.device_count() == 2
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.accelerator.device_count() == 2 and torch.accelerator.is_available()
    assert torch.accelerator.current_stream() == torch.npu.current_stream()
    torch.accelerator.synchronize()


def test_a_missing_feature_is_named():
    import torch_npu

    with pytest.raises(AttributeError, match=r"AI-DEV-008: torch\.npu\.npu_format_cast"):
        torch.npu.npu_format_cast
    with pytest.raises(AttributeError, match=r"AI-DEV-008: torch_npu\.profiler\.profile"):
        torch_npu.profiler.profile
    with pytest.raises(RuntimeError, match=r"AI-DEV-008.* torch_npu\.npu_dynamic_quant"):
        torch_npu.npu_dynamic_quant(torch.ones(3), torch.ones(3))
    with pytest.raises(ImportError, match=r"AI-DEV-008: torch_npu\.contrib"):
        importlib.import_module("torch_npu.contrib")
    assert torch_npu.npu is torch.npu
    assert not hasattr(torch.npu, "npu_format_cast")
    with pytest.raises(RuntimeError, match="AI-DEV-008"):
        torch.npu.make_graphed_callables(lambda x: x, ())
    with pytest.raises(RuntimeError, match="AI-DEV-008"):
        torch.ones(3, device="npu").untyped_storage().resize_(0)


def test_modules_of_the_device_are_found_like_installed_ones():
    for name in ("torch_npu", "torch_npu.npu", "tilelang", "tilelang.language"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.name == name
    assert importlib.util.find_spec("torch_npuu") is None


def test_autocast_works_only_switched_off():
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu", enabled=False):
        assert (x @ x).dtype is torch.float32
    with pytest.raises(RuntimeError, match="AI-DEV-008"), torch.autocast("npu"):
        pass


def test_memory_and_seeds_under_their_older_names():
    torch.npu.reset_max_memory_allocated()
    before = torch.npu.max_memory_allocated()
    assert before == torch.npu.memory_allocated()
    torch.empty(1000, device="npu")
    assert torch.npu.max_memory_allocated() - before == 4000
    assert torch.npu.max_memory_reserved() >= torch.npu.max_memory_allocated()
    assert "allocated_bytes.all.peak" in torch.npu.memory_summary()
    torch.npu.seed_all()
    first = torch.randn(4, device="npu:1")
    torch.npu.manual_seed_all(torch.npu.initial_seed())
    assert torch.equal(torch.randn(4, device="npu:1").cpu(), first.cpu())
    with torch.npu.device_of(first):
        assert torch.npu.current_device() == 1 and torch.npu.can_device_access_peer(0, 1)
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize(
    "twin",
    [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone_state()],
)
def test_a_copied_generator_stays_on_its_device(twin):
    generator = torch.Generator("npu:1").manual_seed(5)
    torch.randn(3, generator=generator, device="npu:1")
    other = twin(generator)
    assert other.device == torch.device("npu:1") and other is not generator
    drawn = [torch.randn(3, generator=g, device="npu:1").cpu() for g in (generator, other)]
    assert torch.equal(*drawn)


def test_a_view_is_copied_onto_itself():
    """A slice that is contiguous is the tensor's own memory, whatever its strides say."""
    x = torch.randn(1, 96).npu()
    piece = x[:, 32:64].contiguous().view(1, -1)
    piece += 1
    expected = x.clone()
    x[:, 32:64] = piece.view(1, 32)
    torch.testing.assert_close(x.cpu(), expected.cpu())
