"""A projection split into q, k and v, with RMSNorm per head and rotary embedding of q and k."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
import functools
from typing import Any

import torch

from kernels_npu import arguments, reference, requirements
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.dialect import T, tilelang
from kernels_npu.launch import block_count, launch
from kernels_npu.normalization.common import BLOCKS
from kernels_npu.rotary import rotary_embedding
from kernels_npu.rotary.head_blocks import head_block
from kernels_npu.spec import ITEMSIZE, OpSpec, Tolerance, Traffic, Workload


def _bytes_per_head(half: int, rest: int) -> int:
    """Unified buffer that a head of a tile takes, with the scratch of reductions and broadcasts."""
    rotated = 2 * 2 + 8 * 4  # the input's two halves in 16 bits, eight float32 tiles
    passed_on = 2 + 3 * 4
    return rotated * half + passed_on * rest + 5 * max(half, rest) + 3 * 4


@tilelang.jit(out_idx=[5, 6, 7], target="ascendc")
def split_qkv_rmsnorm_rope_kernel(
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    rotary_dim: int,
    eps: float,
    dtype: str,
    cache_dtype: str,
    position_dtype: str,
    max_blocks: int,
):
    """As `half_split_kernel`, with each head divided by its root mean square before.

    Norm weights and angles are multiplied once for all heads of a token. With x the halves of a
    head times its scale: `out1 = x1 (w1 cos) - x2 (w2 sin)`, `out2 = x2 (w2 cos) + x1 (w1 sin)`.
    """
    half, rest = rotary_dim // 2, head_dim - rotary_dim
    rest_width = max(rest, 16)  # a buffer has a size, also where heads have no rest
    q_block = head_block(q_heads, 1, _bytes_per_head(half, rest_width))
    kv_block = head_block(kv_heads, 1, _bytes_per_head(half, rest_width))
    block = max(q_block, kv_block)
    tokens = T.symbolic("tokens")
    max_position = T.symbolic("max_position")

    @T.macro
    def load(qkv, token, first, count, x_16, rest_16):
        last = first + count
        T.copy(qkv[token, first:last, 0:half], x_16[0, 0:count, :])
        T.copy(qkv[token, first:last, half:rotary_dim], x_16[1, 0:count, :])
        if rest > 0:
            T.copy(qkv[token, first:last, rotary_dim:head_dim], rest_16[0:count, :])

    @T.macro
    def store(out, token, first, count, x_16, rest_16):
        last = first + count
        T.copy(x_16[0, 0:count, :], out[token, first:last, 0:half])
        T.copy(x_16[1, 0:count, :], out[token, first:last, half:rotary_dim])
        if rest > 0:
            T.copy(rest_16[0:count, :], out[token, first:last, rotary_dim:head_dim])
        # The next tile is loaded into the same buffers.
        T.set_flag("mte3", "mte2", 1)
        T.wait_flag("mte3", "mte2", 1)

    @T.macro
    def load_weight(weight, kind, w_16, w_rest_16):
        T.copy(weight[0:half], w_16[2 * kind, :])
        T.copy(weight[half:rotary_dim], w_16[2 * kind + 1, :])
        if rest > 0:
            T.copy(weight[rotary_dim:head_dim], w_rest_16[kind, :])

    @T.macro
    def combine(kind, weights, rest_weights, angles, row, count, w, w_rest):
        """Tiles of w1 cos, w2 sin, w2 cos, w1 sin, and the weight of what is not rotated."""
        T.tile.mul(row, angles[0, :], weights[2 * kind, :])
        T.tile.broadcast(w[0, :count, :], row)
        T.tile.mul(row, angles[1, :], weights[2 * kind + 1, :])
        T.tile.broadcast(w[1, :count, :], row)
        T.tile.mul(row, angles[0, :], weights[2 * kind + 1, :])
        T.tile.broadcast(w[2, :count, :], row)
        T.tile.mul(row, angles[1, :], weights[2 * kind, :])
        T.tile.broadcast(w[3, :count, :], row)
        if rest > 0:
            T.tile.broadcast(w_rest[:count, :], rest_weights[kind, :])

    @T.macro
    def normalise(count, x_16, rest_16, x, t, x_rest, t_rest, scale, part, one):
        T.tile.cast(x[0, :count, :], x_16[0, :count, :], "CAST_NONE", count * half)
        T.tile.cast(x[1, :count, :], x_16[1, :count, :], "CAST_NONE", count * half)
        T.tile.mul(t[0, :count, :], x[0, :count, :], x[0, :count, :])
        T.tile.mul_add_dst(t[0, :count, :], x[1, :count, :], x[1, :count, :])
        T.reduce_sum(t[0, :count, :], scale[:count, :], dim=-1)
        if rest > 0:
            T.tile.cast(x_rest, rest_16, "CAST_NONE", count * rest)
            T.tile.mul(t_rest[:count, :], x_rest[:count, :], x_rest[:count, :])
            T.reduce_sum(t_rest[:count, :], part[:count, :], dim=-1)
            T.tile.add(scale[:count, :], scale[:count, :], part[:count, :])
        T.tile.mul(scale[:count, :], scale[:count, :], 1.0 / head_dim)
        T.tile.add(scale[:count, :], scale[:count, :], eps)
        # The vector unit's rsqrt is only an estimate.
        T.tile.sqrt(scale[:count, :], scale[:count, :])
        T.tile.div(scale[:count, :], one[:count, :], scale[:count, :])
        T.tile.broadcast(t[0, :count, :], scale[:count, :])
        T.tile.mul(x[0, :count, :], x[0, :count, :], t[0, :count, :])
        T.tile.mul(x[1, :count, :], x[1, :count, :], t[0, :count, :])
        if rest > 0:
            T.tile.broadcast(t_rest[:count, :], scale[:count, :])
            T.tile.mul(x_rest[:count, :], x_rest[:count, :], t_rest[:count, :])

    @T.macro
    def rotate(count, x_16, rest_16, x, t, x_rest, w, w_rest):
        T.tile.mul(t[0, :count, :], x[0, :count, :], w[3, :count, :])
        T.tile.mul(t[1, :count, :], x[1, :count, :], w[1, :count, :])
        T.tile.mul(x[0, :count, :], x[0, :count, :], w[0, :count, :])
        T.tile.mul(x[1, :count, :], x[1, :count, :], w[2, :count, :])
        T.tile.sub(x[0, :count, :], x[0, :count, :], t[1, :count, :])
        T.tile.add(x[1, :count, :], x[1, :count, :], t[0, :count, :])
        T.tile.cast(x_16[0, :count, :], x[0, :count, :], "CAST_RINT", count * half)
        T.tile.cast(x_16[1, :count, :], x[1, :count, :], "CAST_RINT", count * half)
        if rest > 0:
            T.tile.mul(x_rest[:count, :], x_rest[:count, :], w_rest[:count, :])
            T.tile.cast(rest_16, x_rest, "CAST_RINT", count * rest)

    @T.macro
    def heads_of(
        qkv, first, out, heads, count, token, w, w_rest, x_16, rest_16, x, t, x_rest, t_rest,
        scale, part, one,
    ):  # fmt: skip
        for b in T.serial(heads // count):
            load(qkv, token, first + b * count, count, x_16, rest_16)
            T.set_flag("mte2", "v", 1)
            T.wait_flag("mte2", "v", 1)
            normalise(count, x_16, rest_16, x, t, x_rest, t_rest, scale, part, one)
            rotate(count, x_16, rest_16, x, t, x_rest, w, w_rest)
            T.set_flag("v", "mte3", 1)
            T.wait_flag("v", "mte3", 1)
            store(out, token, b * count, count, x_16, rest_16)

    @T.prim_func
    def split_qkv_rmsnorm_rope(
        qkv: T.Tensor([tokens, q_heads + 2 * kv_heads, head_dim], dtype),
        q_weight: T.Tensor([head_dim], dtype),
        k_weight: T.Tensor([head_dim], dtype),
        positions: T.Tensor([tokens], position_dtype),
        cos_sin_cache: T.Tensor([max_position, rotary_dim], cache_dtype),
        query: T.Tensor([tokens, q_heads, head_dim], dtype),
        key: T.Tensor([tokens, kv_heads, head_dim], dtype),
        value: T.Tensor([tokens, kv_heads, head_dim], dtype),
    ):
        with T.Kernel(
            T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks), is_npu=True
        ) as (cid, vid):
            weights_16 = T.alloc_ub([4, half], dtype)
            weights = T.alloc_ub([4, half], "float32")
            rest_weights_16 = T.alloc_ub([2, rest_width], dtype)
            rest_weights = T.alloc_ub([2, rest_width], "float32")
            angles_in = T.alloc_ub([2, half], cache_dtype)
            angles = T.alloc_ub([2, half], "float32")
            row = T.alloc_ub([1, half], "float32")
            w = T.alloc_ub([4, block, half], "float32")
            x_16 = T.alloc_ub([2, block, half], dtype)
            x = T.alloc_ub([2, block, half], "float32")
            t = T.alloc_ub([2, block, half], "float32")
            w_rest = T.alloc_ub([block, rest_width], "float32")
            rest_16 = T.alloc_ub([block, rest_width], dtype)
            x_rest = T.alloc_ub([block, rest_width], "float32")
            t_rest = T.alloc_ub([block, rest_width], "float32")
            scale = T.alloc_ub([block, 1], "float32")
            part = T.alloc_ub([block, 1], "float32")
            one = T.alloc_ub([block, 1], "float32")

            with T.Scope("V"):
                workers = 2 * T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks)
                worker = 2 * cid + vid
                if worker < tokens:
                    T.tile.fill(one, 1.0)
                    load_weight(q_weight, 0, weights_16, rest_weights_16)
                    load_weight(k_weight, 1, weights_16, rest_weights_16)
                    T.set_flag("mte2", "v", 2)
                    T.wait_flag("mte2", "v", 2)
                    T.tile.cast(weights, weights_16, "CAST_NONE", 4 * half)
                    if rest > 0:
                        T.tile.cast(rest_weights, rest_weights_16, "CAST_NONE", 2 * rest)
                for n in T.serial(T.ceildiv(tokens - worker, workers)):
                    token = worker + n * workers
                    position = T.cast(positions[token], "int32")
                    # Free: the fence after the previous token's last tile follows its last use.
                    T.copy(cos_sin_cache[position, 0:half], angles_in[0, :])
                    T.copy(cos_sin_cache[position, half:rotary_dim], angles_in[1, :])
                    T.set_flag("mte2", "v", 2)
                    T.wait_flag("mte2", "v", 2)
                    if cache_dtype == "float32":
                        T.copy(angles_in, angles)
                    else:
                        T.tile.cast(angles, angles_in, "CAST_NONE", rotary_dim)
                    combine(0, weights, rest_weights, angles, row, q_block, w, w_rest)
                    heads_of(
                        qkv, 0, query, q_heads, q_block, token, w, w_rest, x_16, rest_16, x, t,
                        x_rest, t_rest, scale, part, one,
                    )  # fmt: skip
                    combine(1, weights, rest_weights, angles, row, kv_block, w, w_rest)
                    heads_of(
                        qkv, q_heads, key, kv_heads, kv_block, token, w, w_rest, x_16, rest_16, x,
                        t, x_rest, t_rest, scale, part, one,
                    )  # fmt: skip
                    for b in T.serial(kv_heads // kv_block):
                        first = q_heads + kv_heads + b * kv_block
                        load(qkv, token, first, kv_block, x_16, rest_16)
                        T.set_flag("mte2", "mte3", 1)
                        T.wait_flag("mte2", "mte3", 1)
                        store(value, token, b * kv_block, kv_block, x_16, rest_16)

    return split_qkv_rmsnorm_rope


_compiled = functools.cache(split_qkv_rmsnorm_rope_kernel)


def split_qkv_rmsnorm_rope(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    num_q_heads: int,
    num_kv_heads: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries and keys normalised per head and rotated, values as they are; rounded once.

    Args:
        qkv: `[tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]` float16 or bfloat16,
            contiguous, not changed; 0 tokens launch nothing.
        q_weight, k_weight: `[head_dim]` of qkv's dtype, a multiple of 16 up to 256.
        eps: not negative.
        positions: `[tokens]` int32 or int64, each below max_position; read on the device.
        cos_sin_cache: `[max_position, rotary_dim]` of qkv's dtype or float32: cosines, then sines.
            The first rotary_dim elements of a head are rotated, as pairs (i, i + rotary_dim / 2).

    Returns:
        query `[tokens, num_q_heads * head_dim]`, key and value `[tokens, num_kv_heads * head_dim]`.

    Raises:
        UsageError: AI-OP-001 to AI-OP-005. UnsupportedError: AI-OP-006 for a rotary_dim that is not
            a multiple of 32.
    """
    check(qkv, q_weight, k_weight, eps, positions, cos_sin_cache, num_q_heads, num_kv_heads)
    tokens, head_dim = qkv.shape[0], q_weight.shape[0]
    if tokens == 0:
        counts = (num_q_heads, num_kv_heads, num_kv_heads)
        query, key, value = (qkv.new_empty(0, count * head_dim) for count in counts)
        return query, key, value
    kernel = _compiled(
        num_q_heads,
        num_kv_heads,
        head_dim,
        cos_sin_cache.shape[1],
        eps,
        dialect_dtype(qkv.dtype),
        dialect_dtype(cos_sin_cache.dtype),
        dialect_dtype(positions.dtype),
        block_count(qkv.device),
    )
    heads = qkv.view(tokens, -1, head_dim)
    query, key, value = launch(kernel, heads, q_weight, k_weight, positions, cos_sin_cache)
    return query.view(tokens, -1), key.view(tokens, -1), value.view(tokens, -1)


