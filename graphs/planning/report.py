"""Everything that is known of one plan: sizes, padding, streams, memory, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphs.buckets import BucketPlan, PaddingReport, PlanWarning
from graphs.planning import advice
from graphs.planning.cost import StepCost
from graphs.planning.defaults import full_decode_sizes
from graphs.planning.histogram import Steps, uniform
from graphs.planning.memory import GraphMemory, graph_memory
from graphs.planning.shape import ModelShape, StepBytes
from graphs.planning.streams import StreamDemand, StreamLimit, Topology
from kernels_npu.evidence import Evidence

_SAME_AS_OFF_STRIDE = ("largest-batch-not-captured", "leaves-graph")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a plan is judged against.

    Attributes:
        steps: batch size -> decode steps; None when nothing is known of the traffic.
        cost: of a step.
        limit, topology: streams of the device, and what one capture size is made of.
        shape: the model; None leaves memory and attention out.
        context: tokens per sequence; None leaves attention out.
        block_size: tokens per cache block.
        dispatch: who picks the graph of a batch. The runner of this toolkit uses any size that is
            large enough, as vLLM does for pieces; for full decode graphs vLLM leaves out sizes
            above `max_num_seqs`.
    """

    steps: Steps | None = None
    cost: StepCost = field(default_factory=StepCost)
    limit: StreamLimit
    topology: Topology
    shape: ModelShape | None = None
    context: int | None = None
    block_size: int = 128
    dispatch: Literal["runner", "vllm"] = "runner"


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """A plan under given conditions; every figure is modelled.

    plan: the sizes that decode steps can use.
    padding: over the histogram, or over one step of every batch size when there is none.
    traffic: which of the two.
    memory: None without a model.
    step_bytes: of a step of the largest batch; None without a model and a context.
    """

    plan: BucketPlan
    padding: PaddingReport
    traffic: Literal["given", "uniform"]
    streams: StreamDemand
    memory: GraphMemory | None
    step_bytes: StepBytes | None
    warnings: tuple[PlanWarning, ...]

    @property
    def passed(self) -> bool:
        """Whether every batch is served by a graph and every graph can be captured."""
        return all(warning.severity != "error" for warning in self.warnings)

    def to_dict(self) -> dict[str, object]:
        return {
            "evidence": str(Evidence.MODELLED),
            "passed": self.passed,
            "sizes": list(self.plan.sizes),
            "max_batch": self.plan.max_batch,
            "capture_order": list(self.plan.capture_order),
            "traffic": self.traffic,
            "padding": self.padding.to_dict(),
            "streams": self.streams.to_dict(),
            "memory": None if self.memory is None else self.memory.to_dict(),
            "step_bytes": None if self.step_bytes is None else self.step_bytes.to_dict(),
            "warnings": [warning.to_dict() for warning in self.warnings],
        }


def assess(given: BucketPlan, conditions: Conditions) -> PlanReport:
    """What the sizes `given` cost and what is wrong with them under `conditions`."""
    plan, largest = given, given.max_batch or given.largest
    warnings: list[PlanWarning] = []
    if conditions.dispatch == "vllm":
        if conditions.topology.full_graphs:
            plan = BucketPlan(full_decode_sizes(given.sizes, largest), max_batch=largest)
        warnings += advice.off_stride(plan, given)
    steps = uniform(largest) if conditions.steps is None else conditions.steps
    demand = StreamDemand(
        topology=conditions.topology,
        num_sizes=len(given.sizes),
        num_full_sizes=len(plan.sizes),
        limit=conditions.limit,
    )
    explained = {warning.kind for warning in warnings}
    warnings += [
        warning
        for warning in plan.warnings(conditions.steps)
        # Said already, in vLLM's terms.
        if not ("off-stride-max-batch" in explained and warning.kind in _SAME_AS_OFF_STRIDE)
    ]
    warnings += advice.never_wins(plan, conditions.cost)
    if conditions.steps is not None:
        warnings += advice.better_sizes(plan, conditions.steps, conditions.cost)
    warnings += advice.streams(demand)
    memory, step_bytes, shape = None, None, conditions.shape
    if shape is not None and plan.sizes:
        memory = graph_memory(
            shape,
            max_batch=(given if conditions.topology.pieces else plan).largest,
            max_blocks=-(-(conditions.context or 1) // conditions.block_size),
            block_size=conditions.block_size,
        )
    if shape is not None and conditions.context is not None:
        step_bytes = shape.step_bytes(largest, conditions.context)
        warnings += advice.attention(step_bytes, largest, conditions.context)
    return PlanReport(
        plan=plan,
        padding=plan.padding(steps),
        traffic="uniform" if conditions.steps is None else "given",
        streams=demand,
        memory=memory,
        step_bytes=step_bytes,
        warnings=tuple(warnings),
    )
