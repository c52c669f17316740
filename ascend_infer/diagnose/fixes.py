"""Advice that several kinds of errors share."""

from __future__ import annotations

STREAMS = (
    "capture fewer or smaller sizes, or end other processes of the device (the limit is shared)"
)
UNCAPTURED = "move it out of the captured code; the innermost frame of the traceback names it"
KERNEL = "check the operator's addresses, shapes and tiling; run it eagerly and alone first"
HANG = "look for a flag that is never set"
UNENDING = "look for the task that does not end on this stream"
ARGUMENT = "compare the arguments of the named call with its documentation"
HARDWARE = "look at `npu-smi info` and the device log; reset or replace the device"
FIRST = "look for the first error before it"
MEMORY = "reduce the KV cache or the batch"
EVENTS = "reuse or destroy events"
NOTIFIES = "capture fewer graphs with communication"
MODELS = "capture fewer graphs"
PAIRED = "use the torch_npu, CANN, driver and firmware that belong together"
