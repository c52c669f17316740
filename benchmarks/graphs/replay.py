"""Host time of a replay step: what the runner adds to the bare graph.replay(), and eager beside it.

A step of the runner picks the bucket, takes its turn, compares addresses, fills the static buffers
and replays. Host time is read around each call while the device is idle, so it does not contain the
device's work where replays are asynchronous. `steps` is the time per step of many steps in a row,
the device's work included.

Devices: `host` replays nothing and leaves the runner's own Python; `cuda:N` and `npu:N` are real;
`sim` simulates an NPU, whose replays execute on this CPU: only the runner's part is of interest.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.capture import CapturedStep
from graphs.device_api import CpuDeviceApi, DeviceApi, device_api
from graphs.runner import DecodeGraphRunner
from graphs.toy_model import ToyDecoder
from kernels_npu.evidence import Evidence

BLOCK_SIZE = 16
BLOCKS = 8


class NoGraph:
    """A graph whose replay costs nothing."""

    def replay(self) -> None:
        """Nothing."""

    def reset(self) -> None:
        """Nothing."""


class _NoStream:
    def wait_stream(self, other: Any) -> None:
        pass


class HostOnlyApi(CpuDeviceApi):
    """A device with graphs that do nothing: every microsecond of a step is the runner's."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_graphs = True
        self._stream = _NoStream()

    def new_graph(self) -> NoGraph:
        return NoGraph()

    def new_pool(self) -> object:
        return object()

    def new_stream(self) -> _NoStream:
        return self._stream

    def current_stream(self) -> _NoStream:
        return self._stream

    @contextlib.contextmanager
    def capture(
        self, graph: Any, *, pool: Any, stream: Any, error_mode: str = "global"
    ) -> Iterator[None]:
        yield

    def is_capturing(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Microseconds, medians over `repeats` calls; `launches` of one step where they are counted.

    check, fill, replay: parts of a step. run: the whole step. overhead: the whole step with a graph
    that does nothing, which is what the runner adds to `replay`. eager: the step function on fresh
    device tensors. steps_graph, steps_eager: per step of a row of steps, device included.
    """

    batch: int
    check: float
    fill: float
    replay: float
    run: float
    overhead: float
    eager: float
    steps_graph: float
    steps_eager: float
    launches: int | None


class Stack:
    """Several toy decoders one after the other: the launches of a model, hardly any work."""

    def __init__(self, device: torch.device, layers: int, batch: int) -> None:
        self.models = [
            ToyDecoder(
                device,
                hidden=64,
                vocab_size=1000,
                num_blocks=BLOCKS * batch + 1,
                block_size=BLOCK_SIZE,
                seed=layer,
            )
            for layer in range(layers)
        ]
        self.vocab_size = self.models[0].vocab_size

    def step(self, batch: DecodeBatch) -> torch.Tensor:
        """Logits [rows, vocab]: the sum over the stack."""
        return torch.stack([model.step(batch) for model in self.models]).sum(0)


def batch_of(rows: int) -> DecodeBatch:
    """Sequences of 100 tokens in blocks of their own."""
    last = 99
    table = [list(range(row * BLOCKS, (row + 1) * BLOCKS)) for row in range(rows)]
    return DecodeBatch.from_lists(
        token_ids=[row % 1000 for row in range(rows)],
        positions=[last] * rows,
        slot_mapping=[row[last // BLOCK_SIZE] * BLOCK_SIZE + last % BLOCK_SIZE for row in table],
        block_table=table,
        seq_lens=[last + 1] * rows,
    )


def host_time(api: DeviceApi, call: Callable[[], object], repeats: int) -> float:
    """Median microseconds of the host in `call`, which starts on an idle device."""
    samples = []
    for _ in range(repeats):
        api.synchronize()
        start = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - start)
    api.synchronize()
    return statistics.median(samples[repeats // 10 :]) / 1e3


def step_time(api: DeviceApi, call: Callable[[], object], repeats: int) -> float:
    """Microseconds per call of `repeats` calls in a row, the device's work included."""
    api.synchronize()
    start = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    api.synchronize()
    return (time.perf_counter_ns() - start) / repeats / 1e3


def measure(api: DeviceApi, sizes: list[int], layers: int, repeats: int) -> list[Figures]:
    """Figures for each batch size, which is a bucket of its own."""
    stack = Stack(api.device, layers, max(sizes))
    buffers = DecodeBuffers.allocate(
        api,
        max_batch=max(sizes),
        max_blocks=BLOCKS,
        vocab_size=stack.vocab_size,
        logits_dtype=torch.float32,
    )
    runner = DecodeGraphRunner(stack.step, buffers, BucketPlan.of(sizes), api, strict=True)
    runner.capture()
    return [_measure(runner, rows, repeats) for rows in sizes]


def _measure(runner: DecodeGraphRunner, rows: int, repeats: int) -> Figures:
    api, batch = runner.api, batch_of(rows)
    captured = runner._graphs[rows]
    before = api.replay_counters()
    runner.run(batch)
    after = api.replay_counters()
    few = max(repeats // 10, 3)
    runner._graphs[rows] = CapturedStep(graph=NoGraph(), launches={})
    overhead = host_time(api, lambda: runner.run(batch), repeats)
    runner._graphs[rows] = captured
    return Figures(
        batch=rows,
        check=host_time(api, runner.check_addresses, repeats),
        fill=host_time(api, lambda: runner.buffers.fill(batch, rows), repeats),
        replay=host_time(api, captured.replay, repeats),
        run=host_time(api, lambda: runner.run(batch), repeats),
        overhead=overhead,
        eager=host_time(api, lambda: runner.run_eager(batch), few),
        steps_graph=step_time(api, lambda: runner.run(batch), few),
        steps_eager=step_time(api, lambda: runner.run_eager(batch), few),
        launches=after.launches - before.launches if before and after else None,
    )


def open_api(name: str) -> tuple[DeviceApi, Evidence]:
    """The device called `name` and how its figures are known."""
    if name == "host":
        return HostOnlyApi(), Evidence.CPU_VERIFIED
    if name == "sim":
        from kernels_npu.sim import device

        device.enable()
        return device_api("npu:0"), Evidence.CPU_VERIFIED
    real = Evidence.GPU_MEASURED if name.startswith("cuda") else Evidence.NPU_MEASURED
    return device_api(name), real


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--device", default="host", help="host, sim, cuda:N or npu:N")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--layers", type=int, default=8, help="toy decoders in a step (default: 8)")
    parser.add_argument("--repeats", type=int, default=300, help="calls per figure (default: 300)")


def run(arguments: argparse.Namespace, console: Console) -> dict[str, object]:
    """The table, and its figures."""
    api, evidence = open_api(arguments.device)
    results = measure(api, arguments.batch, arguments.layers, arguments.repeats)
    simulated = arguments.device in ("host", "sim")
    where = "this CPU's clock, not the speed of an NPU" if simulated else str(api.device)
    table = Table(title=f"microseconds of the host per step ({evidence}; {where})")
    columns = ("batch", "check", "fill", "over-\nhead", "bare\nreplay", "run", "steps\ngraph")
    for heading in (*columns, "steps\neager", "laun-\nches"):
        table.add_column(heading, justify="right", no_wrap=True)
    for r in results:
        figures = (r.check, r.fill, r.overhead, r.replay, r.run, r.steps_graph, r.steps_eager)
        table.add_row(
            str(r.batch),
            *(f"{value:.1f}" if value < 1000 else f"{value:,.0f}" for value in figures),
            "-" if r.launches is None else str(r.launches),
        )
    console.print(table)
    return {
        "device": str(api.device),
        "evidence": str(evidence),
        "meaning": where,
        "layers": arguments.layers,
        "repeats": arguments.repeats,
        "torch": torch.__version__,
        "results": [asdict(r) for r in results],
    }
