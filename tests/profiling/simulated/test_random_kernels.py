"""Random kernels: what cores counted adds up, is the same under every schedule, and makes sense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels_npu import sim
from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.fuzzing.cases import Case, build, device_arguments
from kernels_npu.sim.fuzzing.cube_kernels import draw_cube_kernel
from kernels_npu.sim.fuzzing.draw import Draw, RandomDraw
from kernels_npu.sim.fuzzing.vector_kernels import draw_vector_kernel
from kernels_npu.sim.machine import LaunchRecord
from profiling import FileKind
from profiling.analysis import core_times, traffic_of
from profiling.simulated import kernel_of


def launched(case: Case, schedule: str, trace: Path) -> LaunchRecord:
    kernel = build(case.text)
    arguments, _ = device_arguments(kernel, case.arguments)
    config = SimConfig(schedule=schedule, seed=3, checks=Checks.none(), count_cores=True)
    with sim.trace(trace, events=1):
        return kernel.launch(arguments, config)


@pytest.mark.parametrize("make", [draw_vector_kernel, draw_cube_kernel])
def test_counters_of_random_kernels(make: Callable[[Draw], Case], tmp_path: Path) -> None:
    for number in range(12):
        case = make(RandomDraw(number))
        record = launched(case, "eager", tmp_path / "t.json")
        counters, cores = record.counters, record.cores
        for name in ("gm_paths", "instructions", "cycles"):
            total: Counter[str] = Counter()
            for core in cores:
                total.update(getattr(core, name))
            assert dict(total) == getattr(counters, name), case.text
        # The order of effects changes nothing about what is executed.
        for schedule in ("late", "random"):
            assert launched(case, schedule, tmp_path / "t.json").cores == cores, case.text
        kernel = kernel_of(record, 0)
        traffic = traffic_of(kernel)
        assert traffic is not None
        assert traffic.total == sum(counters.gm_paths.values())
        assert traffic.read == sum(counters.gm_read.values())
        assert traffic.written == sum(counters.gm_written.values())
        for core in core_times(kernel):
            assert core.unit == "cycles"
            assert all(0 <= core.share(pipe) <= 1 for pipe in core.pipes), case.text
        for row in kernel.rows(FileKind.ARITHMETIC):
            for side, unit in (("aic", "cube"), ("aiv", "vec")):
                whole = row.number(f"{side}_{unit}_ratio")
                parts = [
                    row.number(key) or 0.0
                    for key in row
                    if key.startswith(f"{side}_{unit}_") and key.endswith("_ratio")
                ]
                if whole is not None:
                    assert sum(parts) - whole <= whole + 1e-5, case.text
