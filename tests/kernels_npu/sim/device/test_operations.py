"""PyTorch operations on npu: the same bits as on the CPU, eager and in a replayed graph."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_npu.sim.device.conftest import capture
from tests.kernels_npu.sim.device.operations import OPERATIONS, SHAPES, inputs, update


def _on_both(rows, columns):
    torch.manual_seed(rows * 31 + columns)
    host = inputs(rows, columns, "cpu")
    return host, {k: v.npu() for k, v in host.items()}


@pytest.mark.parametrize("rows, columns", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_eager_equals_cpu(name, rows, columns):
    if rows == 0 and name in ("mean", "sum dtype", "argmax", "split"):
        pytest.skip("undefined on an empty batch")
    host, device = _on_both(rows, columns)
    expected, actual = OPERATIONS[name](host), OPERATIONS[name](device)
    assert actual.is_npu and actual.device == torch.device("npu:0")
    assert actual.dtype == expected.dtype and actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "tanh"])
def test_functions_are_rounded_once(name, dtype):
    """The nearest float32, eager and replayed: PyTorch's own CPU kernel can be a bit off."""
    function = getattr(torch, name)
    device = torch.rand(5, 16).to(dtype).npu()
    graph, output = capture(lambda: function(device))
    for _ in range(2):
        host = (torch.rand(5, 16) + 0.1).to(dtype)
        device.copy_(host)
        graph.replay()
        expected = function(host.double()).float().to(dtype)
        for actual in (function(device), output, getattr(device, f"{name}_")()):
            torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


def test_numbers_wrap_to_the_integers_that_they_fill():
    value, seen = 200, []
    for fill in (
        lambda t: t.__setitem__((0, 1), value),
        lambda t: t.fill_(value),
        lambda t: t.masked_fill_(t == 0, value),
        lambda t: t.copy_(torch.full((2, 2), value, dtype=torch.int8, device="npu")),
    ):
        target = torch.zeros(2, 2, dtype=torch.int8, device="npu")
        fill(target)
        seen.append(target[0, 1].item())
    assert seen == [value - 256] * 4


@pytest.mark.parametrize("name", OPERATIONS)
def test_replay_equals_eager_after_new_inputs(name):
    _, device = _on_both(5, 16)
    graph, output = capture(lambda: OPERATIONS[name](device))
    torch.manual_seed(99)
    fresh = inputs(5, 16, "cpu")
    for key, value in fresh.items():
        device[key].copy_(value)
    graph.replay()
    torch.testing.assert_close(
        output.cpu(), OPERATIONS[name](fresh), rtol=0, atol=0, equal_nan=True
    )


def test_inplace_operations_write_the_same_memory():
    host, device = _on_both(4, 6)
    addresses = {k: v.data_ptr() for k, v in device.items()}
    update(host)
    update(device)
    for key in host:
        assert device[key].data_ptr() == addresses[key]
        torch.testing.assert_close(device[key].cpu(), host[key], rtol=0, atol=0)


def test_inplace_operations_wait_for_replay():
    host, device = _on_both(4, 6)
    before = {k: v.cpu() for k, v in device.items()}
    graph, _ = capture(lambda: update(device))
    for key in host:
        torch.testing.assert_close(device[key].cpu(), before[key], rtol=0, atol=0)
    graph.replay()
    update(host)
    for key in host:
        torch.testing.assert_close(device[key].cpu(), host[key], rtol=0, atol=0)


def test_views_share_memory_with_their_base():
    base = torch.zeros(4, 6, device="npu")
    for view in (base.view(24), base[1:3, 2:], base.t(), base.unsqueeze(0), base.view(torch.int32)):
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    base.t()[2].fill_(5)
    assert base[:, 2].tolist() == [5.0] * 4
    base.view(-1)[::7] = 1
    assert base.cpu().view(-1)[::7].eq(1).all()


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (7, 5)])
def test_out_is_resized_or_written_in_place(shape):
    x = torch.randn(2, 3, device="npu")
    out = torch.empty(shape, device="npu")
    alias = out[:1]
    address = out.data_ptr()
    result = torch.add(x, x, out=out)
    assert result is out
    torch.testing.assert_close(out.cpu(), x.cpu() * 2, rtol=0, atol=0)
    if shape == (2, 3):
        assert out.data_ptr() == address
        torch.testing.assert_close(alias.cpu(), x.cpu()[:1] * 2, rtol=0, atol=0)
    x.add_(1)  # memory under `out` must still be sound
    torch.testing.assert_close((out + 0).cpu(), (x.cpu() - 1) * 2)


