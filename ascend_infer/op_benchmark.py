"""What the operators cost: time on a device with a clock, bytes and cycles on the simulated NPU.

Each operator is measured on workloads of real models. On a device the time is set against that of
a plain copy, measured in the same run: the bytes that any implementation has to move, per second,
as a share of what a copy moves. On the simulated NPU no time exists; the bytes that the kernel
moved are set against those that it has to move.
"""

from __future__ import annotations

import dataclasses
import datetime
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ascend_infer.devices import Device
from ascend_infer.progress import Reporter, Silent
from ascend_infer.simulation import SimulationOptions, simulating
from ascend_infer.verification.ops import OpsOptions, cases, inputs_of
from graphs.device_api import DeviceApi, device_api
from kernels_npu import ops, registry
from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.spec import OpSpec, Workload
from profiling.benchmark import BenchOptions, Timing, do_bench
from profiling.conditions import Conditions
from profiling.ledger import Entry, append

#: Sets of inputs that take turns.
_SETS = 3
#: Bytes of the copy that figures are compared with: larger than any cache.
_COPY_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class OpFigures:
    """One operator on one workload.

    min_bytes: what any implementation has to move. moved_bytes: what the kernel moved (simulated
    NPU only). cycles: modelled, by pipe. timing: on a device; `bandwidth` in bytes per second.
    """

    operator: str
    workload: str
    dtype: str
    implementation: str
    min_bytes: int
    evidence: Evidence
    timing: Timing | None = None
    bandwidth: float | None = None
    share_of_copy: float | None = None
    moved_bytes: int | None = None
    cycles: dict[str, int] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        timing = None if self.timing is None else self.timing.to_dict()
        return vars(self) | {"evidence": str(self.evidence), "timing": timing}


@dataclass(frozen=True, kw_only=True)
class OpBenchmark:
    """All figures of one run. copy_bandwidth: bytes read and written per second by a plain copy."""

    device: str
    mode: str
    figures: tuple[OpFigures, ...]
    copy_bandwidth: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return vars(self) | {"figures": [figure.to_dict() for figure in self.figures]}


def benchmark_ops(
    device: Device,
    selection: OpsOptions,
    mode: str,
    options: BenchOptions,
    reporter: Reporter | None = None,
) -> OpBenchmark:
    """Measure the selected operators on `device`, in `mode` eager or graph.

    Raises:
        UsageError: AI-CLI-001 for an operator that does not exist, AI-BENCH-007 for a selection
            that leaves nothing, or a graph on the simulated NPU.
        UnsupportedError: AI-BENCH-008 for a device that is neither simulated nor has a clock.
    """
    report = reporter or Silent()
    chosen, left_out = cases(selection)
    if not chosen:
        raise UsageError(
            "AI-BENCH-007",
            f"all {len(left_out)} workloads move more than {selection.max_bytes:,} bytes",
            rule="there is something to measure",
            fix="raise --max-bytes",
        )
    report.stage("benchmark operators", total=len(chosen))
    measured = []
    with torch.no_grad(), registry.strict():
        if device.name == "sim":
            if mode != "eager":
                raise UsageError(
                    "AI-BENCH-007",
                    f"mode={mode!r} on the simulated NPU",
                    rule="bytes and modelled cycles of a launch are the same in a graph",
                    fix="leave --graph out",
                )
            for spec, workload, dtype in chosen:
                measured.append(_count(spec, workload, dtype, device, selection.seed))
                report.step()
            return OpBenchmark(device=device.name, mode="eager", figures=tuple(measured))
        api = device_api(device.torch_device)
        copy = _copy_bandwidth(api, options)
        for spec, workload, dtype in chosen:
            measured.append(_time(spec, workload, dtype, api, mode, options, copy, selection.seed))
            report.step()
    return OpBenchmark(device=device.name, mode=mode, figures=tuple(measured), copy_bandwidth=copy)


def _count(spec: OpSpec, workload: Workload, dtype: str, device: Device, seed: int) -> OpFigures:
    from kernels_npu.sim import collect_report

    inputs = inputs_of(spec, workload, dtype, device.torch_device, seed)
    with simulating(SimulationOptions(checks="off")), collect_report() as report:
        getattr(ops, spec.name)(**inputs)
    kernels = report.kernels.values()
    cycles: dict[str, int] = {}
    for kernel in kernels:
        for pipe, count in kernel.cycles.items():
            cycles[pipe] = cycles.get(pipe, 0) + count
    return OpFigures(
        operator=spec.name,
        workload=workload.name,
        dtype=dtype,
        implementation=_implementation(spec),
        min_bytes=spec.min_bytes(workload, dtype),
        evidence=Evidence.SIMULATED,
        moved_bytes=sum(sum(k.gm_read.values()) + sum(k.gm_written.values()) for k in kernels),
        cycles=cycles,
    )


