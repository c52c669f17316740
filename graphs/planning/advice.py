"""Warnings about a plan that need more than its sizes: traffic, streams, the model, the context."""

from __future__ import annotations

from collections.abc import Iterator

from graphs.buckets import BucketPlan, PlanWarning
from graphs.planning.cost import StepCost
from graphs.planning.histogram import Steps
from graphs.planning.plan import plan_buckets, plan_cost
from graphs.planning.shape import StepBytes
from graphs.planning.streams import StreamDemand

#: KV bytes over weight bytes from which a step's time is mostly attention.
ATTENTION_DOMINATES = 1.0
#: A list that pads this many times more than the best one of equal length is worth replacing.
_BETTER_PLAN = 2


def off_stride(plan: BucketPlan, given: BucketPlan) -> Iterator[PlanWarning]:
    """What vLLM makes of the list `given`: `plan`, which has the sizes up to `max_num_seqs` only.

    Its dispatcher has no full decode graphs beyond, so a larger size does not help: batches between
    the largest size of `plan` and `max_num_seqs` leave the full graph. For pieces, `plan` is
    `given` as it stands.
    """
    beyond = [size for size in given.sizes if size not in plan.sizes]
    if beyond:
        yield PlanWarning(
            kind="unreachable-bucket",
            message=(
                f"{beyond} are larger than max_num_seqs={plan.max_batch}: no decode batch reaches "
                "them; in piecewise modes they are captured for mixed batches only"
            ),
        )
    largest = plan.max_batch
    if largest is None or plan.largest >= largest:
        return
    settings = " or ".join(str(n) for n in (plan.largest, -(-largest // 8) * 8) if n)
    yield PlanWarning(
        kind="off-stride-max-batch",
        severity="error",
        message=(
            f"max_num_seqs={largest} is not a capture size, so at full load batches of "
            f"{plan.largest + 1} to {largest} leave the decode graph (vllm-ascend#16049 "
            f"reports steps 7.5 times slower); add {largest} to cudagraph_capture_sizes, or set "
            f"max_num_seqs to {settings} and capture that"
        ),
    )


def never_wins(plan: BucketPlan, cost: StepCost) -> Iterator[PlanWarning]:
    """Sizes whose steps would cost the same in the next larger graph."""
    losing = [
        size
        for size, larger in zip(plan.sizes, plan.sizes[1:], strict=False)
        if cost.of(size) == cost.of(larger)
    ]
    if losing:
        yield PlanWarning(
            kind="never-wins",
            message=(
                f"by the cost model the graphs for {losing} are no faster than the next larger "
                f"one: up to {cost.free_rows} rows a step costs the same; remove them"
            ),
        )


def better_sizes(plan: BucketPlan, steps: Steps, cost: StepCost) -> Iterator[PlanWarning]:
    """The same number of graphs, placed otherwise, would pad far less."""
    largest = plan.max_batch or plan.largest
    served = {size: count for size, count in steps.items() if size <= min(plan.largest, largest)}
    if not served:
        return
    # Compared over the steps that the list serves at all, and over sizes that a batch can reach.
    best = plan_buckets(max(served), served, max_graphs=len(plan.sizes), cost=cost)
    floor = sum(cost.of(size) * count for size, count in served.items() if size)
    wasted = plan_cost(plan, served, cost) - floor
    if wasted > _BETTER_PLAN * (best.total_cost - floor) and wasted > 0:
        yield PlanWarning(
            kind="better-sizes",
            message=(
                f"padding costs {float(wasted):,.6g}, and {float(best.total_cost - floor):,.6g} "
                f"with {len(best.plan.sizes)} graphs for {list(best.plan.sizes)}"
            ),
        )


def streams(demand: StreamDemand) -> Iterator[PlanWarning]:
    """Capture would use up the device's streams, or leave too few for everything else."""
    needed, limit, topology = demand.needed, demand.limit, demand.topology
    if needed <= demand.budget:
        return
    exceeded = needed > limit.streams
    what = (
        f"{limit.chips} have {limit.streams}: capture fails with 207008, 207005 or `Alloc sq cq "
        "fail`"
        if exceeded
        else f"that leaves {limit.streams - needed} of {limit.streams} ({limit.chips}) for torch, "
        "communication and other processes of the device; vllm-ascend kept 248"
    )
    remedy = f"capture at most {demand.most_sizes} sizes"
    if topology.pieces:
        remedy += f", or full decode graphs, which take {demand.full_streams} streams for all sizes"
    if topology.comm_groups and not topology.aiv:
        remedy += "; HCCL_OP_EXPANSION_MODE=AIV halves the streams of communication"
    yield PlanWarning(
        kind="streams-exceeded" if exceeded else "streams-scarce",
        severity="error" if exceeded else "warning",
        message=(
            f"{demand.num_sizes} sizes need {needed} streams ({topology.full_graphs} full graphs "
            f"and {topology.pieces} pieces per size, {topology.streams_per_graph} streams per "
            f"graph), and {what}; {remedy}"
        ),
    )


def attention(step: StepBytes, rows: int, context: int) -> Iterator[PlanWarning]:
    """At this context a step is mostly attention, which a graph does not make faster.

    What is known: in vllm-ascend#7723 (Qwen3-Coder-480B, one request) a step took 56 ms replayed
    and 171 ms eager at 256k tokens, 125 and 165 ms at 512k, 191 and 165 ms at 768k, 256 and 250 ms
    at 1M. Eager time is flat as long as the host is the slower side; replay time grows with the
    keys and values. Why replay is the slower one beyond that is not established in the thread.
    """
    if step.ratio < ATTENTION_DOMINATES:
        return
    yield PlanWarning(
        kind="attention-dominates",
        message=(
            f"{rows} rows of {context:,} tokens: a step reads {step.ratio:.1f} times as many "
            "bytes of keys and values as of weights: a graph saves launches, not attention, so "
            "expect little, and check that it is not slower than eager (vllm-ascend#7723: 3.1 "
            "times faster at 256k tokens, 1.3 at 512k, slower from 768k on)"
        ),
    )
