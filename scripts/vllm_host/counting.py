"""What the device of a worker counted; called in the worker's process by `collective_rpc`."""

from __future__ import annotations

import dataclasses
from typing import Any

from kernels_npu.sim.device import counters


def take(worker: object) -> dict[str, Any]:
    """The counts since the last call, as JSON."""
    snapshot = counters.snapshot()
    counters.reset()
    values = {f.name: getattr(snapshot, f.name) for f in dataclasses.fields(snapshot)}
    return {k: v if isinstance(v, int) else dict(v) for k, v in values.items()}
