"""Decode graphs of a 7B model on a CUDA device: how close is a replay to what its bytes allow?

    python scripts/gpu/graph_bench.py [--device cuda:0] [--json FILE] [--quick]

The decode step of Qwen2.5-7B's shapes (28 layers, random bf16 weights) at several batches and
contexts: eager, by replay, the graph alone, its own linear layers captured alone, and the same
model in transformers with a static cache, captured and compiled. Every replay must give the bits of
the eager step. Needs torch and this repository; transformers for its columns. Under eight minutes
on an H200. Exit status 1 when eager and replay differ.

All times are gpu-measured: medians over rounds of many steps, by CUDA events where the host is not
meant, by the host's clock where it is.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F

from ascend_infer.kv_cache import PagedKvCache
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.decoder import DecoderModel
from ascend_infer.model.weights import DecoderWeights, LayerWeights
from ascend_infer.reference import hf_values
from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.device_api import DeviceApi, device_api
from graphs.kv_state import KvState
from graphs.runner import DecodeGraphRunner
from graphs.verification import verify
from kernels_npu import registry

BATCHES = (1, 8, 32, 128)
CONTEXTS = (1024, 8192)
BLOCK_SIZE = 128
DTYPE = torch.bfloat16
#: (batch, context) at which transformers is measured.
COMPARED = ((1, 1024), (1, 8192), (32, 1024))

QWEN2_5_7B: dict[str, Any] = {
    "architecture": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_layers": 28,
    "num_q_heads": 28,
    "num_kv_heads": 4,
    "head_dim": 128,
    "rotary_dim": 128,
    "max_position": 32768,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "qkv_bias": True,
}


def config_of(**changes: Any) -> ModelConfig:
    """The shapes of Qwen2.5-7B, with changes."""
    return ModelConfig(**{**QWEN2_5_7B, **changes})


# --------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Clock:
    """Times on one device; the streams that it uses are the caller's current ones."""

    api: DeviceApi
    rounds: int = 5

    def device_ms(self, step: Callable[[], object], steps: int) -> float:
        """Milliseconds of one `step` on the device, between events around `steps` of them."""
        step()
        found: list[float] = []
        for _ in range(self.rounds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(steps):
                step()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) / steps)
        return statistics.median(found)

    def wall_ms(self, step: Callable[[], object], steps: int) -> float:
        """Milliseconds of one `step` by the host's clock, the device idle before and after."""
        step()
        found = []
        for _ in range(self.rounds):
            self.api.synchronize()
            started = time.perf_counter()
            for _ in range(steps):
                step()
            self.api.synchronize()
            found.append((time.perf_counter() - started) / steps * 1e3)
        return statistics.median(found)

    def host_ms(self, step: Callable[[], object], steps: int) -> float:
        """Milliseconds that the host spends in one `step`, the device idle before each."""
        step()
        found = []
        for _ in range(steps):
            self.api.synchronize()
            started = time.perf_counter()
            step()
            found.append((time.perf_counter() - started) * 1e3)
        return statistics.median(found)


def captured(api: DeviceApi, step: Callable[[], object], *, warmups: int = 3) -> Any:
    """A graph of `step`, warmed up on the stream that captures it."""
    stream = api.new_stream()
    stream.wait_stream(api.current_stream())
    with api.use_stream(stream):
        for _ in range(warmups):
            step()
    api.synchronize()
    graph = api.new_graph()
    with api.capture(graph, pool=api.new_pool(), stream=stream):
        step()
    return graph


def copy_bandwidth(api: DeviceApi, clock: Clock) -> dict[str, float]:
    """GB/s, read and written bytes both counted: the driver's copy, and a kernel's."""
    source = torch.empty(1 << 30, dtype=torch.float32, device=api.device).normal_()
    target = torch.empty_like(source)
    moved = 2 * source.numel() * 4
    ways = {
        "driver": lambda: target.copy_(source),
        "kernel": lambda: torch.add(source, 1.0, out=target),
    }
    return {name: moved / clock.device_ms(way, 10) / 1e6 for name, way in ways.items()}


