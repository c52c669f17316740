"""Which implementation ran how often, eager launches and graph replays together."""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu import registry


def launch_counts() -> dict[str, dict[str, int]]:
    """Launches since `reset_launch_counts`, per operator and implementation.

    A launch that is captured into a graph counts when the graph is replayed. The simulated device
    counts its kernels itself; everything else, references that stand in for a kernel included, is
    counted by what was recorded.
    """
    counts: dict[str, dict[str, int]] = {}
    for (op, implementation), launches in registry.launch_counts().items():
        counts.setdefault(op, {})[implementation] = launches
    return {op: dict(sorted(by.items())) for op, by in sorted(counts.items())}


def reset_launch_counts() -> None:
    """Start counting from zero."""
    registry.reset_launch_counts()


def implementations(counts: Mapping[str, Mapping[str, int]]) -> frozenset[str]:
    """All implementations that ran at least once."""
    return frozenset(name for by in counts.values() for name, launches in by.items() if launches)
