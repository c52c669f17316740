"""Putting a model on a device: weights, KV cache, static buffers, graphs and the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ascend_infer.devices import Device
from ascend_infer.engine import Engine
from ascend_infer.kv_cache import PagedKvCache
from ascend_infer.memory_budget import require_room
from ascend_infer.model.decoder import DecoderModel
from ascend_infer.model.weights import WeightSource, load_weights, require_layers
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.device_api import DeviceApi, device_api
from graphs.runner import DecodeGraphRunner
from kernels_npu.errors import UsageError

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """How a model is run.

    dtype: of weights, activations and KV cache; a key of `DTYPES`.
    graph: replay captured graphs where the device has them; False runs every step eagerly.
    strict: an eager step or a fallback implementation is an error.
    buckets: capture sizes; empty means 1, 2, 4, ... up to the smallest that holds `max_batch`.
    max_batch: most sequences in one decode step.
    max_tokens: longest sequence, prompt included.
    num_blocks: blocks of the KV cache; 0 means room for all sequences, see `cache_blocks`.
    """

    dtype: str = "float16"
    graph: bool = True
    strict: bool = False
    buckets: tuple[int, ...] = ()
    max_batch: int = 1
    max_tokens: int = 2048
    block_size: int = 128
    num_blocks: int = 0

    def __post_init__(self) -> None:
        limits = {
            "max_batch": self.max_batch,
            "max_tokens": self.max_tokens,
            "block_size": self.block_size,
        }
        for name, value in limits.items():
            if value < 1:
                raise UsageError(
                    "AI-CLI-001", f"{name} is {value}", fix=f"pass a {name} of at least 1"
                )
        if self.num_blocks < 0 or self.dtype not in DTYPES:
            raise UsageError(
                "AI-CLI-001",
                f"num_blocks is {self.num_blocks}, dtype is {self.dtype!r}",
                rule=f"num_blocks is at least 0; dtypes are {', '.join(DTYPES)}",
                fix="correct the option",
            )

    @property
    def blocks_per_sequence(self) -> int:
        """Width of the block table: blocks of the longest sequence, but at least two, so that a
        verification can cross a block border."""
        return max(2, -(-self.max_tokens // self.block_size))

    @property
    def cache_blocks(self) -> int:
        """Blocks of the KV cache. Unless given, enough for all sequences at once, and for a
        verification: two per row of the largest bucket and one that nobody owns."""
        default = max(
            self.max_batch * self.blocks_per_sequence,
            2 * max(self.plan.largest, self.max_batch) + 1,
        )
        return self.num_blocks or default

    def require_room_to_verify(self) -> None:
        """Refuse a KV cache in which eager and replay cannot be compared: AI-VERIFY-002."""
        rows = max(self.plan.largest, self.max_batch)
        if self.cache_blocks <= rows:
            raise UsageError(
                "AI-VERIFY-002",
                f"the KV cache has {self.cache_blocks} blocks, "
                f"verifying {rows} rows needs {rows + 1}",
                rule="each sequence owns a block at least, and one guard block is owned by none",
                fix=f"pass --num-blocks {2 * rows + 1} or more, or leave it out",
            )

    @property
    def plan(self) -> BucketPlan:
        """The capture sizes in use."""
        return BucketPlan.of(
            self.buckets or powers_of_two(self.max_batch), max_batch=self.max_batch
        )


@dataclass(frozen=True, kw_only=True)
class Session:
    """A model that is ready to decode."""

    source: WeightSource
    device: Device
    options: SessionOptions
    model: DecoderModel
    runner: DecodeGraphRunner
    engine: Engine


def powers_of_two(largest: int) -> Sequence[int]:
    """1, 2, 4, ... until one holds `largest`."""
    return [1 << n for n in range((largest - 1).bit_length() + 1)]


def open_session(source: WeightSource, device: Device, options: SessionOptions) -> Session:
    """Load the weights onto `device` and build everything around them. Graphs are not captured yet.

    Raises:
        UsageError: AI-CLI-003 when strictness and the other options exclude each other,
            AI-MODEL-035 when cache and buffers do not fit into memory, AI-MODEL-010 .. 016 for
            unusable weights.
    """
    dtype, target = DTYPES[options.dtype], device.torch_device
    config, plan, api = source.config, options.plan, device_api(target)
    _refuse_contradictions(options, plan, api)
    require_layers(source)
    require_room(config, options, dtype, api)
    cache = PagedKvCache.create(
        config,
        num_blocks=options.cache_blocks,
        block_size=options.block_size,
        dtype=dtype,
        device=target,
    )
    model = DecoderModel(config, load_weights(source, device=target, dtype=dtype), cache)
    buffers = DecodeBuffers.allocate(
        api,
        max_batch=max(options.max_batch, plan.largest),
        max_blocks=options.blocks_per_sequence,
        vocab_size=config.vocab_size,
        logits_dtype=dtype,
    )
    runner = DecodeGraphRunner(
        model.decode,
        buffers,
        plan,
        api,
        strict=options.strict,
        enabled=options.graph,
        watch=model.fixed_tensors,
    )
    engine = Engine(model, runner, max_batch=options.max_batch)
    return Session(
        source=source, device=device, options=options, model=model, runner=runner, engine=engine
    )


def _refuse_contradictions(options: SessionOptions, plan: BucketPlan, api: DeviceApi) -> None:
    """What would fail a strict session at its first decode step, after the prompts have run."""
    if not (options.strict and options.graph):
        return
    if not api.supports_graphs:
        raise UsageError(
            "AI-CLI-003",
            f"--strict refuses eager decode steps, and {api.device} has no graphs",
            fix="leave out --strict, or choose --device sim, npu or cuda",
        )
    if plan.largest < options.max_batch:
        raise UsageError(
            "AI-CLI-003",
            f"--strict refuses eager decode steps, and no bucket of {list(plan.sizes)} "
            f"holds a batch of {options.max_batch}",
            fix=f"add {options.max_batch} to --buckets, or leave out --strict",
        )
