"""A toy decoder with a runner, on whatever device a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from graphs.runner import DecodeGraphRunner
from graphs.toy_model import ToyDecoder

MAX_BLOCKS = 6


@dataclass
class Rig:
    """What a test needs of one runner."""

    api: DeviceApi
    model: ToyDecoder
    buffers: DecodeBuffers
    runner: DecodeGraphRunner


def make_rig(
    api: DeviceApi,
    *,
    sizes: Iterable[int] = (1, 2, 4),
    wrap_step: Callable[[StepFn], StepFn] | None = None,
    runner_class: type[DecodeGraphRunner] = DecodeGraphRunner,
    buffers_class: type[DecodeBuffers] = DecodeBuffers,
    capture: bool = True,
    num_blocks: int = 24,
    **options: Any,
) -> Rig:
    """A rig; `wrap_step` replaces the model's step, twins plant their fault in the classes."""
    model = ToyDecoder(api.device, num_blocks=num_blocks)
    plan = BucketPlan.of(sizes)
    buffers = buffers_class.allocate(
        api,
        max_batch=max(plan.largest, 1),
        max_blocks=MAX_BLOCKS,
        vocab_size=model.vocab_size,
        logits_dtype=torch.float32,
    )
    step = model.step if wrap_step is None else wrap_step(model.step)
    runner = runner_class(step, buffers, plan, api, **options)
    if capture:
        runner.capture()
    return Rig(api, model, buffers, runner)


def some_batch(rows: int, *, block_size: int = 4, length: int = 6) -> DecodeBatch:
    """`rows` sequences of `length` tokens in blocks of their own; tokens differ by row."""
    blocks = -(-length // block_size)
    table = [[row * blocks + i for i in range(blocks)] for row in range(rows)]
    last = length - 1
    return DecodeBatch.from_lists(
        token_ids=[3 + row for row in range(rows)],
        positions=[last] * rows,
        slot_mapping=[row[last // block_size] * block_size + last % block_size for row in table],
        block_table=table,
        seq_lens=[length] * rows,
    )


def fill_cache(model: ToyDecoder, seed: int = 1) -> None:
    """Random content for the whole KV cache."""
    generator = torch.Generator().manual_seed(seed)
    for cache in (model.key_cache, model.value_cache):
        cache.copy_(torch.randn(cache.shape, generator=generator))
