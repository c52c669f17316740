"""Which layer differs first: prefixes of the model, captured and compared by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.capture import StepFn
from graphs.compare import Mismatch, Tolerance, find_mismatch
from graphs.kv_state import KvState, Snapshot, first_difference
from graphs.report_parts import LayerVerdict
from graphs.runner import DecodeGraphRunner
from graphs.verification.proof_runs import ProofRuns


class LayeredStep(Protocol):
    """A decode step whose first layers can be run alone."""

    @property
    def num_layers(self) -> int:
        """Layers of the whole step."""
        ...

    def prefix(self, layers: int) -> StepFn:
        """The step with its first `layers` layers only, 0 to `num_layers`.

        It embeds, runs those layers and the head, so that its logits have the whole step's shape.
        """
        ...


def first_differing_layer(
    runner: DecodeGraphRunner,
    state: KvState,
    step: LayeredStep,
    content: Snapshot,
    batches: Sequence[DecodeBatch],
    *,
    bucket: int,
    tolerance: Tolerance | None = None,
) -> LayerVerdict:
    """The layer whose addition makes replay differ from eager, with log2(layers) captures.

    Each prefix is captured by a plain runner on the static buffers of `runner`: a fault of the
    buffers or of the step is still there, a fault of the runner itself is not, and then no prefix
    differs. The graphs of `runner` stay as they are.
    """
    captures = 0

    def difference(layers: int) -> Mismatch | None:
        nonlocal captures
        captures += 1
        prefix = DecodeGraphRunner(
            step.prefix(layers), runner.buffers, BucketPlan.of([bucket]), runner.api, strict=True
        )
        prefix.capture()
        try:
            runs = ProofRuns(prefix, state)
            expected = runs.eager(content, batches, bucket)
            actual = runs.replay(content, batches)
        finally:
            prefix.reset()
        for a, b in zip(expected.logits, actual.logits):
            mismatch = find_mismatch(f"logits after {layers} layers", a, b, tolerance)
            if mismatch is not None:
                return mismatch
        return first_difference(expected.cache, actual.cache, tolerance)

    num_layers = step.num_layers
    found = difference(num_layers)
    if found is None:
        return LayerVerdict(num_layers=num_layers, layer=None, captures=captures)
    # `agrees` layers agree (-1: not even none were tried), `differs` layers differ.
    agrees, differs = -1, num_layers
    while differs - agrees > 1:
        middle = (agrees + differs) // 2
        mismatch = difference(middle)
        if mismatch is None:
            agrees = middle
        else:
            differs, found = middle, mismatch
    return LayerVerdict(num_layers=num_layers, layer=differs - 1, captures=captures, mismatch=found)
