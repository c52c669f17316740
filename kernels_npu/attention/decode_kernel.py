"""The paged decode attention kernel: one block per sequence and KV head.

For each tile of up to 128 keys the cube core computes S = Q K^T and later O = P V; the vector cores
turn S into P = exp(S - max) and rescale what they have accumulated. The query heads of a KV head
are the rows of one cube tile, so that keys and values are read once. Everything between the cores
goes through a workspace in global memory with two slots per stage, tile k in slot k % 2:

    cube    QK(0)  QK(1)  PV(0)  QK(2)  PV(1)  ...  PV(n-1)       QK runs one tile ahead of PV
    vector         SM(0)  SM(1)  UP(0)  SM(2)  UP(1)  ...         SM makes P(k), UP(k) adds O(k)

Cross-core flags. S, P and O each announce "slot k % 2 is filled", with one flag id per slot. No
flag says "slot is free": the data itself does, so a wait for it would be redundant.
  * S(k+2) overwrites S(k). QK(k+2) is issued after the wait for P(k), and P(k) was made from S(k).
  * P(k+2) overwrites P(k). The vector cores write it after S(k+2) has come; S(k+2) leaves through
    the pipes M and FIX, in order, after PV(k), which has read P(k).
  * O(k+2) overwrites O(k). PV(k+2) is issued after the wait for P(k+2), and UP(k), which reads
    O(k), precedes SM(k+2), which makes P(k+2), in the program of both vector cores.
The same facts bound each flag id to one outstanding set, which is all that the hardware is sure to
keep. A vector core without rows sets and waits like the other: the cube needs the flags of both.

The first tile starts with the first visible key: a sliding window drops the keys before it from the
first block, and the tile has as many fewer. The columns of a tile that hold a key come first.

Cache blocks of 64 keys and fewer are spliced into one tile, at any row. AscendC does that; the PTO
back end would place each part at the row pitch of the part, so that the target is not left open.

Inside a core, `set` is issued only when a later `wait` will consume it, so that no flag is left at
the end.
"""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.attention.tiling import MAX_TILE_KEYS, decode_tiling
from kernels_npu.dialect import T, make_zn_layout, tilelang

# Cross-core flag ids, one per slot.
S_FILLED, P_FILLED, O_FILLED = 0, 2, 4
# Event ids of the cube core, per pair of pipes: K, V and P have two slots in L1 (id + slot).
K, V, P = 0, 2, 4
QK, PV = 0, 1  # L0B, L0C: one buffer for each product
# Event ids of the vector cores: 0 is the score tile's, 1 the output tile's.
SCORES, OUTPUT = 0, 1