def check(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    num_q_heads: int,
    num_kv_heads: int,
) -> None:
    """Refuse what the kernel would misread."""
    op = "split_qkv_rmsnorm_rope"
    given = (qkv, q_weight, k_weight, eps, positions, cos_sin_cache, num_q_heads, num_kv_heads)
    require_dtype(op, "qkv", qkv, *KERNEL_DTYPES)
    arguments.split_qkv_rmsnorm_rope(*given)
    require_together(
        op,
        qkv=qkv,
        q_weight=q_weight,
        k_weight=k_weight,
        positions=positions,
        cos_sin_cache=cos_sin_cache,
    )
    requirements.split_qkv_rmsnorm_rope(*given)


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """A projection of unit variance; positions and angles as for `rotary_embedding`."""
    q_heads, kv_heads, head_dim = workload["q_heads"], workload["kv_heads"], workload["head_dim"]
    rotary = rotary_embedding.make_inputs(workload, dtype, device, generator)
    qkv = torch.randn(workload["tokens"], (q_heads + 2 * kv_heads) * head_dim, generator=generator)
    q_weight, k_weight = 1 + 0.25 * torch.randn(2, head_dim, generator=generator)
    return {
        "qkv": qkv.to(dtype).to(device),
        "q_weight": q_weight.to(dtype).to(device),
        "k_weight": k_weight.to(dtype).to(device),
        "eps": 1e-6,
        "positions": rotary["positions"],
        "cos_sin_cache": rotary["cos_sin_cache"],
        "num_q_heads": q_heads,
        "num_kv_heads": kv_heads,
    }


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """Each element once in and once out; weights once per vector core that has a token."""
    tokens, head_dim, size = workload["tokens"], workload["head_dim"], ITEMSIZE[dtype]
    heads = {"query": workload["q_heads"], "key": workload["kv_heads"]}
    heads["value"] = heads["key"]
    cores = min(tokens, 2 * workload.get("max_blocks", BLOCKS))
    rotary = rotary_embedding.traffic(workload, dtype)
    return {
        "qkv": Traffic(read=tokens * sum(heads.values()) * head_dim * size),
        "q_weight": Traffic(read=cores * head_dim * size),
        "k_weight": Traffic(read=cores * head_dim * size),
        "positions": rotary["positions"],
        "cos_sin_cache": rotary["cos_sin_cache"],
        **{
            name: Traffic(written=tokens * count * head_dim * size) for name, count in heads.items()
        },
    }


