"""Prove that replay equals eager, and that the proof would have noticed if it did not.

Eager runs on tensors made for each step from the scenario, replay through the runner under test;
they share the step function, the weights and the cache tensors. Both start from the same cache
content and both results are compared afterwards, because both write. Outputs are poisoned before
each replay, so a replay that does nothing is seen, and so is one of another bucket; blocks that no
sequence owns are compared, so a padding row that writes is seen.

`verify` is the entry point. The checks, a module each: `rounds` (eager against replay at bucket
edges), `inputs` (what must matter and what must not), `order` (graphs and steps that follow each
other), `invariance` (does a row depend on its batch), `soak` (drift and leaks), `layers` (which
layer is the first that differs), `together` (two runners at once).
"""

from __future__ import annotations

from graphs.verification.layers import LayeredStep
from graphs.verification.session import Depth, verify
from graphs.verification.together import verify_together

__all__ = ["Depth", "LayeredStep", "verify", "verify_together"]
