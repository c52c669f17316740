"""Settings of the environment that a graph capture meets; data, free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class EnvironmentRule:
    """A setting of the environment that a capture on `device` (a torch device type) meets.

    contains: the value must contain this text, or equal it if `whole`.
    """

    variable: str
    contains: str
    device: str
    severity: Literal["error", "warning"]
    rule: str
    fix: str
    whole: bool = True

    def applies(self, environment: Mapping[str, str], device: str) -> bool:
        """Whether the setting is there, and matters to this device."""
        value = environment.get(self.variable, "")
        found = value == self.contains if self.whole else self.contains in value.replace(" ", "")
        return device == self.device and found


ENVIRONMENT = (
    EnvironmentRule(
        variable="ASCEND_LAUNCH_BLOCKING",
        contains="1",
        device="npu",
        severity="error",
        rule="it synchronises after each launch, which a capture forbids (107027)",
        fix="unset ASCEND_LAUNCH_BLOCKING; debug the eager step with it instead",
    ),
    EnvironmentRule(
        variable="TASK_QUEUE_ENABLE",
        contains="2",
        device="npu",
        severity="error",
        rule="torch_npu refuses to capture with the task queue at level 2",
        fix="export TASK_QUEUE_ENABLE=1",
    ),
    EnvironmentRule(
        variable="PYTORCH_NPU_ALLOC_CONF",
        contains="pin_memory_expandable_segments:True",
        device="npu",
        severity="error",
        rule="torch_npu refuses to capture when pinned memory is in expandable segments",
        fix="leave that entry out of PYTORCH_NPU_ALLOC_CONF",
        whole=False,
    ),
    EnvironmentRule(
        variable="PYTORCH_NO_CUDA_MEMORY_CACHING",
        contains="1",
        device="cuda",
        severity="error",
        rule="a capture allocates from a pool of torch's caching allocator, "
        "which this setting switches off",
        fix="unset PYTORCH_NO_CUDA_MEMORY_CACHING",
    ),
    EnvironmentRule(
        variable="CUDA_LAUNCH_BLOCKING",
        contains="1",
        device="cuda",
        severity="warning",
        rule="every launch waits for the device, so a replay is not asynchronous",
        fix="unset CUDA_LAUNCH_BLOCKING unless an error is being located",
    ),
)
