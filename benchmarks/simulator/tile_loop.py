"""The same attention loop in NumPy by hand, the Triton interpreter, and this simulator."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from attention_kernel import BLOCK, DIM, ROWS, attention_tile_kernel

from kernels_npu.sim.config import Checks, configure

#: What the slowest of the dtypes rounds; all engines agree with a float64 reference within it.
TOLERANCE = {"float32": 2e-6, "float16": 2e-3}


@dataclass(kw_only=True)
class Engine:
    """One way to compute the loop. `seconds`: CPU time of each run of all tiles."""

    name: str
    run: Callable[[], torch.Tensor] = field(repr=False)
    settings: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    seconds: list[float] = field(default_factory=list)
    error: float = 0.0


def numpy_loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Online softmax over blocks of keys in float32, as one would write it by hand."""
    query, keys, values = (t.float().numpy() for t in (q, k, v))
    scale = np.float32(DIM**-0.5)

    def run() -> torch.Tensor:
        acc = np.zeros((ROWS, DIM), np.float32)
        row_max = np.full((ROWS, 1), -np.inf, np.float32)
        row_sum = np.zeros((ROWS, 1), np.float32)
        for start in range(0, len(keys), BLOCK):
            s = query @ keys[start : start + BLOCK].T * scale
            new_max = np.maximum(row_max, s.max(axis=1, keepdims=True))
            p = np.exp(s - new_max)
            alpha = np.exp(row_max - new_max)
            row_sum = row_sum * alpha + p.sum(axis=1, keepdims=True)
            acc = acc * alpha + p @ values[start : start + BLOCK]
            row_max = new_max
        return torch.from_numpy(acc / row_sum)

    return run


def triton_interpreter(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """The loop as Triton kernels on CPU tensors; nothing where Triton is not installed."""
    os.environ["TRITON_INTERPRET"] = "1"  # read when `triton` is imported
    try:
        import triton_kernel
    except ImportError:
        return

    def runner(kernel: Any) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            output = torch.empty(ROWS, DIM, dtype=torch.float32)
            kernel[(1,)](q, k, v, output, len(k), DIM**-0.5, ROWS, DIM, BLOCK)
            return output

        return run

    yield "Triton interpreter", runner(triton_kernel.attention_tile_masked)
    yield "Triton interpreter, no masks", runner(triton_kernel.attention_tile_lean)


def simulator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The loop as a tilelang-ascend kernel on the simulated NPU."""
    kernel = attention_tile_kernel(len(k), str(q.dtype).removeprefix("torch."))
    tensors = [t.to("npu") for t in (q, k, v)]

    def run() -> torch.Tensor:
        output: torch.Tensor = kernel(*tensors)
        return output.cpu()

    return run


def engines(dtype: str, tiles: int) -> Iterator[Engine]:
    """All engines that can run here, on the same random data."""
    generator = torch.Generator().manual_seed(0)
    torch_dtype: torch.dtype = getattr(torch, dtype)
    q, k, v = (
        torch.randn(rows, DIM, generator=generator).to(torch_dtype)
        for rows in (ROWS, tiles * BLOCK, tiles * BLOCK)
    )
    yield Engine(name="NumPy by hand", run=numpy_loop(q, k, v))
    for name, run in triton_interpreter(q, k, v):
        yield Engine(name=name, run=run)
    run = simulator(q, k, v)
    for name, checks in (("checks off", Checks.none()), ("all checks on", Checks())):
        yield Engine(
            name=f"simulated NPU, {name}",
            run=run,
            settings=lambda checks=checks: configure(checks=checks),
        )


def measure(dtype: str, tiles: int, rounds: int) -> list[Engine]:
    """Let the engines take turns; each first runs once unmeasured, and is compared.

    Raises:
        AssertionError: an engine computes something else.
    """
    found = list(engines(dtype, tiles))
    reference = found[0].run().double()
    for engine in found:
        with engine.settings():
            engine.error = float((engine.run().double() - reference).abs().max())
        limit = TOLERANCE[dtype] * math.sqrt(tiles)
        assert engine.error < limit, f"{engine.name} is off by {engine.error} (limit {limit})"
    for _ in range(rounds):
        for engine in found:
            with engine.settings():
                started = time.process_time()
                engine.run()
                engine.seconds.append(time.process_time() - started)
    return found
