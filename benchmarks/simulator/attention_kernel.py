"""Flash attention of one query tile, as a tilelang-ascend kernel in expert mode.

The cube core makes S = Q K^T and O = P V of each block of keys, the vector cores turn S into
P = exp(S - max) and accumulate; S, P and O pass through a workspace in global memory.
"""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.dialect import T, tilelang

ROWS, DIM, BLOCK = 64, 128, 128
S_FILLED, P_FILLED, O_FILLED = 0, 1, 2


@tilelang.jit(out_idx=[3], workspace_idx=[4, 5, 6], target="ascendc")
def attention_tile_kernel(keys, dtype):
    """`keys` in blocks of 128, `dtype` of Q, K, V and P; the output is float32 [64, 128]."""
    half = ROWS // 2
    accum = "float32"
    scale = DIM**-0.5

    @T.prim_func
    def attention_tile(
        query: T.Tensor([ROWS, DIM], dtype),
        key: T.Tensor([keys, DIM], dtype),
        value: T.Tensor([keys, DIM], dtype),
        output: T.Tensor([ROWS, DIM], accum),
        workspace_s: T.Tensor([ROWS, BLOCK], accum),
        workspace_p: T.Tensor([ROWS, BLOCK], dtype),
        workspace_o: T.Tensor([ROWS, DIM], accum),
    ):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            q_l1 = T.alloc_L1([ROWS, DIM], dtype)
            kv_l1 = T.alloc_L1([BLOCK, DIM], dtype)
            p_l1 = T.alloc_L1([ROWS, BLOCK], dtype)
            s_l0c = T.alloc_L0C([ROWS, BLOCK], accum)
            o_l0c = T.alloc_L0C([ROWS, DIM], accum)

            s = T.alloc_ub([half, BLOCK], accum)
            wide = T.alloc_ub([half, BLOCK], accum)
            p = T.alloc_ub([half, BLOCK], dtype)
            o = T.alloc_ub([half, DIM], accum)
            acc = T.alloc_ub([half, DIM], accum)
            row_max = T.alloc_ub([half, 1], accum)
            old_max = T.alloc_ub([half, 1], accum)
            row_sum = T.alloc_ub([half, 1], accum)
            block_sum = T.alloc_ub([half, 1], accum)

            with T.Scope("C"):
                T.copy(query, q_l1)
                for i in T.serial(keys // BLOCK):
                    T.copy(key[i * BLOCK : (i + 1) * BLOCK, :], kv_l1)
                    T.set_flag("mte2", "mte1", 0)
                    T.wait_flag("mte2", "mte1", 0)
                    if i > 0:
                        T.wait_flag("fix", "m", 0)
                    T.gemm_v0(q_l1, kv_l1, s_l0c, transpose_B=True, init=True)
                    T.set_flag("mte1", "mte2", 0)
                    T.set_flag("m", "fix", 0)
                    T.wait_flag("m", "fix", 0)
                    T.copy(s_l0c, workspace_s)
                    T.set_cross_flag("FIX", S_FILLED)

                    T.wait_flag("mte1", "mte2", 0)
                    T.copy(value[i * BLOCK : (i + 1) * BLOCK, :], kv_l1)
                    T.wait_cross_flag(P_FILLED)
                    T.copy(workspace_p, p_l1)
                    T.set_flag("mte2", "mte1", 0)
                    T.wait_flag("mte2", "mte1", 0)
                    T.gemm_v0(p_l1, kv_l1, o_l0c, init=True)
                    T.set_flag("mte1", "mte2", 0)
                    T.wait_flag("mte1", "mte2", 0)
                    T.set_flag("m", "fix", 0)
                    T.wait_flag("m", "fix", 0)
                    T.copy(o_l0c, workspace_o)
                    if i + 1 < keys // BLOCK:
                        T.set_flag("fix", "m", 0)
                    T.set_cross_flag("FIX", O_FILLED)

            with T.Scope("V"):
                T.tile.fill(acc, 0.0)
                T.tile.fill(row_sum, 0.0)
                T.tile.fill(row_max, -T.infinity(accum))
                for i in T.serial(keys // BLOCK):
                    T.wait_cross_flag(S_FILLED)
                    if i > 0:
                        T.wait_flag("v", "mte2", 0)
                    T.copy(workspace_s[vid * half : (vid + 1) * half, :], s)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.mul(s, s, scale)
                    T.copy(row_max, old_max)
                    T.reduce_max(s, row_max, dim=-1, clear=False)
                    T.tile.broadcast(wide, row_max)
                    T.tile.sub(s, s, wide)
                    T.tile.exp(s, s)
                    T.reduce_sum(s, block_sum, dim=-1)
                    T.tile.sub(old_max, old_max, row_max)
                    T.tile.exp(old_max, old_max)
                    T.tile.mul(row_sum, row_sum, old_max)
                    T.tile.add(row_sum, row_sum, block_sum)
                    if i > 0:
                        T.wait_flag("mte3", "v", 0)
                    T.copy(s, p)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(p, workspace_p[vid * half : (vid + 1) * half, :])
                    T.set_cross_flag("MTE3", P_FILLED)
                    if i + 1 < keys // BLOCK:
                        T.set_flag("mte3", "v", 0)
                        T.set_flag("v", "mte2", 0)

                    T.tile.broadcast(wide, old_max)
                    T.tile.mul(acc, acc, wide)
                    T.wait_cross_flag(O_FILLED)
                    if i > 0:
                        T.wait_flag("v", "mte2", 1)
                    T.copy(workspace_o[vid * half : (vid + 1) * half, :], o)
                    T.set_flag("mte2", "v", 1)
                    T.wait_flag("mte2", "v", 1)
                    T.tile.add(acc, acc, o)
                    if i + 1 < keys // BLOCK:
                        T.set_flag("v", "mte2", 1)

                T.tile.broadcast(wide, row_sum)
                T.tile.div(acc, acc, wide)
                T.set_flag("v", "mte3", 0)
                T.wait_flag("v", "mte3", 0)
                T.copy(acc, output[vid * half : (vid + 1) * half, :])

    return attention_tile
