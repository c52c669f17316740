"""Each kernel runs once before its layer is traced, captured or serves.

What a compiler, a loader or a launch refuses is found while the model is built, where the host's
operator can still take the layer. The kernels leave the number of rows open, so that a trial with
one row is the trial of every bucket; everything else that a kernel is built for is an argument
here, and layers with the same arguments share a trial.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ascend_infer.vllm_plugin import hooks
from ascend_infer.vllm_plugin.decision import decision
from kernels_npu import ops
from kernels_npu.errors import UnsupportedError, UsageError

#: As the host gives them; a kernel is built for the width of its positions.
POSITIONS = torch.int64


@functools.cache
def rms_norm(hidden: int, eps: float, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why both forms of the norm cannot serve rows of `hidden` elements; None where they can.

    Raises (so do the others):
        EnvironmentProblem: AI-VLLM-002 for a kernel that fails, where `on_refusal` is "stop".
    """

    def call() -> None:
        row = torch.zeros(1, hidden, dtype=dtype, device=device)
        ops.rms_norm(row, row[0], eps)
        ops.fused_add_rms_norm(row, row, row[0], eps)

    return _reason("rms_norm", device, call)


@functools.cache
def rotary_embedding(
    heads: tuple[int, int],
    head_dim: int,
    interleaved: bool,
    rotary_dim: int,
    dtypes: tuple[torch.dtype, torch.dtype],
    device: torch.device,
) -> str | None:
    """The same for `heads` of query and key; `dtypes`: of the heads and of the angles."""

    def call() -> None:
        query, key = (torch.zeros(1, n, head_dim, dtype=dtypes[0], device=device) for n in heads)
        angles = torch.zeros(1, rotary_dim, dtype=dtypes[1], device=device)
        ops.rotary_embedding(_position(device), query, key, angles, interleaved)

    return _reason("rotary_embedding", device, call)


@functools.cache
def qk_norm_rope(
    heads: tuple[int, int],
    head_dim: int,
    rotary_dim: int,
    eps: float,
    dtypes: tuple[torch.dtype, torch.dtype],
    device: torch.device,
) -> str | None:
    """The same for the fused operator."""

    def call() -> None:
        width = (heads[0] + 2 * heads[1]) * head_dim
        projected = torch.zeros(1, width, dtype=dtypes[0], device=device)
        weight = torch.zeros(head_dim, dtype=dtypes[0], device=device)
        angles = torch.zeros(1, rotary_dim, dtype=dtypes[1], device=device)
        ops.split_qkv_rmsnorm_rope(
            projected, weight, weight, eps, _position(device), angles, *heads
        )

    return _reason("qk_norm_rope", device, call)


@functools.cache
def attention(
    heads: tuple[int, int],
    head_dim: int,
    block_size: int,
    scale: float,
    dtypes: tuple[torch.dtype, torch.dtype],
    device: torch.device,
) -> str | None:
    """The same for decode attention; `dtypes`: of the query and of the cache."""

    def call() -> None:
        query = torch.zeros(1, heads[0], head_dim, dtype=dtypes[0], device=device)
        cache = torch.zeros(1, block_size, heads[1], head_dim, dtype=dtypes[1], device=device)
        table = torch.zeros(1, 1, dtype=torch.int32, device=device)
        length = torch.ones(1, dtype=torch.int32, device=device)
        ops.paged_decode_attention(query, cache, cache, table, length, scale)

    return _reason("attention", device, call)


@functools.cache
def cache_writes(
    kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> str | None:
    """The same for the writes of decode attention's cache, where they are ours too."""

    def call() -> None:
        token = torch.zeros(1, kv_heads, head_dim, dtype=dtype, device=device)
        cache = torch.zeros(1, block_size, kv_heads, head_dim, dtype=dtype, device=device)
        slot = torch.zeros(1, dtype=torch.int32, device=device)
        ops.reshape_and_cache(token, token, cache, cache.clone(), slot)

    return _reason("attention", device, call)


def _position(device: torch.device) -> torch.Tensor:
    return torch.zeros(1, dtype=POSITIONS, device=device)


def _reason(op: str, device: torch.device, call: Callable[[], Any]) -> str | None:
    if device.type == "meta":
        return "the layer is built without memory, where no kernel can be tried"
    try:
        call()
        if device.type != "cpu":
            torch.get_device_module(device).synchronize(device)
    except (UnsupportedError, UsageError) as error:  # its own checks: what it is not made for
        return str(error.what)
    except Exception as error:  # noqa: BLE001 - a compiler raises anything; nothing has served yet
        text = next(iter(str(error).splitlines()), "")
        reason = f"its kernel cannot be built: {type(error).__name__}: {text}"
        decision().refuse(op, reason, error)
        hooks.tell_graphs_apart(hooks.current_config(), hooks.NOT_BUILT_KEY, [op])
        return reason
    return None
