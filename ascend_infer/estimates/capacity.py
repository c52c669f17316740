"""How many sequences fit into a device's memory beside the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ascend_infer.estimates.kv import KvLedger
from kernels_npu.errors import UsageError

FORMULA = "(memory x (1 - reserve) - weights - workspace) / bytes of a sequence's blocks"
ASSUMPTIONS = (
    "the reserve covers activations, graphs, communication buffers, the runtime and fragments",
    "sequences are equally long and share no prefix",
    "the size of a checkpoint on disk is not what its weights take after loading",
)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Memory of one rank. context -> sequences in `sequences`; all sizes in bytes.

    workspace: that kernels hold beside the reserve, given by the caller.
    """

    memory: int
    reserve: float
    weights: int
    workspace: int
    token_bytes: int
    block_bytes: int
    sequences: dict[int, int]

    @property
    def usable(self) -> float:
        return self.memory * (1 - self.reserve)

    @property
    def kv_budget(self) -> float:
        """What is left for keys and values; below zero where the weights do not fit."""
        return self.usable - self.weights - self.workspace

    @property
    def fits(self) -> bool:
        """Whether at least one sequence of each context fits."""
        return self.kv_budget > 0 and all(self.sequences.values())

    @property
    def blocks(self) -> int:
        return max(int(self.kv_budget // self.block_bytes), 0)

    @property
    def cached_tokens(self) -> int:
        """Tokens of layers without a window that the budget holds."""
        return max(int(self.kv_budget // self.token_bytes), 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        derived = ("usable", "kv_budget", "blocks", "cached_tokens", "fits")
        return vars(self) | {name: getattr(self, name) for name in derived}


def capacity(
    memory_bytes: int | None,
    weight_bytes: int,
    kv: KvLedger,
    contexts: tuple[int, ...],
    *,
    reserve: float = 0.1,
    workspace_bytes: int = 0,
) -> Capacity:
    """What fits on one rank; `kv` is that rank's ledger.

    Args:
        memory_bytes: of the device; None where the chip's table has none.
        reserve: share of the memory that is kept for everything else.

    Raises:
        UsageError: AI-EST-001 for a memory or reserve that cannot be meant.
    """
    for name, value, holds, rule in (
        ("memory", memory_bytes, memory_bytes is not None and memory_bytes > 0, "known, above 0"),
        ("reserve", reserve, math.isfinite(reserve) and 0 <= reserve < 1, "from 0 to below 1"),
        ("workspace", workspace_bytes, workspace_bytes >= 0, "at least 0"),
    ):
        if not holds:
            raise UsageError(
                "AI-EST-001",
                f"{name} of the device is {value}",
                rule=f"the {name} is {rule}",
                fix="give --memory-gib" if name == "memory" else f"correct the {name}",
            )
    budget = (memory_bytes or 0) * (1 - reserve) - weight_bytes - workspace_bytes
    return Capacity(
        memory=memory_bytes or 0,
        reserve=reserve,
        weights=weight_bytes,
        workspace=workspace_bytes,
        token_bytes=kv.token_bytes,
        block_bytes=kv.block_bytes,
        sequences={
            context: max(int(budget // kv.allocated_bytes_at(context)), 0) for context in contexts
        },
    )
