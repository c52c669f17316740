"""torch_npu's operators around attention in a serving host: norms, positions, cache, sampling."""

from __future__ import annotations

import pytest
import torch

from kernels_npu.sim.device.errors import DeviceError
from tests.kernels_npu.sim.device.conftest import capture

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def torch_npu():
    import torch_npu

    return torch_npu


def near(found, expected):
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(
        found.cpu().double(), expected.double(), rtol=4 * eps, atol=max(4 * eps, 2e-6)
    )


def norm_of(x, gamma, eps):
    rms = (x.double().square().flatten(-gamma.dim()).mean(-1) + eps).sqrt()
    rms = rms.reshape(*x.shape[: -gamma.dim()], *[1] * gamma.dim())
    return x.double() / rms * gamma.double(), 1 / rms


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, dims", [((5, 33), 1), ((2, 3, 7), 1), ((4, 3, 5), 2), ((0, 8), 1)])
def test_norms(torch_npu, dtype, shape, dims):
    x, r = torch.randn(2, *shape).to(dtype)
    gamma = torch.randn(shape[-dims:]).to(dtype)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), epsilon=1e-5)
    expected, scale = norm_of(x, gamma, 1e-5)
    near(y, expected)
    near(rstd, scale)
    assert rstd.dtype is torch.float32 and y.dtype is dtype
    y, rstd, total = torch_npu.npu_add_rms_norm(x.npu(), r.npu(), gamma.npu(), 1e-5)
    rounded = (x.double() + r.double()).to(dtype)
    assert torch.equal(total.cpu(), rounded)
    expected, scale = norm_of(rounded, gamma, 1e-5)
    near(y, expected)
    near(rstd, scale)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("rotary", [8, 6])
