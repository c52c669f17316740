"""Whether a session fits into memory, asked before anything is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    import torch

    from ascend_infer.model.config import ModelConfig
    from ascend_infer.session import SessionOptions
    from graphs.device_api import DeviceApi


def require_room(
    config: ModelConfig, options: SessionOptions, dtype: torch.dtype, api: DeviceApi
) -> None:
    """Refuse a KV cache and static buffers that cannot fit.

    Raises:
        UsageError: AI-MODEL-035 with the sizes of both.
    """
    available = available_bytes(api)
    cache = options.cache_blocks * options.block_size * kv_bytes_per_token(config, dtype.itemsize)
    rows = max(options.max_batch, options.plan.largest)
    buffers = rows * (config.vocab_size * dtype.itemsize + 4 * options.blocks_per_sequence)
    if available is None or cache + buffers <= available:
        return
    raise UsageError(
        "AI-MODEL-035",
        f"the KV cache of {options.cache_blocks} blocks of {options.block_size} tokens takes "
        f"{in_words(cache)}, static buffers of {rows} rows take {in_words(buffers)}; "
        f"{in_words(available)} are free on {api.device}",
        rule="cache and buffers are allocated once, for the longest context and the largest batch",
        fix="lower --num-blocks, --block-size, --max-new-tokens or the largest of --buckets",
    )


def kv_bytes_per_token(config: ModelConfig, itemsize: int) -> int:
    """Bytes of one token's keys and values in all layers."""
    return 2 * config.num_layers * config.kv_size * itemsize


def available_bytes(api: DeviceApi) -> int | None:
    """Free memory: the device's, and the host's where the device lives in it; None if unknown."""
    free = api.memory().free
    host = _host_bytes() if api.simulated or not api.supports_graphs else None
    known = [value for value in (free, host) if value is not None]
    return min(known, default=None)


def _host_bytes() -> int | None:
    """What Linux calls available or this process's control group leaves, whichever is less."""
    found = [
        int(line.split()[1]) * 1024
        for line in _lines("/proc/meminfo")
        if line.startswith("MemAvailable:")
    ]
    limit, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit is not None and used is not None:
        found.append(max(limit - used, 0))
    return min(found, default=None)


def _number(path: str) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def in_words(size: int) -> str:
    """A number of bytes with three digits and a binary unit."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"