def _time(
    spec: OpSpec,
    workload: Workload,
    dtype: str,
    api: DeviceApi,
    mode: str,
    options: BenchOptions,
    copy: float,
    seed: int,
) -> OpFigures:
    sets = [inputs_of(spec, workload, dtype, api.device, seed + n) for n in range(_SETS)]
    calls: list[Callable[[], object]] = [partial(getattr(ops, spec.name), **one) for one in sets]
    for call in calls:
        call()  # compiles and decides, which a capture must not
    if mode == "graph":
        calls = [_captured(call, api) for call in calls]
    timing = do_bench(
        lambda call: call(), [(call,) for call in calls], api.device, mode=mode, options=options
    )
    min_bytes = spec.min_bytes(workload, dtype)
    bandwidth = min_bytes / (timing.samples.median * 1e-6)
    return OpFigures(
        operator=spec.name,
        workload=workload.name,
        dtype=dtype,
        implementation=_implementation(spec),
        min_bytes=min_bytes,
        evidence=timing.evidence,
        timing=timing,
        bandwidth=bandwidth,
        share_of_copy=bandwidth / copy,
    )


def _captured(call: Callable[[], object], api: DeviceApi) -> Callable[[], object]:
    graph = api.new_graph()
    with api.capture(graph, pool=api.new_pool(), stream=api.new_stream()):
        kept = call()

    def replay() -> object:
        graph.replay()
        return kept  # what the graph writes lives as long as it is replayed

    return replay


def _copy_bandwidth(api: DeviceApi, options: BenchOptions) -> float:
    source = torch.empty(_COPY_BYTES, dtype=torch.int8, device=api.device).zero_()
    target = torch.empty_like(source)
    timing = do_bench(target.copy_, [(source,)], api.device, mode="eager", options=options)
    return 2 * _COPY_BYTES / (timing.samples.median * 1e-6)


def _implementation(spec: OpSpec) -> str:
    """Which implementation the latest call of the operator has run."""
    chosen = {name for operator, name in registry.launch_counts() if operator == spec.name}
    return ", ".join(sorted(chosen))


def append_to_ledger(path: Path, run: OpBenchmark, conditions: Conditions) -> None:
    """One line per operator and workload; `conditions` as far as the caller knows them."""
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    for figure in run.figures:
        name = f"{figure.operator} {figure.workload} {figure.dtype} {run.mode}"
        append(
            path,
            Entry(
                name=name,
                when=when,
                figures=dict(_ledger_figures(figure)),
                evidence=figure.evidence,
                conditions=conditions,
            ),
        )


def _ledger_figures(figure: OpFigures) -> Iterator[tuple[str, float | int | None]]:
    yield "min_bytes", figure.min_bytes
    if figure.timing is not None:
        samples = figure.timing.samples
        yield from (("median_us", samples.median), ("mean_us", samples.mean))
        yield from (("samples", samples.count), ("share_of_copy", figure.share_of_copy))
    if figure.moved_bytes is not None:
        yield "moved_bytes", figure.moved_bytes


def known_conditions(device: Device, mode: str, options: BenchOptions) -> Conditions:
    """The conditions of a run of `benchmark_ops`."""
    simulated = device.name == "sim"
    hardware = f"simulated NPU on {platform.machine()}"
    if not simulated:
        module = torch.get_device_module(device.torch_device)
        hardware = str(module.get_device_name(device.torch_device))
    caches = (
        f"{options.flush_bytes:,} bytes written between samples"
        if options.flush_bytes
        else "L2 cache left warm"
    )
    return Conditions(
        hardware=hardware,
        software=f"Python {platform.python_version()}, torch {torch.__version__}",
        model="operators alone, on workloads named after models",
        parallelism="one device",
        lengths="as the workload says",
        load="one call at a time",
        formulas="counts" if simulated else "event to event on the device's stream",
        aggregation="one launch" if simulated else f"median of {options.repetitions} samples",
        warm_up_and_caches="counts do not depend on them"
        if simulated
        else f"{options.warm_up_ms:g} ms of warm-up, {caches}, {_SETS} sets of inputs in turns",
        graph_mode=mode,
        baseline="bytes that have to be moved" if simulated else "a plain copy in the same run",
        reproduction="ascend-infer bench op; inputs of seed 0 and following",
    )