def test_out_of_a_view_leaves_the_rest_alone():
    whole = torch.zeros(3, 4, device="npu")
    torch.mul(torch.ones(4, device="npu"), 2, out=whole[1])
    assert whole.sum(1).tolist() == [0, 8, 0]


def test_resize_keeps_the_elements():
    tensor = torch.arange(4.0, device="npu")
    tensor.resize_(2, 3)
    assert tensor.view(-1)[:4].tolist() == [0, 1, 2, 3]
    assert tensor.isnan().sum().item() == 2  # the new elements are uninitialised
    tensor.resize_(2)
    assert tensor.tolist() == [0, 1]


def test_changing_data_changes_what_operations_see():
    parameter = torch.nn.Parameter(torch.arange(6.0, device="npu").view(2, 3))
    (parameter + 0).sum()
    parameter.data = parameter.data.t()
    torch.testing.assert_close((parameter * 2).cpu(), parameter.cpu() * 2)
    assert parameter.shape == (3, 2)


def test_an_item_is_assigned():
    table = torch.zeros(3, 4, dtype=torch.int32, device="npu")
    table[1, 2] = 7
    table[0] = torch.arange(4, device="npu")
    table[2, :2] = torch.tensor([1, 2])
    assert table.tolist() == [[0, 1, 2, 3], [0, 0, 7, 0], [1, 2, 0, 0]]


def test_masks_and_host_indices():
    x = torch.randn(5, 4, device="npu")
    host = x.cpu()
    assert torch.equal(x[x > 0].cpu(), host[host > 0])
    assert torch.equal(x[torch.tensor([0, 3])].cpu(), host[[0, 3]])
    x[x < 0] = 0
    assert torch.equal(x.cpu(), host.clamp(min=0))


def test_conjugate_and_negative_views():
    z = torch.view_as_complex(torch.randn(3, 2, device="npu"))
    assert torch.equal((z.conj() * z).cpu(), z.cpu().conj() * z.cpu())
    assert torch.equal(z.conj().imag.cpu() + 0, z.cpu().conj().imag + 0)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: torch.mm(x, y.t()),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: x.add_(y),
        lambda x, y: y.add_(x),
        lambda x, y: torch.where(y > 0, x, x),
        lambda x, y: torch.nn.functional.embedding(y.abs().long().view(-1) % 2, x),
        lambda x, y: torch.add(x, x, out=y),
    ],
)
def test_host_and_device_tensors_do_not_mix(operation):
    x, y = torch.randn(2, 3, device="npu"), torch.randn(2, 3)
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device"
    ) as error:
        operation(x, y)
    assert error.value.code == "AI-DEV-004"


def test_two_devices_do_not_mix_but_copy():
    x = torch.randn(3, device="npu:0")
    with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
        x + x.to("npu:1")
    y = torch.empty(3, device="npu:1")
    y.copy_(x)
    assert torch.equal(y.cpu(), x.cpu()) and y.device.index == 1


def test_host_scalars_mix():
    x = torch.randn(3, device="npu")
    assert torch.equal((x * torch.tensor(2.0)).cpu(), x.cpu() * 2)
    assert (x.half() * torch.tensor(2.0)).dtype == torch.float16