@tilelang.jit(out_idx=[5], workspace_idx=[6, 7, 8], target="ascendc")
def paged_decode_attention_kernel(
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    block_size: int,
    dtype: str,
    scale: float,
    sliding_window: int,
    soft_cap: float,
):
    """Static: all but batch, cache size and table width. `DecodeTiling` has the names."""
    tiling = decode_tiling(q_heads, kv_heads, head_dim, block_size)
    group, tile_m, rows, live = tiling.group, tiling.tile_m, tiling.rows, tiling.live
    pages, keys, chunks, width = tiling.pages, tiling.keys, tiling.chunks, tiling.width
    ub = tiling.ub_layout
    columns = MAX_TILE_KEYS  # of the column index: a compare takes multiples of 256 bytes
    first_rows, last_rows = min(group, rows), group - rows  # real heads of either vector core
    windowed = sliding_window > 0
    accum = "float32"
    batch = T.symbolic("batch")
    num_blocks = T.symbolic("num_blocks")
    max_blocks = T.symbolic("max_blocks")

    @T.macro
    def load_pages(cache, block_table, seq, head, first, hidden, seq_len, tile):
        """Keys or values of the pages from `first` on.

        The first `hidden` and what lies beyond `seq_len` are left out: that is not read, and zero
        rows at the tile's end stand for it.

        The copy of the first page starts at the tile's first byte. When it does not fill the tile
        it clears it, so that no stale NaN can meet a probability of 0.
        """
        page = block_table[seq, first // block_size]
        T.copy(
            cache[page, hidden : T.min(block_size, seq_len - first), head, :],
            tile[0:block_size, :],
        )
        for p in T.serial(1, pages):
            key = first + p * block_size
            if key < seq_len:
                later_page = block_table[seq, key // block_size]
                T.copy(
                    cache[later_page, 0 : T.min(block_size, seq_len - key), head, :],
                    tile[p * block_size - hidden : (p + 1) * block_size - hidden, :],
                )

    @T.prim_func
    def paged_decode_attention(
        query: T.Tensor([batch, q_heads, head_dim], dtype),
        key_cache: T.Tensor([num_blocks, block_size, kv_heads, head_dim], dtype),
        value_cache: T.Tensor([num_blocks, block_size, kv_heads, head_dim], dtype),
        block_table: T.Tensor([batch, max_blocks], "int32"),
        seq_lens: T.Tensor([batch], "int32"),
        output: T.Tensor([batch, q_heads, head_dim], dtype),
        workspace_s: T.Tensor([batch * kv_heads, 2, live, keys], accum),
        workspace_p: T.Tensor([batch * kv_heads, 2, live, keys], dtype),
        workspace_o: T.Tensor([batch * kv_heads, 2, live, head_dim], accum),
    ):
        with T.Kernel(batch * kv_heads, is_npu=True) as (cid, vid):
            q_l1 = T.alloc_L1([tile_m, head_dim], dtype)
            k_l1_0 = T.alloc_L1([keys, head_dim], dtype)
            k_l1_1 = T.alloc_L1([keys, head_dim], dtype)
            v_l1_0 = T.alloc_L1([keys, head_dim], dtype)
            v_l1_1 = T.alloc_L1([keys, head_dim], dtype)
            p_l1_0 = T.alloc_L1([tile_m, keys], dtype)
            p_l1_1 = T.alloc_L1([tile_m, keys], dtype)
            T.annotate_layout(
                {
                    q_l1: make_zn_layout(q_l1),
                    k_l1_0: make_zn_layout(k_l1_0),
                    k_l1_1: make_zn_layout(k_l1_1),
                    v_l1_0: make_zn_layout(v_l1_0),
                    v_l1_1: make_zn_layout(v_l1_1),
                    p_l1_0: make_zn_layout(p_l1_0),
                    p_l1_1: make_zn_layout(p_l1_1),
                }
            )
            q_l0a = T.alloc_L0A([chunks, tile_m, width], dtype)
            p_l0a = T.alloc_L0A([tile_m, keys], dtype)
            k_l0b = T.alloc_L0B([width, keys], dtype)
            v_l0b = T.alloc_L0B([keys, width], dtype)
            s_l0c = T.alloc_L0C([tile_m, keys], accum)
            o_l0c = T.alloc_L0C([chunks, tile_m, width], accum)

            scores = T.alloc_ub([rows, keys], accum)
            row_max_wide = T.alloc_ub([rows, keys], accum)
            factor_wide = T.alloc_ub([rows, head_dim], accum)
            probabilities = T.alloc_ub([rows, keys], dtype)
            o = T.alloc_ub([rows, head_dim], accum)
            out = T.alloc_ub([rows, head_dim], dtype)
            acc = T.alloc_ub([rows, head_dim], accum)
            max_old = T.alloc_ub([rows, 1], accum)
            max_new = T.alloc_ub([rows, 1], accum)
            denominator = T.alloc_ub([rows, 1], accum)
            tile_sum = T.alloc_ub([rows, 1], accum)
            alpha = T.alloc_ub([2, rows, 1], accum)
            column_index = T.alloc_ub([1, columns], "int32")
            column = T.alloc_ub([1, columns], accum)
            mask = T.alloc_ub([1, 32], "uint8")
            T.annotate_address(
                {
                    scores: ub["scores"],
                    row_max_wide: ub["wide"],
                    factor_wide: ub["wide"],
                    probabilities: ub["probabilities"],
                    o: ub["o"],
                    out: ub["o"],
                    acc: ub["acc"],
                    max_old: ub["max_old"],
                    max_new: ub["max_new"],
                    denominator: ub["denominator"],
                    tile_sum: ub["tile_sum"],
                    alpha: ub["alpha"],
                    column_index: ub["column_index"],
                    column: ub["column"],
                    mask: ub["mask"],
                }
            )

            seq = cid // kv_heads
            head = cid % kv_heads
            seq_len = seq_lens[seq]
            # The first visible key, and the first of its page, where the tiles start.
            visible = T.max(seq_len - sliding_window, 0) if windowed else 0
            origin = visible // block_size * block_size
            tiles = (seq_len - origin + keys - 1) // keys

            with T.Scope("C"):
                # Step i loads K(i) and V(i-1), then computes QK(i-1) and PV(i-2).
                for i in T.serial(tiles + 2):
                    if i < tiles:
                        if i == 0:
                            # Ready with K(0), which follows on the same pipe.
                            T.copy(query[seq, head * group : (head + 1) * group, :], q_l1)
                        if i >= 2:
                            T.wait_flag("mte1", "mte2", K + i % 2)
                        first = origin + i * keys
                        hidden = T.Select(i == 0, visible - origin, 0) if windowed else 0
                        if i % 2 == 0:
                            load_pages(
                                key_cache, block_table, seq, head, first, hidden, seq_len, k_l1_0
                            )
                        else:
                            load_pages(
                                key_cache, block_table, seq, head, first, hidden, seq_len, k_l1_1
                            )
                        T.set_flag("mte2", "mte1", K + i % 2)

                    if T.And(i >= 1, i <= tiles):
                        k = i - 1
                        if k >= 2:
                            T.wait_flag("mte1", "mte2", V + k % 2)
                        first = origin + k * keys
                        hidden = T.Select(k == 0, visible - origin, 0) if windowed else 0
                        if k % 2 == 0:
                            load_pages(
                                value_cache, block_table, seq, head, first, hidden, seq_len, v_l1_0
                            )
                        else:
                            load_pages(
                                value_cache, block_table, seq, head, first, hidden, seq_len, v_l1_1
                            )

                        # S(k) = Q K(k)^T, summed over the slices of the head dimension.
                        T.wait_flag("mte2", "mte1", K + k % 2)
                        if k == 0:
                            for c in T.serial(chunks):
                                T.copy(q_l1[:, c * width : (c + 1) * width], q_l0a[c, :, :])
                        for c in T.serial(chunks):
                            if k + c > 0:
                                T.wait_flag("m", "mte1", QK)
                            if k % 2 == 0:
                                T.copy(
                                    k_l1_0[:, c * width : (c + 1) * width], k_l0b, transpose=True
                                )
                            else:
                                T.copy(
                                    k_l1_1[:, c * width : (c + 1) * width], k_l0b, transpose=True
                                )
                            T.set_flag("mte1", "m", QK)
                            T.wait_flag("mte1", "m", QK)
                            if c == 0:
                                if k > 0:
                                    T.wait_flag("fix", "m", QK)
                            else:
                                T.pipe_barrier("m")  # small products may overtake each other
                            T.mma(q_l0a[c, :, :], k_l0b, s_l0c, init=(c == 0))
                            if k * chunks + c + 1 < tiles * chunks:
                                T.set_flag("m", "mte1", QK)
                        if k + 2 < tiles:
                            T.set_flag("mte1", "mte2", K + k % 2)
                        T.set_flag("m", "fix", QK)
                        T.wait_flag("m", "fix", QK)
                        T.copy(s_l0c, workspace_s[cid, k % 2, 0:live, 0:keys])
                        T.set_cross_flag("FIX", S_FILLED + k % 2)
                        if k + 1 < tiles:
                            T.set_flag("fix", "m", QK)

                    if i >= 2:
                        j = i - 2
                        # O(j) = P(j) V(j), one product per slice of the head dimension.
                        T.wait_cross_flag(P_FILLED + j % 2)
                        # P's L1 slot is free without a flag, as its workspace slot is.
                        if j % 2 == 0:
                            T.copy(workspace_p[cid, 0, 0:live, 0:keys], p_l1_0)
                        else:
                            T.copy(workspace_p[cid, 1, 0:live, 0:keys], p_l1_1)
                        # V(j) was loaded before P(j) on the same pipe: this announces both.
                        T.set_flag("mte2", "mte1", P + j % 2)
                        T.wait_flag("mte2", "mte1", P + j % 2)
                        for c in T.serial(chunks):
                            # Frees V's L0B and, at c = 0, P's L0A: the last product read both.
                            if j + c > 0:
                                T.wait_flag("m", "mte1", PV)
                            if j % 2 == 0:
                                if c == 0:
                                    T.copy(p_l1_0, p_l0a)
                                T.copy(v_l1_0[:, c * width : (c + 1) * width], v_l0b)
                            else:
                                if c == 0:
                                    T.copy(p_l1_1, p_l0a)
                                T.copy(v_l1_1[:, c * width : (c + 1) * width], v_l0b)
                            T.set_flag("mte1", "m", PV)
                            T.wait_flag("mte1", "m", PV)
                            if c == 0:
                                if j > 0:
                                    T.wait_flag("fix", "m", PV)
                            T.mma(p_l0a, v_l0b, o_l0c[c, :, :], init=True)
                            if j * chunks + c + 1 < tiles * chunks:
                                T.set_flag("m", "mte1", PV)
                        if j + 2 < tiles:
                            T.set_flag("mte1", "mte2", V + j % 2)
                        T.set_flag("m", "fix", PV)
                        T.wait_flag("m", "fix", PV)
                        for c in T.serial(chunks):
                            T.copy(
                                o_l0c[c, :, :],
                                workspace_o[cid, j % 2, 0:live, c * width : (c + 1) * width],
                            )
                        T.set_cross_flag("FIX", O_FILLED + j % 2)
                        if j + 1 < tiles:
                            T.set_flag("fix", "m", PV)

            with T.Scope("V"):
                T.tile.fill(acc, 0.0)
                T.tile.fill(denominator, 0.0)
                T.tile.fill(max_old, -T.infinity(accum))
                T.tile.createvecindex(column_index, 0)
                T.tile.cast(column, column_index, "CAST_NONE", columns)

                for i in T.serial(tiles + 1):
                    if i < tiles:
                        T.wait_cross_flag(S_FILLED + i % 2)
                        if vid * rows < group:
                            if i >= 1:
                                T.wait_flag("v", "mte2", SCORES)
                            T.copy(
                                workspace_s[cid, i % 2, vid * rows : (vid + 1) * rows, 0:keys],
                                scores,
                            )
                            T.set_flag("mte2", "v", SCORES)
                            T.wait_flag("mte2", "v", SCORES)
                            if soft_cap > 0.0:
                                # cap tanh(x / cap) = cap - 2 cap / (exp(2 x / cap) + 1)
                                T.tile.mul(scores, scores, 2.0 * scale / soft_cap)
                                T.tile.exp(scores, scores)
                                T.tile.add(scores, scores, 1.0)
                                T.tile.fill(row_max_wide, -2.0 * soft_cap)
                                T.tile.div(scores, row_max_wide, scores)
                                T.tile.add(scores, scores, soft_cap)
                            else:
                                T.tile.mul(scores, scores, scale)
                            # The tile's first columns are keys, at least one; -inf in the others.
                            hidden = T.Select(i == 0, visible - origin, 0) if windowed else 0
                            filled = T.min(seq_len - origin - i * keys, keys) - hidden
                            if filled < keys:
                                T.tile.compare(mask, column, T.cast(filled, accum), "LT")
                                for r in T.serial(rows):
                                    T.tile.select(
                                        scores[r, :],
                                        mask,
                                        scores[r, :],
                                        -T.infinity(accum),
                                        "VSEL_TENSOR_SCALAR_MODE",
                                    )

                            T.reduce_max(scores, max_new, dim=-1)
                            T.tile.max(max_new, max_new, max_old)
                            T.tile.sub(alpha[i % 2, :, :], max_old, max_new)
                            T.tile.exp(alpha[i % 2, :, :], alpha[i % 2, :, :])
                            T.copy(max_new, max_old)
                            T.tile.broadcast(row_max_wide, max_new)
                            T.tile.sub(scores, scores, row_max_wide)
                            T.tile.exp(scores, scores)
                            if i >= 1:
                                T.wait_flag("mte3", "v", SCORES)
                            T.tile.cast(probabilities, scores, "CAST_RINT", rows * keys)
                            T.set_flag("v", "mte3", SCORES)
                            T.wait_flag("v", "mte3", SCORES)
                            T.copy(
                                probabilities,
                                workspace_p[cid, i % 2, vid * rows : (vid + 1) * rows, 0:keys],
                            )
                            if i + 1 < tiles:
                                T.set_flag("mte3", "v", SCORES)
                        T.set_cross_flag("MTE3", P_FILLED + i % 2)
                        if vid * rows < group:
                            T.reduce_sum(scores, tile_sum, dim=-1)
                            if i + 1 < tiles:
                                T.set_flag("v", "mte2", SCORES)
                            T.tile.mul(denominator, denominator, alpha[i % 2, :, :])
                            T.tile.add(denominator, denominator, tile_sum)

                    if i >= 1:
                        j = i - 1
                        T.wait_cross_flag(O_FILLED + j % 2)
                        if vid * rows < group:
                            if j >= 1:
                                T.wait_flag("v", "mte2", OUTPUT)
                            T.copy(
                                workspace_o[cid, j % 2, vid * rows : (vid + 1) * rows, 0:head_dim],
                                o,
                            )
                            T.set_flag("mte2", "v", OUTPUT)
                            T.tile.broadcast(factor_wide, alpha[j % 2, :, :])
                            T.tile.mul(acc, acc, factor_wide)
                            T.wait_flag("mte2", "v", OUTPUT)
                            T.tile.add(acc, acc, o)
                            if i < tiles:
                                T.set_flag("v", "mte2", OUTPUT)

                if vid * rows < group:
                    if tiles > 0:
                        T.tile.broadcast(factor_wide, denominator)
                        T.tile.div(acc, acc, factor_wide)
                    T.tile.cast(out, acc, "CAST_RINT", rows * head_dim)
                    T.set_flag("v", "mte3", OUTPUT)
                    T.wait_flag("v", "mte3", OUTPUT)
                    if vid == 0:
                        T.copy(
                            out[0:first_rows, :],
                            output[seq, head * group : head * group + first_rows, :],
                        )
                    else:
                        if last_rows > 0:
                            T.copy(
                                out[0:last_rows, :],
                                output[
                                    seq,
                                    head * group + rows : head * group + rows + last_rows,
                                    :,
                                ],
                            )

    return paged_decode_attention
