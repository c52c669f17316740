"""Random cases of each CUDA kernel beside its reference; run as a script for Triton's interpreter.

Strided inputs, tails, rows without a slot, empty sequences, NaN where nothing may be read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from kernels_npu import cuda, reference


def kernel(name: str, *args: object) -> Callable[..., torch.Tensor]:
    found = cuda.implementation(name, args)
    assert found is not None
    return found


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    # The same float32 computation in another order, rounded once: one unit in the last place.
    ulp = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(found, expected, rtol=2 * ulp, atol=4 * ulp)


def random(device: torch.device, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device).to(dtype)


def rms_norm(device: torch.device, dtype: torch.dtype) -> None:
    for rows, hidden in ((1, 64), (3, 100), (5, 3584), (0, 64)):
        x = random(device, dtype, rows, 2 * hidden)[:, hidden:]  # rows apart
        weight = random(device, dtype, hidden)
        close(kernel("rms_norm", x)(x, weight, 1e-6), reference.rms_norm(x, weight, 1e-6))


def add_rms_norm(device: torch.device, dtype: torch.dtype) -> None:
    for rows, hidden in ((1, 64), (3, 100), (5, 3584), (0, 64)):
        x, residual = (random(device, dtype, rows, hidden) for _ in range(2))
        weight, copy = random(device, dtype, hidden), residual.clone()
        close(
            kernel("add_rms_norm", x)(x, residual, weight, 1e-6),
            reference.add_rms_norm(x, copy, weight, 1e-6),
        )
        assert torch.equal(residual, copy)


def fused_add_rms_norm(device: torch.device, dtype: torch.dtype) -> None:
    for rows, hidden in ((1, 64), (3, 100), (5, 3584), (0, 64)):
        x = random(device, dtype, rows, hidden)
        residual = random(device, dtype, rows, 2 * hidden)[:, hidden:]  # rows apart
        weight, copy = random(device, dtype, hidden), residual.clone()
        args = (x, residual, weight, 1e-6)
        found = kernel("fused_add_rms_norm", *args)(*args)
        for got, expected in zip(found, reference.fused_add_rms_norm(*args)):
            close(got, expected)
        assert torch.equal(residual, copy)


def silu_and_mul(device: torch.device, dtype: torch.dtype) -> None:
    for rows, inter in ((1, 64), (3, 1100), (0, 64)):
        x = random(device, dtype, rows, 2 * inter)
        close(kernel("silu_and_mul", x)(x), reference.silu_and_mul(x))


def parts(
    fused: torch.Tensor, q_heads: int, kv_heads: int, dim: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sizes = [q_heads * dim, kv_heads * dim, kv_heads * dim]
    query, key, value = (
        part.unflatten(1, (size // dim, dim)) for part, size in zip(fused.split(sizes, -1), sizes)
    )
    return query, key, value


def rotary(device: torch.device, dtype: torch.dtype) -> None:
    for tokens, q_heads, kv_heads, dim, rotated, interleaved in (
        (3, 7, 1, 64, 64, False),
        (2, 5, 2, 80, 32, True),
        (1, 28, 4, 128, 128, False),
        (0, 4, 4, 64, 64, False),
    ):
        fused = random(device, dtype, tokens, (q_heads + 2 * kv_heads) * dim)
        copy = fused.clone()
        positions = torch.randint(0, 50, (tokens,), device=device)
        angles = torch.randn(64, rotated, device=device)
        query, key, _ = parts(fused, q_heads, kv_heads, dim)
        kernel("rotary_embedding", query)(positions, query, key, angles, interleaved)
        query, key, _ = parts(copy, q_heads, kv_heads, dim)
        reference.rotary_embedding(positions, query, key, angles, interleaved)
        close(fused, copy)


def split_norm_rope(device: torch.device, dtype: torch.dtype) -> None:
    for tokens, q_heads, kv_heads, dim, rotated in (
        (3, 7, 1, 64, 64),
        (2, 5, 2, 80, 32),
        (1, 16, 8, 128, 128),
        (0, 4, 4, 64, 64),
    ):
        width = (q_heads + 2 * kv_heads) * dim
        qkv = random(device, dtype, tokens, 2 * width)[:, width:]  # rows apart
        weights = (random(device, dtype, dim) for _ in range(2))
        positions = torch.randint(0, 50, (tokens,), device=device)
        angles = torch.randn(64, rotated, device=device)
        args = (qkv, *weights, 1e-6, positions, angles, q_heads, kv_heads)
        found = kernel("split_qkv_rmsnorm_rope", qkv)(*args)
        for got, expected in zip(found, reference.split_qkv_rmsnorm_rope(*args)):
            assert got.is_contiguous()
            close(got, expected)


def cache(device: torch.device, dtype: torch.dtype) -> None:
    for kv_heads, dim in ((1, 64), (3, 80)):
        fused = random(device, dtype, 3, (5 + 2 * kv_heads) * dim)
        _, key, value = parts(fused, 5, kv_heads, dim)
        slots = torch.tensor([17, -1, 33], dtype=torch.int32, device=device)
        caches = [random(device, dtype, 3, 16, kv_heads, dim) for _ in range(2)]
        copies = [c.clone() for c in caches]
        kernel("reshape_and_cache", key)(key, value, *caches, slots)
        reference.reshape_and_cache(key, value, *copies, slots)
        assert all(torch.equal(a, b) for a, b in zip(caches, copies))


def attention(device: torch.device, dtype: torch.dtype) -> None:
    for batch, q_heads, kv_heads, dim, block, blocks, window, cap in (
        (2, 7, 1, 64, 16, 5, 0, 0.0),
        (3, 8, 2, 80, 128, 3, 100, 0.0),
        (2, 28, 4, 128, 128, 2, 0, 30.0),
        (1, 4, 4, 32, 16, 17, 37, 0.0),
        (2, 40, 1, 16, 8, 3, 5, 2.0),
        (140, 4, 4, 16, 16, 9, 0, 0.0),  # a program per sequence and head: nothing to merge
    ):
        num_blocks = batch * blocks + 2
        keys, values = (random(device, dtype, num_blocks, block, kv_heads, dim) for _ in range(2))
        table = torch.randperm(num_blocks, device=device)[: batch * blocks].reshape(batch, -1).int()
        lengths = torch.randint(1, blocks * block + 1, (batch,), device=device).int()
        if batch > 1:
            lengths[1] = 0
        for row, length in enumerate(lengths.tolist()):
            behind = torch.arange(length, blocks * block, device=device)
            for tensor in (keys, values):
                tensor[table[row, behind // block].long(), behind % block] = torch.nan
        args = (random(device, dtype, batch, q_heads, dim), keys, values, table, lengths)
        options = (dim**-0.5, window, cap)
        close(
            kernel("paged_decode_attention", *args)(*args, *options),
            reference.paged_decode_attention(*args, *options),
        )


CASES: dict[str, Callable[[torch.device, torch.dtype], None]] = {
    case.__name__: case
    for case in (
        add_rms_norm,
        attention,
        cache,
        fused_add_rms_norm,
        rms_norm,
        rotary,
        silu_and_mul,
        split_norm_rope,
    )
}

if __name__ == "__main__":
    torch.manual_seed(0)
    for case in CASES.values():
        case(torch.device("cpu"), torch.float16)
