"""Rotary kernel for pairs (2i, 2i + 1), the layout of GPT-J and GLM."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.dialect import T, tilelang
from kernels_npu.rotary.head_blocks import head_block

#: Bytes of the unified buffer per element of a tile of heads: one input of 16 bits, four float32
#: tiles, the offsets of the swap with their scratch, and the compiler's scratch for a broadcast.
_BYTES_PER_ELEMENT = 2 + 4 * 4 + 3 * 4 + 1


@tilelang.jit(target="ascendc")
def interleaved_kernel(
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    rotary_dim: int,
    dtype: str,
    cache_dtype: str,
    position_dtype: str,
    max_blocks: int,
):
    """`x * cos + swapped(x) * (-sin, sin)`, where `swapped` exchanges the elements of each pair."""
    q_block = head_block(q_heads, rotary_dim, _BYTES_PER_ELEMENT)
    k_block = head_block(kv_heads, rotary_dim, _BYTES_PER_ELEMENT)
    block = max(q_block, k_block)
    elements = block * rotary_dim
    tokens = T.symbolic("tokens")
    max_position = T.symbolic("max_position")

    @T.macro
    def rotate(heads, token, first_head, count, x_16, x, swapped, swap, by_cos, by_sin):
        last_head = first_head + count
        T.copy(heads[token, first_head:last_head, 0:rotary_dim], x_16[0:count, :])
        T.set_flag("mte2", "v", 1)
        T.wait_flag("mte2", "v", 1)
        T.tile.cast(x, x_16, "CAST_NONE", count * rotary_dim)
        T.tile.gather(swapped[:count, :], x[:count, :], swap[:count, :], 0)
        T.tile.mul(x[:count, :], x[:count, :], by_cos[:count, :])
        T.tile.mul(swapped[:count, :], swapped[:count, :], by_sin[:count, :])
        T.tile.add(x[:count, :], x[:count, :], swapped[:count, :])
        T.tile.cast(x_16, x, "CAST_RINT", count * rotary_dim)
        T.set_flag("v", "mte3", 1)
        T.wait_flag("v", "mte3", 1)
        T.copy(x_16[0:count, :], heads[token, first_head:last_head, 0:rotary_dim])
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
            angles_in = T.alloc_ub([1, rotary_dim], cache_dtype)
            angles = T.alloc_ub([1, rotary_dim], "float32")
            row = T.alloc_ub([1, rotary_dim], "float32")
            sign = T.alloc_ub([1, rotary_dim], "float32")
            cos_at_i = T.alloc_ub([1, rotary_dim], "int32")
            sin_at_i = T.alloc_ub([1, rotary_dim], "int32")
            cos_at = T.alloc_ub([1, rotary_dim], "uint32")
            sin_at = T.alloc_ub([1, rotary_dim], "uint32")
            index = T.alloc_ub([block, rotary_dim], "int32")
            swap_i = T.alloc_ub([block, rotary_dim], "int32")
            swap = T.alloc_ub([block, rotary_dim], "uint32")
            by_cos = T.alloc_ub([block, rotary_dim], "float32")
            by_sin = T.alloc_ub([block, rotary_dim], "float32")
            x_16 = T.alloc_ub([block, rotary_dim], dtype)
            x = T.alloc_ub([block, rotary_dim], "float32")
            swapped = T.alloc_ub([block, rotary_dim], "float32")

            with T.Scope("V"):
                # Byte offsets for the gathers. With i the element and h = i // 2 its pair:
                # swap: 4 * (i + 1 - 2 * (i - 2h)) = 4 * (4h + 1 - i); cosine 4h;
                # sine 4h + 2 * rotary_dim.
                T.tile.createvecindex(index, 0)
                T.tile.bitwise_rshift(swap_i, index, 1)
                T.tile.mul(swap_i, swap_i, 4)
                T.copy(swap_i[0:1, :], cos_at_i)
                T.tile.add(sin_at_i, cos_at_i, 2 * rotary_dim)
                T.tile.sub(swap_i, swap_i, index)
                T.tile.add(swap_i, swap_i, 1)
                T.tile.mul(swap_i, swap_i, 4)
                # The sine's sign: -1 for the first of a pair, 1 for the second: 2 * (i - 2h) - 1.
                T.tile.mul(index, index, 2)
                T.tile.sub(index[:1, :], index[:1, :], cos_at_i)
                T.tile.cast(sign, index, "CAST_NONE", rotary_dim)
                T.tile.add(sign, sign, -1.0)
                T.reinterpretcast(cos_at, cos_at_i, "uint32_t")
                T.reinterpretcast(sin_at, sin_at_i, "uint32_t")
                T.reinterpretcast(swap, swap_i, "uint32_t")

                workers = 2 * T.Select(tokens < 2 * max_blocks, T.ceildiv(tokens, 2), max_blocks)
                worker = 2 * cid + vid
                for n in T.serial(T.ceildiv(tokens - worker, workers)):
                    token = worker + n * workers
                    position = T.cast(positions[token], "int32")
                    # Free: the fence after the previous token's last tile follows its last use.
                    T.copy(cos_sin_cache[position, 0:rotary_dim], angles_in[0, :])
                    T.set_flag("mte2", "v", 2)
                    T.wait_flag("mte2", "v", 2)
                    if cache_dtype == "float32":
                        T.copy(angles_in, angles)
                    else:
                        T.tile.cast(angles, angles_in, "CAST_NONE", rotary_dim)
                    T.tile.gather(row, angles, cos_at, 0)
                    T.tile.broadcast(by_cos, row)
                    T.tile.gather(row, angles, sin_at, 0)
                    T.tile.mul(row, row, sign)
                    T.tile.broadcast(by_sin, row)
                    for b in T.serial(q_heads // q_block):
                        rotate(
                            query,
                            token,
                            b * q_block,
                            q_block,
                            x_16,
                            x,
                            swapped,
                            swap,
                            by_cos,
                            by_sin,
                        )
                    for b in T.serial(kv_heads // k_block):
                        rotate(
                            key, token, b * k_block, k_block, x_16, x, swapped, swap, by_cos, by_sin
                        )

    return rotary_embedding