def test_a_custom_operation_without_npu_implementation_is_refused():
    library = torch.library.Library("sim_device_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    with pytest.raises(NotImplementedError, match="'npu' backend"):
        torch.ops.sim_device_test.twice(torch.ones(2, device="npu"))
    library.impl("twice", lambda x: x * 2, "PrivateUse1")
    assert torch.ops.sim_device_test.twice(torch.ones(2, device="npu")).tolist() == [2, 2]


def _complex(*shape):
    z = torch.randn(*shape, dtype=torch.complex64)
    return z, z.npu()


@pytest.mark.parametrize(
    "operation",
    [
        lambda z: z.conj() @ z.mT,
        lambda z: torch.bmm(z[None].conj(), z.mH[None]),
        lambda z: torch.vdot(z[0], z[1].conj()),
        lambda z: torch.addmm(z @ z.mT, z.conj(), z.mH),
        lambda z: z.conj().imag @ z.real.mT,
        lambda z: torch.linalg.solve_triangular(z[:, :3].conj(), z[:, 3:], upper=True),
        lambda z: torch.cat([z.conj(), z.imag.neg().to(z.dtype)]),
    ],
)
def test_products_see_lazy_conjugation_and_negation(operation):
    """PyTorch hands conjugate views to these as they are."""
    host, device = _complex(3, 6)
    torch.testing.assert_close(operation(device).cpu(), operation(host))
    graph, result = capture(lambda: operation(device))
    fresh, _ = _complex(3, 6)
    device.copy_(fresh)
    graph.replay()
    torch.testing.assert_close(result.cpu(), operation(fresh))


@pytest.mark.parametrize("captured", [False, True])
def test_operations_that_update_and_return_new_tensors(captured):
    x, statistics = torch.randn(6, 4), (torch.zeros(4), torch.ones(4))

    def normalise(x, mean, variance):
        return torch._native_batch_norm_legit(x, None, None, mean, variance, True, 0.1, 1e-5)

    npu = [t.npu() for t in (x, *statistics)]
    if captured:
        graph, results = capture(lambda: normalise(*npu))
        assert torch.equal(npu[1].cpu(), torch.zeros(4))
        graph.replay()
    else:
        results = normalise(*npu)
    for actual, expected in zip(results, normalise(x, *statistics)):
        torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(npu[1].cpu(), statistics[0])
    torch.testing.assert_close(npu[2].cpu(), statistics[1])


def test_random_leaky_relu():
    assert torch.nn.functional.rrelu(-torch.ones(3, device="npu")).lt(0).all()


def test_capture_refuses_what_looks_at_values():
    x = torch.eye(3, device="npu")
    with pytest.raises(RuntimeError, match="AI-CAP-001"):
        capture(lambda: torch.linalg.inv(x))
    graph, _ = capture(lambda: torch._assert_async(x.sum() > 0))
    graph.replay()


def test_derivative_of_sign():
    x = torch.randn(3, device="npu", requires_grad=True)
    torch.sgn(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_a_host_scalar_is_captured_by_value():
    factor, x = torch.tensor(2.0), torch.ones(3, device="npu")
    graph, (product, total) = capture(lambda: (x * factor, x.clone().add_(factor)))
    factor.fill_(10.0)
    graph.replay()
    assert product.tolist() == [2.0] * 3 and total.tolist() == [3.0] * 3


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.copy_(x[:, :2]),
        lambda x: x.add_(x[:2]),
        lambda x: x.copy_(torch.zeros(5, device="npu")),
        lambda x: x.index_copy_(0, torch.zeros(1, dtype=torch.int64, device="npu"), x[:2]),
        lambda x: torch.add(x, x[:2], out=x),
    ],
)
def test_capture_refuses_operands_that_do_not_fit(operation):
    x = torch.zeros(3, 4, device="npu")
    with pytest.raises((RuntimeError, IndexError, TypeError)) as eager:
        operation(x)
    with pytest.raises(type(eager.value)):
        capture(lambda: operation(x))


def test_captured_copies_still_broadcast():
    x, row, one = torch.zeros(3, 4, device="npu"), torch.ones(4, device="npu"), torch.tensor(2.0)
    graph, _ = capture(lambda: (x.copy_(row), x[:, :1].fill_(one), x[:, 1:].add_(row[:1])))
    graph.replay()
    assert x.tolist() == [[2.0, 2.0, 2.0, 2.0]] * 3


@pytest.mark.parametrize("size", [5, 2000])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x, y: F.mse_loss(x, y),
        lambda x, y: F.smooth_l1_loss(x, y, reduction="sum"),
        lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
        lambda x, y: F.layer_norm(x.half(), x.shape).float(),
        lambda x, y: F.batch_norm(x.half()[None, None], y[:1].half(), y[:1].half().abs()).float(),
        lambda x, y: F.group_norm(x[None, None], 1),
        lambda x, y: torch.var_mean(x)[0] + torch.std_mean(y)[1],
        lambda x, y: F.cross_entropy(x[None], y[None].softmax(-1)),
        lambda x, y: F.embedding_bag(x.abs().long()[None] % 5, y[:5, None]),
    ],
)
def test_replay_writes_the_memory_that_capture_gave_out(operation, size):
    """Kernels that use their output for intermediate results would move it."""
    x, y = torch.randn(size), torch.randn(size)
    nx, ny = x.npu(), y.npu()
    graph, result = capture(lambda: operation(nx, ny))
    address = result.data_ptr()
    for _ in range(2):
        graph.replay()
        torch.testing.assert_close(result.cpu(), operation(x, y))
        x, y = torch.randn(size), torch.randn(size)
        nx.copy_(x)
        ny.copy_(y)
    assert result.untyped_storage().npu_block.base.data_ptr() == result.data_ptr() == address