def flops(workload: Workload) -> int:
    """Per head of q and k: 4 operations per element and 4 for the scale, 3 per rotated element."""
    head_dim = workload["head_dim"]
    heads: int = workload["tokens"] * (workload["q_heads"] + workload["kv_heads"])
    return heads * int(4 * head_dim + 4 + 3 * workload.get("rotary_dim", head_dim))


_MODELS = {"qwen3-0.6b": (16, 8, 128), "qwen3-8b": (32, 8, 128), "qwen3-32b": (64, 8, 128)}

SPEC = OpSpec(
    name="split_qkv_rmsnorm_rope",
    workloads=tuple(
        Workload(
            name=f"{model}-{phase}",
            dims={"tokens": tokens, "q_heads": q, "kv_heads": kv, "head_dim": d},
        )
        for model, (q, kv, d) in _MODELS.items()
        for phase, tokens in {"decode-1": 1, "decode-32": 32}.items()
    ),
    make_inputs=make_inputs,
    reference=reference.split_qkv_rmsnorm_rope,
    traffic=traffic,
    flops=flops,
    # A rotated element is a difference that may cancel: float32's error in its terms remains.
    tolerance={
        "float16": Tolerance(atol=4e-6, rtol=2**-10, reason="a rounding of 2^-11 on either side"),
        "bfloat16": Tolerance(atol=4e-6, rtol=2**-7, reason="a rounding of 2^-8 on either side"),
    },
    results=("query", "key", "value"),
)
