"""Which batch sizes to capture: exact plans, limits of the device, and checks of given lists.

planned = plan_buckets(256, parse_trace(text), max_graphs=16)
report = assess(planned.plan, Conditions(limit=stream_limit("Ascend910B3"), topology=Topology()))
"""

from __future__ import annotations

from graphs.planning.cost import StepCost
from graphs.planning.defaults import RULES, default_sizes, full_decode_sizes
from graphs.planning.grid import CellCost, GridPlan, plan_grid
from graphs.planning.histogram import parse_histogram, parse_joint_trace, parse_trace
from graphs.planning.memory import GraphMemory, graph_memory
from graphs.planning.plan import PlannedBuckets, plan_buckets, plan_cost
from graphs.planning.report import Conditions, PlanReport, assess
from graphs.planning.shape import ModelShape
from graphs.planning.streams import CaptureMode, StreamDemand, Topology, stream_limit

__all__ = [
    "CaptureMode",
    "CellCost",
    "Conditions",
    "GraphMemory",
    "GridPlan",
    "ModelShape",
    "PlanReport",
    "PlannedBuckets",
    "RULES",
    "StepCost",
    "StreamDemand",
    "Topology",
    "assess",
    "default_sizes",
    "full_decode_sizes",
    "graph_memory",
    "parse_histogram",
    "parse_joint_trace",
    "parse_trace",
    "plan_buckets",
    "plan_cost",
    "plan_grid",
    "stream_limit",
]
