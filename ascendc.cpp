// executed by the simulated NPU from this source; no AscendC is generated
@T.prim_func
def main(
    A_log: T.Tensor([nv], dtype),
    a: T.Tensor([total_tokens_padded, nv], dtype),
    dt_bias: T.Tensor([nv], dtype),
    query: T.Tensor([total_tokens_padded, nk, dk], dtype),
    key: T.Tensor([total_tokens_padded, nk, dk], dtype),
    value: T.Tensor([total_tokens_padded, nv, dv], dtype),
    beta: T.Tensor([total_tokens_padded, nv], dtype),
    init_state: T.Tensor([num_cache_slots, nv, dv, dk], dtype),
    ssm_state_indices: T.Tensor([num_seqs], "int32"),
    cu_seqlens: T.Tensor([num_seqs + 1], "int32"),
    out: T.Tensor([total_tokens_padded, nv, dv], dtype),
    final_state: T.Tensor([num_seqs, nv, dv, dk], dtype),
):
    with T.Kernel(NUM_CORES, is_npu=True) as (cid, vid):
        start_work = cid * q_tasks + T.if_then_else(cid < r_tasks, cid, r_tasks)
        count_work = q_tasks + T.if_then_else(cid < r_tasks, 1, 0)

        # -- QKV ping-pong (double-buffered for prefetch) --
        q_buf = T.alloc_ub([2, dk], dtype)  # [2, dk]
        k_buf = T.alloc_ub([2, dk], dtype)  # [2, dk]
        v_buf = T.alloc_ub([2, vec_block_v], dtype)  # [2, vec_block_v]

        # -- current-token QKV → fp32 --
        q_f = T.alloc_ub([dk], accum_dtype)  # [dk]  Q
        k_f = T.alloc_ub([dk], accum_dtype)  # [dk]  K
        k_1d = T.alloc_ub([1, dk], accum_dtype)  # [1, dk]  broadcast src
        v_f = T.alloc_ub([vec_block_v], accum_dtype)  # [vec_block_v]  V
        k_broadcasted = T.alloc_ub([vec_block_v, dk], accum_dtype)  # [vec_block_v, dk]
        compute_buffer = T.alloc_ub([vec_block_v, dk], accum_dtype)  # [vec_block_v, dk] workspace

        # -- state matrix H ∈ R^{vec_block_v × dk} --
        h_vec = T.alloc_ub([vec_block_v, dk], accum_dtype)  # [vec_block_v, dk]  fp32 state
        h_load_vec = T.alloc_ub([vec_block_v, dk], dtype)  # [vec_block_v, dk]  load init_state
        h_store_vec = T.alloc_ub([vec_block_v, dk], dtype)  # [vec_block_v, dk]  store final_state

        # -- prediction & delta --
        pred_vec = T.alloc_ub([vec_block_v], accum_dtype)  # [vec_block_v]  H @ K
        pred_1d = T.alloc_ub([vec_block_v, 1], accum_dtype)  # [vec_block_v, 1]  reduce dst
        delta_vec = T.alloc_ub([vec_block_v], accum_dtype)  # [vec_block_v]  (V−pred)·gate
        delta_1d = T.alloc_ub([vec_block_v, 1], accum_dtype)  # [vec_block_v, 1]  broadcast src
        o_half_buf = T.alloc_ub([2, vec_block_v], dtype)  # [2, vec_block_v] output ping-pong

        # -- scalars --
        scalar_fp32 = T.alloc_ub([1], accum_dtype)  # [1] fp32 ws
        scalar_fp16 = T.alloc_ub([1], dtype)  # [1] fp16 load src
        scalar2_fp32 = T.alloc_ub([1], accum_dtype)  # [1] fp32 ws
        scalar2_fp16 = T.alloc_ub([1], dtype)  # [1] fp16 load src
        softplus_val = T.alloc_ub([1], accum_dtype)  # [1] softplus(x)
        alpha_val = T.alloc_ub([1], accum_dtype)  # [1] α = exp(−exp_A·softplus(x))

        # -- L2 norm workspace --
        norm_sq = T.alloc_ub([1, dk], accum_dtype)  # [1, dk]  q² or k²
        norm_val = T.alloc_ub([1], accum_dtype)  # [1]  ||q||²

        # ===== work assignment: flat_idx → (seq, v_head, v_tile) =====
        for work_i in T.serial(max_work_per_block):
            if work_i < count_work:
                flat_idx = start_work + work_i
                v_tile_idx = flat_idx % num_v_tiles
                v_head_idx = (flat_idx // num_v_tiles) % nv
                seq_idx = flat_idx // (num_v_tiles * nv)

                k_head_idx = v_head_idx // v_per_k
                v_offset = v_tile_idx * block_v + vid * vec_block_v

                seq_start = cu_seqlens[seq_idx]
                seq_end = cu_seqlens[seq_idx + 1]
                seq_len = seq_end - seq_start

                # -- init state H ← init_state[state_idx],  H = 0 if no prior state --
                state_idx = ssm_state_indices[seq_idx]
                T.tile.fill(h_vec, 0.0)  # H = 0  [vec_block_v, dk]
                if state_idx >= 0:
                    T.copy(init_state[state_idx, v_head_idx, v_offset : v_offset + vec_block_v, :], h_load_vec)
                    T.set_flag("mte2", "v", 1)
                    T.wait_flag("mte2", "v", 1)
                    T.tile.cast(h_vec, h_load_vec, "CAST_NONE", vec_block_v * dk)  # fp16→fp32

                # -- exp_A = exp(A_log[v_head])  … scalar, used throughout the scan --
                T.copy(A_log[v_head_idx : v_head_idx + 1], scalar_fp16)
                T.set_flag("mte2", "v", 2)
                T.wait_flag("mte2", "v", 2)
                T.copy(scalar_fp16, scalar_fp32)
                T.tile.exp(softplus_val, scalar_fp32)
                exp_A = softplus_val[0]  # exp_A ∈ ℝ

                # -- dt_bias[v_head]  … per-head time delta bias --
                T.set_flag("v", "mte2", 3)
                T.wait_flag("v", "mte2", 3)
                T.copy(dt_bias[v_head_idx : v_head_idx + 1], scalar_fp16)
                T.set_flag("mte2", "v", 4)
                T.wait_flag("mte2", "v", 4)
                T.copy(scalar_fp16, scalar_fp32)
                dt_val = scalar_fp32[0]  # dt_bias ∈ ℝ

                # -- prefetch first token's Q,K,V → ping-pong buf[0] --
                T.copy(query[seq_start, k_head_idx, :], q_buf[0, :])  # Q[0,k_head,:]  [dk]
                T.copy(key[seq_start, k_head_idx, :], k_buf[0, :])  # K[0,k_head,:]  [dk]
                T.copy(value[seq_start, v_head_idx, v_offset : v_offset + vec_block_v], v_buf[0, :])  # V[0,v_head,v_off:v_off+vec_blk]
                T.set_flag("mte2", "v", 6)

                # ================================================================
                #  Mamba SSM scan — iterate over tokens of this sequence
                # ================================================================
                for t in T.serial(seq_len):
                    token_idx = seq_start + t
                    buf_idx = t % 2  # 0/1 ping-pong index

                    T.wait_flag("mte2", "v", 6)

                    # -- a_t, β_t: scalar per head  [1] → fp32 --
                    T.copy(a[token_idx, v_head_idx : v_head_idx + 1], scalar_fp16)
                    T.copy(beta[token_idx, v_head_idx : v_head_idx + 1], scalar2_fp16)
                    T.set_flag("mte2", "v", 5)
                    T.wait_flag("mte2", "v", 5)
                    T.copy(scalar_fp16, scalar_fp32)
                    T.copy(scalar2_fp16, scalar2_fp32)
                    a_val = scalar_fp32[0]  # a_{t,v_head} ∈ ℝ
                    b_val = scalar2_fp32[0]  # β_{t,v_head} ∈ ℝ

                    # x = a + dt_bias,  then softplus(x, β)
                    # sp = log(1 + exp(x·β)) / β  (≈ x when x·β > SOFTPLUS_THRESHOLD)
                    x = a_val + dt_val
                    beta_x = x * softplus_beta

                    if beta_x > SOFTPLUS_THRESHOLD:
                        softplus_val[0] = x
                    else:
                        scalar_fp32[0] = beta_x
                        T.tile.exp(alpha_val, scalar_fp32)  # exp(x·β)
                        T.tile.add(alpha_val, alpha_val, 1.0)  # 1 + exp(x·β)
                        T.tile.ln(alpha_val, alpha_val)  # ln(1+exp(x·β))
                        softplus_val[0] = alpha_val[0] * inv_beta  # / β

                    # -- state decay factor:  α = exp(−exp_A · softplus(x))  ∈ ℝ --
                    scalar_fp32[0] = -exp_A * softplus_val[0]
                    T.tile.exp(alpha_val, scalar_fp32)

                    # -- sigmoid gate:  gate = σ(β) = 1 / (1 + exp(−β))  ∈ ℝ --
                    scalar_fp32[0] = -b_val
                    T.tile.exp(scalar_fp32, scalar_fp32)  # exp(−β)
                    T.tile.add(scalar_fp32, scalar_fp32, 1.0)  # 1 + exp(−β)
                    T.tile.reciprocal(scalar_fp32, scalar_fp32)  # 1 / (1+exp(−β))
                    beta_gate_scalar = scalar_fp32[0]

                    # -- q, k, v: fp16 → fp32  [dk] / [vec_block_v] --
                    T.copy(q_buf[buf_idx, :], q_f)  # q_t: [dk] → fp32
                    T.copy(k_buf[buf_idx, :], k_f)  # k_t: [dk] → fp32
                    T.copy(v_buf[buf_idx, :], v_f)  # v_t: [vec_block_v] → fp32

                    # -- prefetch next token's Q,K,V into ping-pong alternate slot --
                    if t + 1 < seq_len:
                        next_token_idx = seq_start + t + 1
                        next_buf_idx = (t + 1) % 2
                        T.copy(query[next_token_idx, k_head_idx, :], q_buf[next_buf_idx, :])
                        T.copy(key[next_token_idx, k_head_idx, :], k_buf[next_buf_idx, :])
                        T.copy(value[next_token_idx, v_head_idx, v_offset : v_offset + vec_block_v], v_buf[next_buf_idx, :])
                        T.set_flag("mte2", "v", 6)

                    # -- (optional) L2 norm:  q̂ = q / √(‖q‖²+ε),  k̂ = k / √(‖k‖²+ε) --
                    if use_qk_l2norm:
                        T.tile.mul(norm_sq[0, :], q_f, q_f)  # q²  [1, dk]
                        T.reduce_sum(norm_sq, norm_val, dim=-1)  # Σq² → [1]
                        T.tile.add(norm_val, norm_val, L2_NORM_EPS)  # Σq²+ε
                        T.tile.rsqrt(norm_val, norm_val)  # 1/√(Σq²+ε)
                        norm_scalar = norm_val[0]
                        T.tile.mul(q_f, q_f, norm_scalar)  # q̂ = q · 1/√(‖q‖²+ε)

                        T.tile.mul(norm_sq[0, :], k_f, k_f)  # k²  [1, dk]
                        T.reduce_sum(norm_sq, norm_val, dim=-1)  # Σk² → [1]
                        T.tile.add(norm_val, norm_val, L2_NORM_EPS)  # Σk²+ε
                        T.tile.rsqrt(norm_val, norm_val)
                        norm_scalar = norm_val[0]
                        T.tile.mul(k_f, k_f, norm_scalar)  # k̂ = k · 1/√(‖k‖²+ε)

                    # -- q *= scale  (e.g. scale = 1/√dk) --
                    T.tile.mul(q_f, q_f, scale)

                    # =====  state decay:  H = H · α   [vec_block_v, dk]  =====
                    T.tile.mul(h_vec, h_vec, alpha_val[0])

                    # =====  pred = H @ k̂   [vec_block_v,dk]·[dk] → [vec_block_v]  =====
                    T.copy(k_f, k_1d[0, :])  # 1D →
                    T.tile.broadcast(k_broadcasted, k_1d)  #    → [vec_block_v, dk]
                    T.tile.mul(compute_buffer, h_vec, k_broadcasted)  # H⊙k
                    T.reduce_sum(compute_buffer, pred_1d[:, 0], dim=-1)  # Σ_j H[v,j]·k[j]
                    T.copy(pred_1d[:, 0], pred_vec)  # pred_v

                    # Δ = (v − pred) · gate   → [vec_block_v]
                    T.tile.sub(delta_vec, v_f, pred_vec)  # v − pred
                    T.tile.mul(delta_vec, delta_vec, beta_gate_scalar)  # (v−pred)·σ(β)

                    # =====  H = H + k̂ ⊗ Δ  (outer-product update)  =====
                    #   H[v,j] += k[j] · Δ[v]
                    T.copy(delta_vec, delta_1d[:, 0])  # → [vec_block_v, 1]
                    T.tile.broadcast(compute_buffer, delta_1d)  # broadcast to [vec_block_v,dk]
                    T.tile.mul_add_dst(h_vec, k_broadcasted, compute_buffer)

                    # =====  o = H @ q̂   [vec_block_v,dk]·[dk] → [vec_block_v]  =====
                    #   (q̂ was already multiplied by scale above)
                    T.copy(q_f, k_1d[0, :])
                    T.tile.broadcast(k_broadcasted, k_1d)  # q̂ → [vec_block_v, dk]
                    T.tile.mul(compute_buffer, h_vec, k_broadcasted)  # H⊙q̂
                    T.reduce_sum(compute_buffer, pred_1d[:, 0], dim=-1)  # Σ_j H[v,j]·q̂[j]
                    T.copy(pred_1d[:, 0], o_half_buf[buf_idx, :])  # fp32 o_t → o_half

                    # -- write output tile → out[token, v_head, v_off:v_off+vec_blk] --
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(o_half_buf[buf_idx, :], out[token_idx, v_head_idx, v_offset : v_offset + vec_block_v])

                # -- store final state H → final_state[seq_idx] (fp32→fp16, round-to-nearest) --
                T.tile.cast(h_store_vec, h_vec, "CAST_RINT", vec_block_v * dk)
                T.set_flag("v", "mte3", 5)
                T.wait_flag("v", "mte3", 5)
                T.copy(h_store_vec, final_state[seq_idx, v_head_idx, v_offset : v_offset + vec_block_v, :])
