"""The decode block: the first layers of a model with its head, as one decode step.

Small enough to run under every schedule, and complete: all operators in their real
order and shapes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch

from ascend_infer.devices import Device, open_device
from ascend_infer.generation import running
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.weights import WeightSource
from ascend_infer.progress import Reporter, Silent
from ascend_infer.reference_check import rounding_limit
from ascend_infer.session import Session, SessionOptions, open_session
from ascend_infer.simulation import SCHEDULES, SimulationOptions
from ascend_infer.verification.ops import differing_runs
from ascend_infer.verification.replay import ReplayOptions, replay_results
from ascend_infer.verification.result import CheckReport, CheckResult
from graphs.batch import DecodeBatch
from kernels_npu.errors import SimulationError


@dataclass(frozen=True, kw_only=True)
class FirstLayers:
    """A weight source with only the first `layers` of `base`."""

    base: WeightSource
    layers: int

    @property
    def path(self) -> Path:
        """Where the whole model is."""
        return self.base.path

    @property
    def config(self) -> ModelConfig:
        """The whole model's, with fewer layers."""
        layers = min(self.layers, self.base.config.num_layers)
        return dataclasses.replace(self.base.config, num_layers=layers)

    def names(self) -> frozenset[str]:
        """Tensors of the whole model; the others are never asked for."""
        return self.base.names()

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor of the whole model."""
        return self.base.tensor(name)


def verify_block(
    source: WeightSource,
    device: Device,
    options: SessionOptions,
    *,
    layers: int,
    replay: ReplayOptions,
    simulation: SimulationOptions,
    reporter: Reporter | None = None,
) -> CheckReport:
    """One decode step of `layers` layers on `device`.

    It is compared with the references on the CPU, under every schedule of the simulated NPU, and
    eager with replay for every bucket.
    """
    report = reporter or Silent()
    options.require_room_to_verify()
    block = FirstLayers(base=source, layers=layers)
    report.stage("load the block")
    session = open_session(block, device, options)
    batch, content = _scenario(session)
    schedules = SCHEDULES if device.name == "sim" else ((simulation.schedule, simulation.seed),)
    runs: dict[str, torch.Tensor] = {}
    results: list[CheckResult] = []
    report.stage("decode under schedules", total=len(schedules))
    for schedule, seed in schedules:
        name = f"{schedule} {seed}" if schedule == "random" else schedule
        settings = dataclasses.replace(simulation, schedule=schedule, seed=seed)
        with running(device.name, strict=options.strict, simulation=settings):
            try:
                runs[name] = _step(session, batch, content)
            except SimulationError as error:
                results.append(_hazard(name, error, device))
        report.step()
    if runs:
        exact = _on_cpu(block, options, batch, content, "float32")
        rounded = _on_cpu(block, options, batch, content, options.dtype)
        results.append(_against_cpu(runs, exact, rounded, session, device))
    if len(runs) > 1:
        results.append(_same_bits(runs, device))
    with running(device.name, strict=options.strict, simulation=simulation):
        report.stage("capture graphs")
        session.runner.capture()
        checked, notes = replay_results(session, "decode block", replay, report)
    return CheckReport(
        scope="block", device=device.name, results=(*results, *checked), notes=tuple(notes)
    )


Content = dict[str, torch.Tensor]


def _scenario(session: Session) -> tuple[DecodeBatch, Content]:
    """A batch of different lengths over scattered blocks of a cache with random content."""
    config, cache = session.model.config, session.model.cache
    generator = torch.Generator().manual_seed(0)
    rows, size = session.options.max_batch, cache.block_size
    blocks = torch.randperm(cache.num_blocks, generator=generator).tolist()
    per_row = min(cache.num_blocks // rows, session.runner.buffers.max_blocks)
    longest = min(per_row * size, config.max_position)
    lengths = [max(1, longest - row * (size // 2 + 1)) for row in range(rows)]
    table = [blocks[row * per_row : (row + 1) * per_row] for row in range(rows)]
    positions = [length - 1 for length in lengths]
    batch = DecodeBatch.from_lists(
        token_ids=torch.randint(config.vocab_size, (rows,), generator=generator).tolist(),
        positions=positions,
        slot_mapping=[t[p // size] * size + p % size for t, p in zip(table, positions)],
        block_table=table,
        seq_lens=lengths,
    )
    content = {
        name: torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        for name, tensor in cache.by_name().items()
    }
    return batch, content


def _step(session: Session, batch: DecodeBatch, content: Content) -> torch.Tensor:
    """Logits of one eager step from the given cache content, on the host."""
    for name, tensor in session.model.cache.by_name().items():
        tensor.copy_(content[name])
    return session.runner.run_eager(batch).cpu()


def _on_cpu(
    block: WeightSource,
    options: SessionOptions,
    batch: DecodeBatch,
    content: Content,
    dtype: str,
) -> torch.Tensor:
    """The same step by the references, in `dtype` from the same cache content, as float32."""
    plain = dataclasses.replace(options, dtype=dtype, graph=False, strict=False)
    session = open_session(block, open_device("cpu"), plain)
    with torch.no_grad():
        return _step(session, batch, content).float()


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far logits are from the exact ones: of the worst row (root mean square) and value."""

    row: float
    value: float

    @classmethod
    def between(cls, exact: torch.Tensor, other: torch.Tensor) -> Distance:
        """Of `[rows, vocab]` in float32; infinite where one is not finite."""
        difference = (other.float() - exact).abs().nan_to_num(nan=float("inf"))
        return cls(
            row=float(difference.square().mean(dim=-1).sqrt().max()), value=float(difference.max())
        )


