"""What was built and called in this process: the proof that an operator really serves.

vLLM swallows errors of a plugin's import and serves without it, so that nothing but a count proves
anything. Launches of kernels are counted by `kernels_npu.registry`, replays of graphs by nobody:
a captured launch is counted once, when it is captured.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

logger = logging.getLogger("vllm.ascend_infer")

#: (operator, "ascend-infer", or the reason why the host's serves) -> layers that were built so.
layers: Counter[tuple[str, str]] = Counter()
#: The same, -> calls of decode attention; those inside a replayed graph are not seen.
attention_calls: Counter[str] = Counter()
OURS = "ascend-infer"
_warned: set[tuple[str, str]] = set()


def built(op: str, reason: str | None) -> None:
    """A layer was built with our operator, or for `reason` with the host's."""
    layers[op, reason or OURS] += 1
    if reason is not None:
        warn(op, reason)


def attended(reason: str | None) -> None:
    """Attention was called, with our kernel or for `reason` with the host's."""
    attention_calls[reason or OURS] += 1


def warn(op: str, reason: str) -> None:
    """Say once per process why the host's operator serves."""
    if (op, reason) not in _warned:
        _warned.add((op, reason))
        logger.warning("ascend-infer: the host's %s serves: %s", op, reason)


def as_json() -> dict[str, Any]:
    """The counts, JSON-ready."""
    by_op: dict[str, dict[str, int]] = {}
    for (op, who), count in sorted(layers.items()):
        by_op.setdefault(op, {})[who] = count
    return {"layers": by_op, "attention_calls": dict(sorted(attention_calls.items()))}
