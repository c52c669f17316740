"""Rotary kernel for pairs (i, i + rotary_dim / 2), the layout of NeoX, Llama and Qwen."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.dialect import T, tilelang
from kernels_npu.rotary.head_blocks import head_block

#: Bytes of the unified buffer per element of a tile of half heads: two inputs of 16 bits, six
#: float32 tiles and the compiler's scratch for a broadcast.
_BYTES_PER_ELEMENT = 2 * 2 + 6 * 4 + 1


@tilelang.jit(target="ascendc")
def half_split_kernel(
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    rotary_dim: int,
    dtype: str,
    cache_dtype: str,
    position_dtype: str,
    max_blocks: int,
):
    """Tokens are dealt to the vector cores; the heads of a token are rotated as one tile."""
    half = rotary_dim // 2
    q_block = head_block(q_heads, half, _BYTES_PER_ELEMENT)
    k_block = head_block(kv_heads, half, _BYTES_PER_ELEMENT)
    block = max(q_block, k_block)
    tokens = T.symbolic("tokens")
    max_position = T.symbolic("max_position")

    @T.macro
    def rotate(heads, token, first_head, count, x1_16, x2_16, x1, x2, by_cos, by_sin, t1, t2):
        last_head = first_head + count
        T.copy(heads[token, first_head:last_head, 0:half], x1_16[0:count, :])
        T.copy(heads[token, first_head:last_head, half:rotary_dim], x2_16[0:count, :])
        T.set_flag("mte2", "v", 1)
        T.wait_flag("mte2", "v", 1)
        T.tile.cast(x1, x1_16, "CAST_NONE", count * half)
        T.tile.cast(x2, x2_16, "CAST_NONE", count * half)
        T.tile.mul(t1[:count, :], x1[:count, :], by_sin[:count, :])
        T.tile.mul(t2[:count, :], x2[:count, :], by_sin[:count, :])
        T.tile.mul(x1[:count, :], x1[:count, :], by_cos[:count, :])
        T.tile.mul(x2[:count, :], x2[:count, :], by_cos[:count, :])
        T.tile.sub(x1[:count, :], x1[:count, :], t2[:count, :])
        T.tile.add(x2[:count, :], x2[:count, :], t1[:count, :])
        T.tile.cast(x1_16, x1, "CAST_RINT", count * half)
        T.tile.cast(x2_16, x2, "CAST_RINT", count * half)
        T.set_flag("v", "mte3", 1)
        T.wait_flag("v", "mte3", 1)
        T.copy(x1_16[0:count, :], heads[token, first_head:last_head, 0:half])
        T.copy(x2_16[0:count, :], heads[token, first_head:last_head, half:rotary_dim])
        # The next tile is loaded into the same buffers.
        T.set_flag("mte3", "mte2", 1)
        T.wait_flag("mte3", "mte2", 1)

    @T.prim_func
    def rotary_embedding(
        positions: T.Tensor([tokens], position_dtype),
        query: T.Tensor([tokens, q_heads, head_dim], dtype),
        key: T.Tensor([tokens, kv_heads, head_dim], dtype),
        cos_sin_cache: T.Tensor([max_position, rotary_dim], cache_dtype),
    ):
        with T.Kernel(
            T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks), is_npu=True
        ) as (cid, vid):
            angles_in = T.alloc_ub([2, half], cache_dtype)
            angles = T.alloc_ub([2, half], "float32")
            by_cos = T.alloc_ub([block, half], "float32")
            by_sin = T.alloc_ub([block, half], "float32")
            x1_16 = T.alloc_ub([block, half], dtype)
            x2_16 = T.alloc_ub([block, half], dtype)
            x1 = T.alloc_ub([block, half], "float32")
            x2 = T.alloc_ub([block, half], "float32")
            t1 = T.alloc_ub([block, half], "float32")
            t2 = T.alloc_ub([block, half], "float32")

            with T.Scope("V"):
                workers = 2 * T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks)
                worker = 2 * cid + vid
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
                    T.tile.broadcast(by_cos, angles[0, :])
                    T.tile.broadcast(by_sin, angles[1, :])
                    for b in T.serial(q_heads // q_block):
                        rotate(
                            query,
                            token,
                            b * q_block,
                            q_block,
                            x1_16,
                            x2_16,
                            x1,
                            x2,
                            by_cos,
                            by_sin,
                            t1,
                            t2,
                        )
                    for b in T.serial(kv_heads // k_block):
                        rotate(
                            key,
                            token,
                            b * k_block,
                            k_block,
                            x1_16,
                            x2_16,
                            x1,
                            x2,
                            by_cos,
                            by_sin,
                            t1,
                            t2,
                        )

    return rotary_embedding