def test_rotary_embedding_turns_pairs_in_place(torch_npu, dtype, neox, rotary):
    tokens, size = 5, 8
    cache = torch.randn(50, rotary).to(dtype)
    positions = torch.randint(0, 50, (tokens,))
    query, key = torch.randn(tokens, 3 * size).to(dtype), torch.randn(tokens, size).to(dtype)
    on_device = query.npu(), key.npu()
    torch_npu._npu_rotary_embedding(positions.npu(), *on_device, size, cache.npu(), neox)
    cos, sin = cache[positions].double().chunk(2, -1)
    half = rotary // 2
    first = range(half) if neox else range(0, rotary, 2)
    for tensor, found in zip((query, key), on_device):
        expected = tensor.double().view(tokens, -1, size).clone()
        for pair, i in enumerate(first):
            j = i + half if neox else i + 1
            a, b = (tensor.double().view(tokens, -1, size)[..., n] for n in (i, j))
            c, s = cos[:, pair : pair + 1], sin[:, pair : pair + 1]
            expected[..., i], expected[..., j] = a * c - b * s, b * c + a * s
        near(found, expected.view(tensor.shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tokens_go_to_their_slots_and_padding_nowhere(torch_npu, dtype):
    blocks, block, heads, size = 3, 4, 2, 5
    key, value = torch.randn(2, 6, heads, size).to(dtype)
    caches = torch.randn(2, blocks, block, heads, size).to(dtype)
    slots = [11, -1, 0, 5, -1, 4]
    key_cache, value_cache = (c.npu() for c in caches)
    index = torch.tensor(slots, dtype=torch.int32).npu()
    arguments = {"key": key.npu(), "value": value.npu(), "slot_indices": index}
    arguments |= {"key_cache": key_cache, "value_cache": value_cache}
    graph, _ = capture(lambda: torch_npu._npu_reshape_and_cache(**arguments))
    assert torch.equal(key_cache.cpu(), caches[0])  # a capture writes nothing
    torch_npu._npu_reshape_and_cache(**arguments)
    expected = caches.clone()
    for token, slot in enumerate(slots):
        if slot >= 0:
            expected[0][slot // block, slot % block] = key[token]
            expected[1][slot // block, slot % block] = value[token]
    assert torch.equal(key_cache.cpu(), expected[0])
    assert torch.equal(value_cache.cpu(), expected[1])
    index.copy_(torch.tensor([-1, -1, -1, -1, 7, -1], dtype=torch.int32))
    graph.replay()  # slots are read at the replay
    expected[0][1, 3], expected[1][1, 3] = key[4], value[4]
    assert torch.equal(key_cache.cpu(), expected[0])
    assert torch.equal(value_cache.cpu(), expected[1])
    index.fill_(-1)
    graph.replay()
    assert torch.equal(key_cache.cpu(), expected[0])
    index[2] = blocks * block
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*slot 12 is behind the 12 slots"):
        torch_npu._npu_reshape_and_cache(**arguments)
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*6 keys, 6 values and 5 slots"):
        torch_npu._npu_reshape_and_cache(**arguments | {"slot_indices": index[:5]})
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*does not fit its cache"):
        torch_npu._npu_reshape_and_cache(**arguments | {"value": value[:, :1].npu()})
    other = torch.bfloat16 if dtype == torch.float16 else torch.float16
    with pytest.raises(DeviceError, match=rf"AI-DEV-015.*value_cache is {other}"):
        torch_npu._npu_reshape_and_cache(**arguments | {"value_cache": value_cache.to(other)})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("with_k, with_p", [(True, True), (True, False), (False, True)])
def test_what_a_row_does_not_sample_from_is_minus_infinity(torch_npu, dtype, with_k, with_p):
    rows, vocabulary = 6, 17
    logits = torch.randn(rows, vocabulary).to(dtype)
    k = torch.tensor([1, 2, 5, 17, 17, 3], dtype=torch.int32) if with_k else None
    p = torch.tensor([0.1, 0.9, 0.5, 1.0, 0.0, 0.7]) if with_p else None
    found = torch_npu.npu_top_k_top_p(
        logits.npu(), p=None if p is None else p.npu(), k=None if k is None else k.npu()
    ).cpu()
    for row in range(rows):
        order = logits[row].double().argsort(descending=True).tolist()
        kept = order[: int(k[row])] if with_k else order
        kept = [i for i in order if logits[row, i] >= logits[row, kept[-1]]]
        if with_p:
            weights = logits[row][kept].double().softmax(0).tolist()
            count = 1 + sum(sum(weights[: i + 1]) < p[row] - 1e-9 for i in range(len(kept) - 1))
            kept = kept[:count]
        expected = torch.full((vocabulary,), float("-inf")).to(dtype)
        expected[kept] = logits[row][kept]
        assert torch.equal(found[row], expected), row


def test_gradients_are_added_to_and_formats_keep_values(torch_npu):
    x, weight, total = torch.randn(3, 4).half(), torch.randn(3, 5).half(), torch.randn(4, 5)
    found = total.npu()
    torch_npu._npu_matmul_add_fp32(x.npu(), weight.npu(), found)
    near(found, total.double() + x.double().t() @ weight.double())
    cast = torch_npu.npu_format_cast(weight.npu(), 29)
    assert torch.equal(cast.cpu(), weight) and torch_npu.get_npu_format(cast) == 2


def test_fake_tensors_have_the_shapes_and_other_devices_are_refused(torch_npu):
    from torch._subclasses import FakeTensorMode

    x, gamma = torch.randn(3, 8).half().npu(), torch.randn(8).half().npu()
    real = torch_npu.npu_add_rms_norm(x, x, gamma)
    with FakeTensorMode() as mode:
        fakes = torch_npu.npu_add_rms_norm(*(mode.from_tensor(t) for t in (x, x, gamma)))
    for a, b in zip(real, fakes):
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    for arguments in ((x.cpu(), gamma.cpu()), (x, gamma.cpu())):
        with pytest.raises(DeviceError, match="AI-DEV-004"):
            torch_npu.npu_rms_norm(*arguments)
    with pytest.raises(DeviceError, match=r"AI-DEV-004.*npu:0.*npu:1"):
        torch_npu.npu_rms_norm(x, gamma.to("npu:1"))