def _against_cpu(
    runs: dict[str, torch.Tensor],
    exact: torch.Tensor,
    rounded: torch.Tensor,
    session: Session,
    device: Device,
) -> CheckResult:
    """The worst run against the references in float32.

    How much rounding every layer's result to the dtype costs depends on depth, weights and cache
    content, so it is measured: the references are run in the dtype too. Another correct
    computation of the same step rounds elsewhere and is off by about as much.
    """
    own = Distance.between(exact, rounded)
    limits = Distance(
        row=rounding_limit(own.row, exact, session.model.dtype, session.model.num_layers),
        value=rounding_limit(own.value, exact, session.model.dtype, session.model.num_layers),
    )
    distances = [Distance.between(exact, run) for run in runs.values()]
    worst = Distance(row=max(d.row for d in distances), value=max(d.value for d in distances))
    return CheckResult(
        subject="decode block",
        check="references in float32",
        passed=worst.row <= limits.row and worst.value <= limits.value,
        detail=f"worst row off by {worst.row:.3g} (rms), limit {limits.row:.3g}; worst logit by "
        f"{worst.value:.3g}, limit {limits.value:.3g}; the references in {session.options.dtype} "
        f"are off by {own.row:.3g} and {own.value:.3g}",
        evidence=device.evidence,
        values={
            "max_abs_logit_diff": worst.value,
            "tolerance": limits.value,
            "row_rms_diff": worst.row,
            "row_rms_limit": limits.row,
            "reference_rounding": {"row_rms": own.row, "max_abs": own.value},
        },
    )


def _same_bits(runs: dict[str, torch.Tensor], device: Device) -> CheckResult:
    differing = differing_runs([{"logits": run} for run in runs.values()], list(runs))
    return CheckResult(
        subject="decode block",
        check="schedules",
        passed=not differing,
        detail=f"bits differ under {', '.join(differing)}"
        if differing
        else f"same bits under {', '.join(runs)}",
        evidence=device.evidence,
        values={"schedules": list(runs), "differing": differing},
    )


def _hazard(schedule: str, error: SimulationError, device: Device) -> CheckResult:
    return CheckResult(
        subject="decode block",
        check=f"no hazard ({schedule})",
        passed=False,
        detail=str(error),
        evidence=device.evidence,
        values={"error": error.to_dict()},
    )