# --------------------------------------------------------------------------------- the model


def random_weights(config: ModelConfig, device: torch.device) -> DecoderWeights:
    """Weights of a scale that keeps activations finite through all layers."""
    generator = torch.Generator(device).manual_seed(0)

    def linear(rows: int, columns: int) -> torch.Tensor:
        weight = torch.empty(rows, columns, dtype=DTYPE, device=device)
        return weight.normal_(std=1 / math.sqrt(columns), generator=generator)

    def ones() -> torch.Tensor:
        return torch.ones(config.hidden_size, dtype=DTYPE, device=device)

    hidden, inter = config.hidden_size, config.intermediate_size
    qkv = config.q_size + 2 * config.kv_size
    layers = tuple(
        LayerWeights(
            input_norm=ones(),
            qkv=linear(qkv, hidden),
            qkv_bias=linear(1, qkv)[0],
            output=linear(hidden, config.q_size),
            output_bias=None,
            post_attention_norm=ones(),
            gate_up=linear(2 * inter, hidden),
            down=linear(hidden, inter),
        )
        for _ in range(config.num_layers)
    )
    return DecoderWeights(
        embedding=linear(config.vocab_size, hidden),
        layers=layers,
        final_norm=ones(),
        head=linear(config.vocab_size, hidden),
    )


def random_cache(config: ModelConfig, device: torch.device, num_blocks: int) -> PagedKvCache:
    """A cache that is full of numbers, as after a long prompt."""
    cache = PagedKvCache.create(
        config, num_blocks=num_blocks, block_size=BLOCK_SIZE, dtype=DTYPE, device=device
    )
    for tensor in (*cache.keys, *cache.values):
        tensor.normal_()
    return cache


def batch_at(config: ModelConfig, size: int, context: int, num_blocks: int) -> DecodeBatch:
    """`size` sequences of `context` tokens, the newest one included, in shuffled blocks."""
    per_row = context // BLOCK_SIZE
    generator = torch.Generator().manual_seed(size + context)
    blocks = torch.randperm(num_blocks, generator=generator)[: size * per_row]
    table = blocks.to(torch.int32).reshape(size, per_row)
    return DecodeBatch(
        token_ids=torch.randint(0, config.vocab_size, (size,), generator=generator),
        positions=torch.full((size,), context - 1, dtype=torch.int64),
        slot_mapping=table[:, -1] * BLOCK_SIZE + BLOCK_SIZE - 1,
        block_table=table,
        seq_lens=torch.full((size,), context, dtype=torch.int32),
    )


def linear_layers(weights: DecoderWeights, size: int) -> Callable[[], object]:
    """All linear layers of a step, on rows of their own."""
    first = weights.layers[0]

    def rows(weight: torch.Tensor) -> torch.Tensor:
        return torch.randn(size, weight.shape[1], dtype=DTYPE, device=weight.device)

    hidden, attended, wide = rows(first.qkv), rows(first.output), rows(first.down)

    def step() -> None:
        for layer in weights.layers:
            F.linear(hidden, layer.qkv, layer.qkv_bias)
            F.linear(attended, layer.output)
            F.linear(hidden, layer.gate_up)
            F.linear(wide, layer.down)
        F.linear(hidden, weights.head)

    return step


def new_runner(model: DecoderModel, api: DeviceApi, context: int) -> DecodeGraphRunner:
    """A runner for all batches at one context."""
    plan = BucketPlan.of(BATCHES, max_batch=max(BATCHES))
    buffers = DecodeBuffers.allocate(
        api,
        max_batch=plan.largest,
        max_blocks=context // BLOCK_SIZE,
        vocab_size=model.config.vocab_size,
        logits_dtype=DTYPE,
    )
    return DecodeGraphRunner(model.decode, buffers, plan, api, strict=True)


# --------------------------------------------------------------------------------- our cases


