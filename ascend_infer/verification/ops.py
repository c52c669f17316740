"""Operators: each kernel against its reference, under several schedules of the simulated NPU.

A schedule decides when asynchronous effects land. A kernel with all its synchronisation in place
gives the same bits under every one of them; its distance from the reference is judged by the
operator's own tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ascend_infer.devices import Device
from ascend_infer.progress import Reporter, Silent
from ascend_infer.simulation import SCHEDULES, SimulationOptions, simulating
from ascend_infer.verification.result import CheckReport, CheckResult
from kernels_npu import ops, registry
from kernels_npu.errors import SimulationError, UsageError
from kernels_npu.spec import OpSpec, Tolerance, Workload, all_specs

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}

#: Results of one call: the returned tensor and every argument changed in place, by
#: name, on the host.
Outputs = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class OpsOptions:
    """names: operators, empty for all. max_bytes: larger workloads are left out, and noted."""

    names: tuple[str, ...] = ()
    max_bytes: int = 4 << 20
    checks: str = "on"
    seed: int = 0
    precise: bool = False


def verify_ops(
    device: Device, options: OpsOptions, reporter: Reporter | None = None
) -> CheckReport:
    """Every operator, workload and dtype on `device`; several schedules if it is simulated.

    Raises:
        UsageError: AI-CLI-001 for an operator that does not exist.
    """
    report = reporter or Silent()
    chosen, skipped = cases(options)
    results: list[CheckResult] = []
    report.stage("verify operators", total=len(chosen))
    with torch.no_grad(), registry.strict():
        for spec, workload, dtype in chosen:
            results += _verify(spec, workload, dtype, device, options)
            report.step()
    notes = [f"{len(skipped)} workloads above {options.max_bytes:,} bytes left out"]
    return CheckReport(
        scope="ops",
        device=device.name,
        results=tuple(results),
        notes=tuple(notes if skipped else ()),
    )


def cases(options: OpsOptions) -> tuple[list[tuple[OpSpec, Workload, str]], list[str]]:
    """What to run: (operator, workload, dtype); and what is left out, in words.

    Raises:
        UsageError: AI-CLI-001 for an operator that does not exist.
    """
    specs = all_specs()
    unknown = sorted(set(options.names) - set(specs))
    if unknown:
        raise UsageError(
            "AI-CLI-001",
            f"no operator {', '.join(map(repr, unknown))}",
            rule=f"operators: {', '.join(specs)}",
            fix="correct the name",
        )
    chosen, skipped = [], []
    for name in options.names or specs:
        for workload in specs[name].workloads:
            for dtype in specs[name].tolerance:
                if dtype not in _DTYPES:
                    continue
                if specs[name].min_bytes(workload, dtype) <= options.max_bytes:
                    chosen.append((specs[name], workload, dtype))
                else:
                    skipped.append(f"{name} {workload.name} {dtype}")
    return chosen, skipped


def _verify(
    spec: OpSpec, workload: Workload, dtype: str, device: Device, options: OpsOptions
) -> Iterator[CheckResult]:
    subject = f"{spec.name} {workload.name} {dtype}"
    on_host = inputs_of(spec, workload, dtype, "cpu", options.seed)
    expected = outputs_of(spec.reference, on_host, spec)
    schedules = SCHEDULES if device.name == "sim" else (("", 0),)
    runs: dict[str, Outputs] = {}
    for schedule, seed in schedules:
        name = f"{schedule} {seed}" if schedule == "random" else schedule
        inputs = inputs_of(spec, workload, dtype, device.torch_device, options.seed)
        try:
            if schedule:
                simulation = SimulationOptions(
                    checks=options.checks, schedule=schedule, seed=seed, precise=options.precise
                )
                with simulating(simulation):
                    runs[name] = outputs_of(getattr(ops, spec.name), inputs, spec)
            else:
                runs[name] = outputs_of(getattr(ops, spec.name), inputs, spec)
        except SimulationError as error:
            yield CheckResult(
                subject=subject,
                check=f"no hazard ({name})",
                passed=False,
                detail=str(error),
                evidence=device.evidence,
                values={"error": error.to_dict()},
            )
    if not runs:
        return
    yield _against_reference(subject, expected, runs, spec.tolerance[dtype], device)
    if len(schedules) > 1:
        yield _same_bits(subject, runs, device)


def inputs_of(
    spec: OpSpec, workload: Workload, dtype: str, device: Any, seed: int
) -> dict[str, Any]:
    """The same numbers on every device: the generator is the host's."""
    generator = torch.Generator().manual_seed(seed)
    return spec.make_inputs(workload, _DTYPES[dtype], device, generator)


def outputs_of(function: Any, inputs: dict[str, Any], spec: OpSpec) -> Outputs:
    """Call `function` and bring to the host what it returned and what it changed in place."""
    outputs = spec.outputs(function(**inputs), inputs)
    return {name: tensor.cpu() for name, tensor in outputs.items()}


def _against_reference(
    subject: str,
    expected: Outputs,
    runs: Mapping[str, Outputs],
    tolerance: Tolerance,
    device: Device,
) -> CheckResult:
    """The worst output of all runs, as a share of what the tolerance allows."""
    worst, largest = 0.0, 0.0
    for outputs in runs.values():
        for name, values in outputs.items():
            share, difference = excess(values, expected[name], tolerance)
            worst, largest = max(worst, share), max(largest, difference)
    return CheckResult(
        subject=subject,
        check="reference",
        passed=worst <= 1.0,
        detail=f"largest difference {largest:.3g}, {worst:.0%} of the tolerance",
        evidence=device.evidence,
        values={"max_abs_diff": largest, "share_of_tolerance": worst},
    )


def excess(
    actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
) -> tuple[float, float]:
    """Largest difference as a share of `atol + rtol * |expected|`, and absolutely.

    Equal values, not-a-numbers in the same place included, differ by nothing.
    """
    if actual.numel() == 0:
        return 0.0, 0.0
    a, b = actual.double(), expected.double()
    difference = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    difference = difference.nan_to_num(nan=float("inf"))
    allowed = tolerance.atol + tolerance.rtol * b.abs().nan_to_num(nan=0.0, posinf=0.0)
    share = torch.where(difference == 0, 0.0, difference / allowed)
    return float(share.max()), float(difference.max())


def _same_bits(subject: str, runs: Mapping[str, Outputs], device: Device) -> CheckResult:
    differing = differing_runs(list(runs.values()), list(runs))
    return CheckResult(
        subject=subject,
        check="schedules",
        passed=not differing,
        detail=f"bits differ under {', '.join(differing)}"
        if differing
        else f"same bits under {', '.join(runs)}",
        evidence=device.evidence,
        values={"schedules": list(runs), "differing": differing},
    )


def differing_runs(runs: Sequence[Outputs], names: Sequence[str]) -> list[str]:
    """Names of the runs whose outputs are not those of the first, bit by bit."""
    return [
        name
        for run, name in zip(runs[1:], names[1:])
        if any(not same_bits(tensor, runs[0][key]) for key, tensor in run.items())
    ]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two host tensors hold the same bytes."""
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
