"""Settings with names, as options of `simulate-serving`; what is given beside them prevails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Of every simulation, unless a preset or an option says otherwise.
DEFAULTS: Mapping[str, Any] = {
    "arrivals": "at-once",
    "batching": "static,continuous,chunked",
    "block_size": 16,
    "buckets": None,
    "burst_every_s": 1.0,
    "burst_size": 16,
    "concurrency": None,
    "context_ns": 0.0,
    "eager_ms": 0.0,
    "kv_blocks": None,
    "max_waiting": None,
    "output": "discrete:16,64,256,1024",
    "prefill_us": 12.0,
    "prefix_tokens": 0,
    "prefixes": 0,
    "prompt": "uniform:128-1024",
    "rate": None,
    "requests": 64,
    "seed": 0,
    "slots": (8,),
    "step_ms": 8.0,
    "think_ms": 0.0,
    "token_budget": 2048,
    "watermark": 0.0,
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # 64 requests for 8 slots, constant steps of 8 ms, 12 us per token of a prompt, output lengths
    # far apart: what separates static from continuous batching, and nothing else.
    "textbook": {
        "arrivals": "at-once",
        "batching": "static,continuous",
        "output": "discrete:16,64,256,1024",
        "prefill_us": 12.0,
        "prompt": "uniform:128-1024",
        "requests": 64,
        "slots": (8,),
        "step_ms": 8.0,
    },
    # A chat service: a few system prompts, Poisson arrivals, a cache that fills up.
    "chat": {
        "arrivals": "poisson",
        "batching": "continuous,chunked",
        "kv_blocks": 1792,
        "output": "lognormal:250,0.9",
        "prefixes": 8,
        "prefix_tokens": 512,
        "prompt": "lognormal:300,1.0",
        "rate": 12.0,
        "requests": 2000,
        "slots": (64,),
        "step_ms": 12.0,
        "token_budget": 2048,
    },
}
