"""Streams: the resource of an Ascend device that graph capture uses up first.

Every captured graph holds streams of its device until it is reset, and the limit counts all
processes of the device. When it is reached, capture fails with 207005 or 207008, or the log says
`Alloc sq cq fail`.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from graphs.errors import PlanInputError

#: Streams that vllm-ascend up to 0.18 kept out of its budget for everything but graphs.
RESERVED = 248


class CaptureMode(str, enum.Enum):
    """What is captured per size, in vLLM's names."""

    FULL = "full"
    PIECEWISE = "piecewise"
    FULL_AND_PIECEWISE = "full-and-piecewise"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class StreamLimit:
    """Streams of one device; `pattern` matches SoC names in small letters, without blanks."""

    chips: str
    streams: int
    pattern: str
    source: str = "CANN runtime, docs/api_ref/06_stream_management.md"


STREAM_LIMITS: tuple[StreamLimit, ...] = (
    StreamLimit(chips="Atlas 310P", streams=1024, pattern=r"(ascend)?310p\d*"),
    StreamLimit(chips="Atlas 310B", streams=512, pattern=r"(ascend)?310b\d*"),
    StreamLimit(
        chips="Atlas A2, A3 and 950",
        streams=1984,
        pattern=r"a[235]|(ascend)?(910b[\d-]+c?|910b|910c|910_93\d\d|950(pr|dt)?(_\w+)?)",
    ),
    StreamLimit(
        chips="910A, the first Atlas training series",
        streams=2048,
        pattern=r"(ascend)?910(a|(pro|premium)[ab]?)?",
    ),
)


def stream_limit(soc: str) -> StreamLimit:
    """The limit of the chip called `soc`: a SoC version, a family, or A2, A3, A5.

    Raises:
        PlanInputError: AI-GRAPH-042 for a name that no chip answers to.
    """
    name = soc.lower().replace(" ", "")
    for limit in STREAM_LIMITS:
        if re.fullmatch(limit.pattern, name):
            return limit
    raise PlanInputError(
        "AI-GRAPH-042",
        f"no stream limit is known for {soc!r}",
        rule="limits are known for " + ", ".join(limit.chips for limit in STREAM_LIMITS),
        fix="name the chip as `npu-smi info` does, for example Ascend910B3, Ascend310P3 or A3",
    )


@dataclass(frozen=True, kw_only=True)
class Topology:
    """What one capture size is made of.

    mode: full graphs, pieces between attention operators, or both.
    num_layers: of the model; a piecewise capture has one graph more than that.
    comm_groups: communication groups in use inside the graph, such as tensor and data parallel.
    aiv: whether collectives run on vector cores (HCCL_OP_EXPANSION_MODE=AIV), so that a group takes
        one stream per graph rather than two.
    side_streams: further streams that are joined to the capture by events.
    """

    mode: CaptureMode = CaptureMode.FULL
    num_layers: int = 0
    comm_groups: int = 0
    aiv: bool = False
    side_streams: int = 0

    def __post_init__(self) -> None:
        pieces = self.mode is not CaptureMode.FULL
        if min(self.comm_groups, self.side_streams, self.num_layers - pieces) < 0:
            raise PlanInputError(
                "AI-GRAPH-042",
                f"{self.num_layers} layers, {self.comm_groups} communication groups, "
                f"{self.side_streams} side streams in mode {self.mode}",
                rule="counts are at least 0, and pieces are counted by layers",
                fix="give the number of layers of the model",
            )

    @property
    def full_graphs(self) -> int:
        """Graphs of the whole step that one size makes."""
        return int(self.mode is not CaptureMode.PIECEWISE)

    @property
    def pieces(self) -> int:
        """Graphs between attention operators that one size makes."""
        return 0 if self.mode is CaptureMode.FULL else self.num_layers + 1

    @property
    def streams_per_graph(self) -> int:
        """Its own, its side streams, and those of its communication groups."""
        return 1 + self.side_streams + self.comm_groups * (1 if self.aiv else 2)

    @property
    def streams_per_size(self) -> int:
        """Streams that all graphs of one size hold."""
        return (self.full_graphs + self.pieces) * self.streams_per_graph


def stream_budget(topology: Topology, limit: StreamLimit) -> int:
    """What graphs may take when everything else on the device needs as much as vllm-ascend assumed.

    Of 2048 streams 1800, the number of vllm-ascend up to 0.18, which also kept 40 for each
    communication group that does not run on vector cores.
    """
    return limit.streams - RESERVED - (0 if topology.aiv else 40 * topology.comm_groups)


def most_sizes(topology: Topology, limit: StreamLimit) -> int:
    """Capture sizes that fit the budget, each captured in every way that `topology` asks for."""
    return stream_budget(topology, limit) // topology.streams_per_size


@dataclass(frozen=True, kw_only=True)
class StreamDemand:
    """The streams of a whole plan beside what there is.

    num_sizes: capture sizes. num_full_sizes: those of them that are captured as full graphs, too;
    vLLM leaves out what is larger than `max_num_seqs`.

    It is a lower bound: a graph with more tasks than a stream holds (2048) takes a further stream,
    and on A3 HCCL's default may hold up to 15 per group.
    """

    topology: Topology
    num_sizes: int
    num_full_sizes: int
    limit: StreamLimit

    @property
    def needed(self) -> int:
        full, pieces = self.topology.full_graphs, self.topology.pieces
        graphs = self.num_full_sizes * full + self.num_sizes * pieces
        return graphs * self.topology.streams_per_graph

    @property
    def budget(self) -> int:
        """See `stream_budget`."""
        return stream_budget(self.topology, self.limit)

    @property
    def most_sizes(self) -> int:
        """Capture sizes that fit the budget."""
        return most_sizes(self.topology, self.limit)

    @property
    def full_streams(self) -> int:
        """What the same sizes would need as full graphs."""
        return self.num_full_sizes * self.topology.streams_per_graph

    def to_dict(self) -> dict[str, object]:
        return {
            "mode": str(self.topology.mode),
            "graphs_per_size": self.topology.full_graphs + self.topology.pieces,
            "streams_per_size": self.topology.streams_per_size,
            "needed": self.needed,
            "budget": self.budget,
            "limit": self.limit.streams,
            "limit_of": self.limit.chips,
            "source": self.limit.source,
            "most_sizes": self.most_sizes,
        }
