"""Running operators on the simulated NPU and judging them by their `OpSpec`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from kernels_npu.spec import OpSpec, Tolerance, Workload


@dataclass(frozen=True)
class Outcome:
    """What an operator gave: tensors (results, updated arguments) by name, and simulated bytes."""

    tensors: dict[str, torch.Tensor]
    expected: dict[str, torch.Tensor]
    gm_read: dict[str, int]
    gm_written: dict[str, int]
    blocks: int
    launches: int


def assert_close(name: str, got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> None:
    """Fail with the number of mismatches, the worst element, its place and both values."""
    assert got.shape == want.shape
    got, want = got.double(), want.double()
    limit = tolerance.atol + tolerance.rtol * want.abs()
    both_nan = got.isnan() & want.isnan()  # unwritten cache slots are NaN on both sides
    bad = ~((got - want).abs() <= limit) & ~both_nan
    if bad.any():
        excess = torch.where(bad, ((got - want).abs() - limit).nan_to_num(torch.inf), -torch.inf)
        place = torch.unravel_index(excess.argmax(), got.shape)
        where = tuple(int(i) for i in place)
        pytest.fail(
            f"{name}: {int(bad.sum())} of {got.numel()} elements differ; worst at {where}: "
            f"{got[where].item()} instead of {want[where].item()} "
            f"(tolerance {limit[where].item():.3g}: {tolerance.reason})"
        )


@pytest.fixture
def npu() -> torch.device:
    """The simulated device."""
    from kernels_npu.sim import device

    device.enable()
    return torch.device("npu", 0)


@pytest.fixture
def run(npu: torch.device) -> Callable[..., Outcome]:
    """`run(spec, dims, dtype)`: the operator on the simulated NPU and its reference in float64."""
    from kernels_npu import ops
    from kernels_npu.sim.reporting import collect_report

    def run_spec(
        spec: OpSpec, dims: dict[str, Any], dtype: torch.dtype, seed: int = 0, judge: bool = True
    ) -> Outcome:
        generator = torch.Generator().manual_seed(seed)
        inputs = spec.make_inputs(Workload(name="test", dims=dims), dtype, "cpu", generator)
        on_npu = {k: v.to(npu) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
        wide = {
            k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for k, v in inputs.items()
        }
        with collect_report() as report:
            out = getattr(ops, spec.name)(**on_npu)
        assert report.findings == ()  # no warning either
        expected = spec.outputs(spec.reference(**wide), wide)
        tensors = {name: tensor.cpu() for name, tensor in spec.outputs(out, on_npu).items()}
        if judge:
            for name, tensor in tensors.items():
                tolerance = spec.tolerance[str(dtype).removeprefix("torch.")]
                assert_close(f"{spec.name} {name}", tensor, expected[name], tolerance)
        totals = report.kernels.get(spec.name)
        return Outcome(
            tensors=tensors,
            expected=expected,
            gm_read=dict(totals.gm_read) if totals else {},
            gm_written=dict(totals.gm_written) if totals else {},
            blocks=totals.blocks if totals else 0,
            launches=totals.launches if totals else 0,
        )

    return run_spec


@pytest.fixture
def assert_traffic() -> Callable[[Outcome, OpSpec, dict[str, Any], torch.dtype], None]:
    """Bytes counted by the simulator are those of the formula, tensor by tensor."""

    def check(outcome: Outcome, spec: OpSpec, dims: dict[str, Any], dtype: torch.dtype) -> None:
        formula = spec.traffic(Workload(name="test", dims=dims), str(dtype).removeprefix("torch."))
        counted = {
            name: (outcome.gm_read.get(name, 0), outcome.gm_written.get(name, 0))
            for name in {*outcome.gm_read, *outcome.gm_written}
        }
        expected = {
            name: (t.read, t.written)
            for name, t in formula.items()
            if (t.read or t.written) and not t.scalar
        }
        assert {n: v for n, v in counted.items() if any(v)} == expected

    return check


@pytest.fixture
def fresh_counts() -> Iterator[None]:
    """Launch counters at zero before and after."""
    from kernels_npu import registry

    registry.reset_launch_counts()
    yield
    registry.reset_launch_counts()


DTYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(params=DTYPES, ids=["fp16", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Both dtypes that kernels take."""
    value: torch.dtype = request.param
    return value