def launches_of(step: Callable[[], object]) -> int:
    """Kernels of one step on the device, as torch's profiler sees them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    return sum(event.count for event in seen.key_averages() if event.device_time_total > 0)


def measure_ours(
    api: DeviceApi, clock: Clock, config: ModelConfig, bandwidth: float
) -> Iterator[dict[str, Any]]:
    """One record per context and batch."""
    weights = random_weights(config, api.device)
    read = weights.bytes - weights.embedding.numel() * weights.embedding.element_size()
    num_blocks = max(BATCHES) * max(CONTEXTS) // BLOCK_SIZE
    model = DecoderModel(config, weights, random_cache(config, api.device, num_blocks))
    linear_ms = {}
    for size in BATCHES:
        alone = captured(api, linear_layers(weights, size))
        linear_ms[size] = clock.device_ms(alone.replay, 20)
        alone.reset()
    for context in CONTEXTS:
        runner = new_runner(model, api, context)
        runner.capture()
        for size in BATCHES:
            batch = batch_at(config, size, context, num_blocks)
            eager = runner.run_eager(batch).clone()
            equal = torch.equal(eager, runner.run(batch))
            registry.reset_launch_counts()
            runner.run_eager(batch)
            operators = sorted({name for _, name in registry.launch_counts()})
            run = functools.partial(runner.run, batch)
            run_eager = functools.partial(runner.run_eager, batch.to(api.device))
            bare = runner._graphs[size].graph.replay
            kv_bytes = 2 * size * context * config.kv_size * 2 * config.num_layers
            floor_ms = linear_ms[size] + kv_bytes / bandwidth / 1e6
            replay_ms = clock.device_ms(bare, 20)
            step_ms, bare_ms = clock.wall_ms(run, 20), clock.wall_ms(bare, 20)
            yield {
                "batch": size,
                "context": context,
                "bitwise_equal": equal,
                "operators": operators,
                "eager_ms": clock.wall_ms(run_eager, 5),
                "replay_ms": replay_ms,
                "step_ms": step_ms,
                "runner_overhead_us": (step_ms - bare_ms) * 1e3,
                "host_us_after_idle": {
                    "replay": clock.host_ms(bare, 50) * 1e3,
                    "run": clock.host_ms(run, 50) * 1e3,
                },
                "launches": launches_of(bare),
                "linear_ms": linear_ms[size],
                "kv_bytes": kv_bytes,
                "floor_ms": floor_ms,
                "over_floor": replay_ms / floor_ms,
                "bound_ms": (read + kv_bytes) / bandwidth / 1e6,
                "share_of_copy_bandwidth": (read + kv_bytes) / replay_ms / 1e6 / bandwidth,
            }
        runner.reset()


def verify_small(api: DeviceApi, config: ModelConfig) -> dict[str, Any]:
    """All checks of `graphs.verify`, bitwise, on two layers of the same shapes."""
    weights = random_weights(config, api.device)
    num_blocks = 2 * max(BATCHES)
    cache = random_cache(config, api.device, num_blocks)
    runner = new_runner(DecoderModel(config, weights, cache), api, 2 * BLOCK_SIZE)
    runner.capture()
    state = KvState(tensors=cache.by_name(), block_size=BLOCK_SIZE)
    return verify(runner, state).to_dict()


# --------------------------------------------------------------------------------- transformers


class StaticStep:
    """A decode step of a transformers model at the end of a static cache."""

    #: Every step appends a token; `set_back` is to be called before there were so many.
    ROOM = 160

    def __init__(self, model: Any, device: torch.device, size: int, context: int) -> None:
        from transformers import StaticCache

        self._model, self._context = model, context
        self._cache: Any = StaticCache(config=model.config, max_cache_len=context + self.ROOM)
        self._tokens = torch.zeros(size, 1, dtype=torch.int64, device=device)
        self._position = torch.full((size, 1), context - 1, dtype=torch.int64, device=device)

    def __call__(self) -> Any:
        """Logits `[size, 1, vocab]`."""
        return self._model(
            self._tokens,
            position_ids=self._position,
            past_key_values=self._cache,
            use_cache=True,
        ).logits

    def set_back(self) -> None:
        """The next token is the last one of the context again."""
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(self._context - 1)


def measure_transformers(
    api: DeviceApi, clock: Clock, config: ModelConfig
) -> Iterator[dict[str, Any]]:
    """The same shapes in transformers with a static cache: captured, and compiled."""
    auto: Any = importlib.import_module("transformers")
    hf_config = auto.AutoConfig.for_model(**hf_values(config))
    with api.device:
        model = auto.AutoModelForCausalLM.from_config(
            hf_config, attn_implementation="sdpa", dtype=DTYPE
        ).eval()
    for size, context in COMPARED:
        step = StaticStep(model, api.device, size, context)
        step()
        step.set_back()
        graph = captured(api, step)
        step.set_back()
        record = {
            "batch": size,
            "context": context,
            "captured_ms": clock.device_ms(graph.replay, 20),
        }
        graph.reset()
        step.set_back()
        compiled = torch.compile(step.__call__, mode="reduce-overhead")

        def marked(compiled: Callable[[], object] = compiled) -> None:
            torch.compiler.cudagraph_mark_step_begin()
            compiled()

        for _ in range(4):
            marked()
        step.set_back()
        record["compiled_ms"] = clock.device_ms(marked, 20)
        torch._dynamo.reset()
        del step, graph, compiled, marked
        free()
        yield record


def free() -> None:
    """Give memory back between the parts."""
    gc.collect()
    torch.cuda.empty_cache()


# --------------------------------------------------------------------------------- report


def print_ours(record: dict[str, Any]) -> None:
    print(
        f"{record['batch']:>5} {record['context']:>7} {record['eager_ms']:>8.2f} "
        f"{record['replay_ms']:>9.3f} {record['linear_ms']:>9.3f} {record['over_floor']:>10.3f} "
        f"{record['share_of_copy_bandwidth']:>9.1%} {record['runner_overhead_us']:>9.1f} "
        f"{record['launches']:>8} {'same bits' if record['bitwise_equal'] else 'DIFFER':>10}",
        flush=True,
    )


def main() -> int:
    """Exit status 0 when every replay gave the bits of the eager step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="two layers, no transformers")
    options = parser.parse_args()
    started = time.perf_counter()
    api = device_api(options.device)
    config = config_of(num_layers=2) if options.quick else config_of()
    result: dict[str, Any] = {
        "evidence": "gpu-measured",
        "device": torch.cuda.get_device_name(api.device),
        "torch": torch.__version__,
        "layers": config.num_layers,
    }
    with api.on_device(), torch.no_grad():
        clock = Clock(api)
        rates = result["copy_gb_per_s"] = copy_bandwidth(api, clock)
        bandwidth = max(rates.values())
        free()
        print(f"{result['device']}, torch {torch.__version__}; gpu-measured; copy GB/s {rates}")
        print(
            "batch context eager ms replay ms linear ms over floor of copy overhead us launches"
            " eager=replay"
        )
        result["ours"] = []
        for record in measure_ours(api, clock, config, bandwidth):
            result["ours"].append(record)
            print_ours(record)
        free()
        result["verification"] = verify_small(api, config_of(num_layers=2))
        passed = bool(result["verification"]["passed"])
        print(
            f"verification of two layers, every bucket, bitwise: {'passed' if passed else 'FAILED'}"
        )
        free()
        if not options.quick:
            result["transformers"] = []
            ours = {(r["batch"], r["context"]): r["replay_ms"] for r in result["ours"]}
            for record in measure_transformers(api, clock, config):
                best = min(record["captured_ms"], record["compiled_ms"])
                record["ours_is_faster_by"] = best / ours[record["batch"], record["context"]]
                result["transformers"].append(record)
                print("transformers", record, flush=True)
    result["seconds"] = time.perf_counter() - started
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['seconds']:.0f} s")
    return 0 if passed and all(r["bitwise_equal"] for r in result["ours"]) else 1


if __name__ == "__main__":
    sys.exit(main())
