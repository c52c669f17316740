"""The only place that knows torch.npu, torch.cuda, the simulated NPU and the CPU apart.

torch.npu and torch.cuda offer graphs, streams and events under equal names with two differences
that matter here: the class (`NPUGraph` / `CUDAGraph`) and the fourth positional parameter of
`graph(...)`, which is `auto_dispatch_capture` in one and `capture_error_mode` in the other.
Everything after the graph object is therefore passed by keyword. The CPU runs eagerly only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from graphs.device_types import Event, Graph, MemoryFigures, ReplayCounters, TorchNamespace
from graphs.errors import GraphError, PlanInputError
from graphs.planning.streams import RESERVED, stream_limit
from graphs.runtime_log import replays_in_log
from graphs.task_groups import TaskGroups

__all__ = [
    "CpuDeviceApi",
    "DeviceApi",
    "Event",
    "Graph",
    "MemoryFigures",
    "ReplayCounters",
    "device_api",
]


class DeviceApi:
    """Graphs, streams, events and memory of one device. Get one with `device_api(device)`.

    Attributes:
        device: with its index, `npu:0`.
        supports_graphs: False on the CPU.
        simulated: True for the simulated NPU.
    """

    def __init__(self, device: torch.device, namespace: TorchNamespace) -> None:
        self.device = device
        self._namespace = namespace
        self.supports_graphs = namespace is not None
        self.simulated = device.type == "npu" and _simulated_npu_is_enabled()

    # ------------------------------------------------------------------ graphs

    def new_graph(self) -> Graph:
        """An empty graph object; one object captures once."""
        ns = self._namespace
        graph: Graph = ns.NPUGraph() if self.device.type == "npu" else ns.CUDAGraph()
        return graph

    def new_pool(self) -> Any:
        """A handle under which several graphs share their private memory."""
        with self.on_device():
            return self._namespace.graph_pool_handle()

    @contextlib.contextmanager
    def capture(
        self, graph: Graph, *, pool: Any, stream: Any, error_mode: str = "global"
    ) -> Iterator[None]:
        """Record what the body enqueues into `graph`; nothing of it executes.

        The previously current stream is current again afterwards, also when ending the capture
        fails: torch's own context manager leaves the capture stream current in that case. Random
        numbers can be drawn again, too.

        Args:
            pool: from `new_pool`. stream: from `new_stream`, never the default stream.
            error_mode: which threads' unsafe calls are refused:
                `global`, `thread_local` or `relaxed`.
        """
        before = self.current_stream()
        with self.on_device():  # setting a stream makes its device current
            try:
                with self._namespace.graph(
                    graph, pool=pool, stream=stream, capture_error_mode=error_mode
                ):
                    yield
            except BaseException:
                self._namespace.set_stream(before)
                self._release_generator()
                raise
            finally:
                self._namespace.set_stream(before)

    def _release_generator(self) -> None:
        """End what a failed capture has begun for torch's random numbers.

        On CUDA only the end of a good capture tells the generator that recording is over; until
        then the next `torch.rand` on the device, of a sampler for example, raises.
        """
        if self.device.type != "cuda":
            return
        scratch = torch.empty(1, device=self.device)
        graph, stream = self.new_graph(), self.new_stream()
        self.synchronize()
        try:
            with self._namespace.graph(graph, stream=stream):
                scratch.zero_()
        except RuntimeError:
            return  # the device is beyond help; the first error is the one to show

    def is_capturing(self) -> bool:
        """Whether the device's current stream is recording; always False without graphs."""
        if not self.supports_graphs:
            return False
        with self.on_device():
            return bool(self._namespace.is_current_stream_capturing())

    def replay_counters(self) -> ReplayCounters | None:
        """The device's own count of replays and of kernels launched by them; None if it keeps none.

        The simulated NPU counts both. On an NPU replays are counted in the runtime's log where
        that is complete, see `graphs.runtime_log`; CUDA tells nothing.
        """
        if not self.simulated:
            logged = replays_in_log(os.getpid()) if self.device.type == "npu" else None
            return None if logged is None else ReplayCounters(replays=logged, launches=None)
        from kernels_npu.sim.device import counters

        seen = counters.snapshot()
        launches = sum(seen.replayed_launches.values()) + sum(seen.replayed_ops.values())
        return ReplayCounters(replays=seen.replays, launches=launches)

    def compiled_kernels(self) -> int:
        """Kernels made ready for their first launch so far; stays 0 where nobody counts them."""
        if not self.simulated:
            return 0
        from kernels_npu.sim.device import counters

        return counters.snapshot().compilations

    def task_groups(self) -> TaskGroups | None:
        """How captured launches get other arguments between replays; None where they cannot."""
        updatable = hasattr(self._namespace, "graph_task_update_begin")
        return TaskGroups(self._namespace) if updatable else None

    # ----------------------------------------------------------------- streams

    def stream_budget(self) -> int | None:
        """Streams that graphs may occupy; None without a limit, as on CUDA.

        The simulated device counts what is free. torch_npu has no name for the runtime's count: on
        a real NPU this is the chip's limit less what vllm-ascend sets aside for everything else.
        """
        if self.simulated:
            from kernels_npu.sim.device import state

            return state.device_state(self.device.index).free_streams
        if self.device.type != "npu":
            return None
        try:
            limit = stream_limit(self._namespace.get_device_name(self.device))
        except PlanInputError:  # a chip that the table does not have
            return None
        return limit.streams - RESERVED

    def new_stream(self) -> Any:
        """A stream other than the default one, as capture requires."""
        return self._namespace.Stream(device=self.device)

    def current_stream(self) -> Any:
        return self._namespace.current_stream(self.device)

    def use_stream(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        """Make `stream` current in the body."""
        context: contextlib.AbstractContextManager[Any] = self._namespace.stream(stream)
        return context

    def new_event(self) -> Event | None:
        """An event, or None on a device whose copies are synchronous."""
        event: Event = self._namespace.Event()
        return event

    def synchronize(self) -> None:
        """Wait for everything enqueued on the device. Forbidden while capturing."""
        self._namespace.synchronize(self.device)

    def on_device(self) -> contextlib.AbstractContextManager[Any]:
        """Make this device the current one of its type in the body."""
        context: contextlib.AbstractContextManager[Any] = self._namespace.device(self.device)
        return context

    # ------------------------------------------------------------------ memory

    def host_staging(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Zeroed pinned host memory, from which copies to the device may be asynchronous."""
        return torch.zeros(tuple(shape), dtype=dtype).pin_memory()

    def address(self, tensor: torch.Tensor) -> int:
        """Where the first element lives; a captured graph holds this number and not the tensor."""
        return tensor.data_ptr()

    def memory(self) -> MemoryFigures:
        """Current memory figures of the device."""
        free, total = self._namespace.mem_get_info(self.device)
        return MemoryFigures(
            free=free,
            total=total,
            allocated=self._namespace.memory_allocated(self.device),
            reserved=self._namespace.memory_reserved(self.device),
        )

    def allocations(self) -> int | None:
        """Blocks that torch's allocator has handed out so far; None where it does not count."""
        count: int | None = self._namespace.memory_stats(self.device).get(
            "allocation.all.allocated"
        )
        return count

    # ------------------------------------------------------------- verification

    def generator_states(self) -> dict[str, torch.Tensor]:
        """State of each random generator that a step could draw from, by its device."""
        return {
            "cpu": torch.get_rng_state(),
            str(self.device): self._namespace.get_rng_state(self.device),
        }

    def stall(self) -> None:
        """Keep the device behind the host for some milliseconds, where it has a way to wait."""
        sleep = getattr(self._namespace, "_sleep", None)
        if sleep is not None:
            sleep(20_000_000)  # cycles

    @contextlib.contextmanager
    def peak_memory(self) -> Iterator[Callable[[], int | None]]:
        """Tells how many bytes more than before it the body has had allocated at once.

        The device's own peak figures start anew.
        """
        ns = self._namespace
        ns.reset_peak_memory_stats(self.device)
        before = ns.memory_allocated(self.device)
        yield lambda: ns.max_memory_allocated(self.device) - before


class CpuDeviceApi(DeviceApi):
    """The CPU: no graphs and no streams; every copy is done when the call returns."""

    def __init__(self, device: torch.device | None = None) -> None:
        super().__init__(device or torch.device("cpu"), None)

    def current_stream(self) -> Any:
        return None

    def use_stream(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def new_event(self) -> Event | None:
        return None

    def synchronize(self) -> None:
        return None

    def on_device(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def host_staging(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(tuple(shape), dtype=dtype)

    def memory(self) -> MemoryFigures:
        return MemoryFigures()

    def allocations(self) -> int | None:
        return None

    def generator_states(self) -> dict[str, torch.Tensor]:
        return {"cpu": torch.get_rng_state()}

    def stall(self) -> None:
        return None

    @contextlib.contextmanager
    def peak_memory(self) -> Iterator[Callable[[], int | None]]:
        yield lambda: None


def device_api(device: torch.device | str) -> DeviceApi:
    """The API of `device`: `npu`, `npu:1`, `cuda:0` or `cpu`.

    A simulated NPU must have been enabled before (`kernels_npu.sim.device.enable()`).

    Raises:
        GraphError: AI-GRAPH-002 when the device type is unknown or torch does not offer it here.
    """
    kind, _, index = str(device).partition(":")
    if kind == "cpu":
        return CpuDeviceApi()
    namespace: TorchNamespace = getattr(torch, kind, None) if kind in ("npu", "cuda") else None
    if namespace is None or not namespace.is_available():
        raise _unavailable(device, "is not available in this process")
    number = int(namespace.current_device()) if not index else _index(index)
    if not 0 <= number < int(namespace.device_count()):
        raise _unavailable(device, f"does not exist; there are {namespace.device_count()}")
    return DeviceApi(torch.device(kind, number), namespace)


def _index(text: str) -> int:
    return int(text) if text.isdecimal() else -1


def _unavailable(device: torch.device | str, why: str) -> GraphError:
    return GraphError(
        "AI-GRAPH-002",
        f"device {device!s} {why}",
        rule="decode graphs run on npu (torch_npu or the simulated NPU) and cuda; cpu is eager",
        fix="import torch_npu on a host, call kernels_npu.sim.device.enable() for the "
        "simulated NPU, or choose the device cpu",
    )


def _simulated_npu_is_enabled() -> bool:
    # Not imported here: who has not enabled it runs on a real NPU and needs none of it.
    simulator = sys.modules.get("kernels_npu.sim.device")
    return simulator is not None and simulator.is_enabled()
