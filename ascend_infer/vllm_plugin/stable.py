"""Captured kernels read metadata where it was when they were captured: it must stay there."""

from __future__ import annotations

import torch

from kernels_npu.errors import EnvironmentProblem


class StableAddresses:
    """Remembers where tensors were first seen, and refuses them anywhere else."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}

    def check(self, **tensors: torch.Tensor) -> None:
        """Look at the tensors of a step.

        Raises:
            EnvironmentProblem: AI-VLLM-005 for one that has moved. A replay would go on reading the
                values of the step in which it was captured, and decode wrong tokens.
        """
        for name, tensor in tensors.items():
            address = tensor.data_ptr()
            first = self._addresses.setdefault(name, address)
            if address != first:
                raise EnvironmentProblem(
                    "AI-VLLM-005",
                    f"{name} was at {first:#x} and is at {address:#x}",
                    rule="a graph reads lengths and block tables at the addresses of its capture",
                    fix="leave attention to the host: ASCEND_INFER_VLLM_OPS=rms_norm,"
                    "rotary_embedding, or --enforce-eager",
                )
