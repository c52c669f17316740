"""torch_npu's own operator for each of ours, called with our arguments.

Every function takes the arguments of our operator by name and returns what the operator would:
the result as `output`, and arguments that ours changes in place under their names. None of them
changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch_npu

Inputs = dict[str, Any]
Outputs = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """An operator of torch_npu. obstacle: why it cannot serve a call, or an empty string."""

    operator: str
    call: Callable[[Inputs], Outputs]
    obstacle: Callable[[Inputs], str] = lambda inputs: ""


def rms_norm(inputs: Inputs) -> Outputs:
    """Its second result is the reciprocal of the root mean square, for a backward pass."""
    out, _ = torch_npu.npu_rms_norm(inputs["x"], inputs["weight"], epsilon=inputs["eps"])
    return {"output": out}


def add_rms_norm(inputs: Inputs) -> Outputs:
    """Returns the sum beside the result; ours leaves it in `residual`."""
    out, _, total = torch_npu.npu_add_rms_norm(
        inputs["x"], inputs["residual"], inputs["weight"], epsilon=inputs["eps"]
    )
    return {"output": out, "residual": total}


def fused_add_rms_norm(inputs: Inputs) -> Outputs:
    """Has the results of ours, and one more as of `npu_rms_norm`."""
    outputs = add_rms_norm(inputs)
    return {"output": outputs["output"], "total": outputs["residual"]}


def rotary_embedding(inputs: Inputs) -> Outputs:
    """Takes cosines and sines per token, spread over a head; here in float32, rounded once."""
    rows = inputs["cos_sin_cache"][inputs["positions"].long()].float()
    mode = "interleave" if inputs["interleaved"] else "half"
    cos, sin = (
        half.repeat_interleave(2, -1) if inputs["interleaved"] else torch.cat((half, half), -1)
        for half in rows.chunk(2, -1)
    )
    width = cos.shape[-1]
    outputs = {}
    for name in ("query", "key"):
        heads = inputs[name].clone()
        # One sequence of all tokens, [1, tokens, heads, width], and one angle for all heads.
        turned = torch_npu.npu_rotary_mul(
            heads[..., :width].float().contiguous()[None],
            cos[None, :, None].contiguous(),
            sin[None, :, None].contiguous(),
            mode,
        )
        heads[..., :width] = turned[0].to(heads.dtype)
        outputs[name] = heads
    return outputs


def split_qkv_rmsnorm_rope(inputs: Inputs) -> Outputs:
    """Three operators in float32, as ours rounds at the end only."""
    head_dim = inputs["q_weight"].shape[0]
    counts = (inputs["num_q_heads"], inputs["num_kv_heads"], inputs["num_kv_heads"])
    parts = inputs["qkv"].split([count * head_dim for count in counts], -1)
    normed = (
        torch_npu.npu_rms_norm(
            part.float().reshape(-1, count, head_dim), weight.float(), epsilon=inputs["eps"]
        )[0]
        for part, count, weight in zip(parts, counts, (inputs["q_weight"], inputs["k_weight"]))
    )
    angles = {name: inputs[name] for name in ("positions", "cos_sin_cache")}
    heads = dict(zip(("query", "key"), normed))
    rotated = rotary_embedding({**angles, **heads, "interleaved": False})
    rounded = {name: part.flatten(1).to(parts[0].dtype) for name, part in rotated.items()}
    return {**rounded, "value": parts[2].contiguous()}


def reshape_and_cache(inputs: Inputs) -> Outputs:
    """Writes the caches that it is given; by default it would take them in the NZ format."""
    caches = {name: inputs[name].clone() for name in ("key_cache", "value_cache")}
    torch_npu.npu_scatter_pa_kv_cache(
        inputs["key"],
        inputs["value"],
        caches["key_cache"],
        caches["value_cache"],
        inputs["slot_mapping"],
        cache_mode="Norm",
    )
    return caches


def padding_obstacle(inputs: Inputs) -> str:
    """Ours skips tokens without a slot."""
    if (inputs["slot_mapping"] < 0).any():
        return "its slots are not negative"
    return ""


def paged_decode_attention(inputs: Inputs) -> Outputs:
    """Takes lengths from the host; unused blocks must exist and be finite."""
    query, table, lengths = inputs["query"], inputs["block_table"], inputs["seq_lens"].tolist()
    batch, num_heads, head_dim = query.shape
    blocks, block_size, num_kv_heads, _ = inputs["key_cache"].shape
    shape = (blocks, block_size, num_kv_heads * head_dim)
    key, value = (
        inputs[name].nan_to_num(nan=0.0).view(shape) for name in ("key_cache", "value_cache")
    )
    out, _ = torch_npu.npu_fused_infer_attention_score(
        query.view(batch, 1, num_heads * head_dim),
        key,
        value,
        actual_seq_lengths_kv=lengths,
        block_table=torch.where(table < blocks, table, 0),
        num_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        scale=inputs["scale"],
        input_layout="BSH",
        block_size=block_size,
    )
    return {"output": out.view(query.shape)}


def attention_obstacle(inputs: Inputs) -> str:
    """What ours can and the fused operator cannot, or is not documented to."""
    block_size = inputs["key_cache"].shape[1]
    if block_size % 16 or block_size > 512:
        return f"it has no blocks of {block_size}"
    if inputs["sliding_window"]:
        return "it has no sliding window without a mask"
    if inputs["logits_soft_cap"]:
        return "it has no soft cap"
    if 0 in inputs["seq_lens"].tolist():
        return "what it returns for an empty sequence is not documented"
    return ""


def silu_and_mul(inputs: Inputs) -> Outputs:
    """The first half is the gate."""
    return {"output": torch_npu.npu_swiglu(inputs["x"], dim=-1)}


#: Our operator -> torch_npu's.
COUNTERPARTS = {
    "rms_norm": Counterpart(operator="npu_rms_norm", call=rms_norm),
    "add_rms_norm": Counterpart(operator="npu_add_rms_norm", call=add_rms_norm),
    "fused_add_rms_norm": Counterpart(operator="npu_add_rms_norm", call=fused_add_rms_norm),
    "rotary_embedding": Counterpart(operator="npu_rotary_mul", call=rotary_embedding),
    "split_qkv_rmsnorm_rope": Counterpart(
        operator="npu_rms_norm + npu_rotary_mul", call=split_qkv_rmsnorm_rope
    ),
    "reshape_and_cache": Counterpart(
        operator="npu_scatter_pa_kv_cache", call=reshape_and_cache, obstacle=padding_obstacle
    ),
    "paged_decode_attention": Counterpart(
        operator="npu_fused_infer_attention_score",
        call=paged_decode_attention,
        obstacle=attention_obstacle,
    ),
    "silu_and_mul": Counterpart(operator="npu_swiglu", call=silu_and_mul),
}
