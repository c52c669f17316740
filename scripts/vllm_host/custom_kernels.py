"""vllm-ascend's own AscendC kernels, `torch.ops._C_ascend`, which the host is built without.

Most have an operator of torch_npu that the host calls instead. Of those that have none, the norm of
Gemma is computed here; another one is refused by name.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels_npu.sim.device.operators.normalization import npu_rms_norm
from kernels_npu.sim.device.operators.whole import WholeOperator, register

NAMESPACE = "_C_ascend"


def gemma_rms_norm(
    x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """`x / rms(x) * (1 + gamma)` over the last dimension, and 1 / rms in float32."""
    return npu_rms_norm(x, 1.0 + gamma.float(), epsilon)


class Kernels(torch._ops._OpNamespace):
    """The namespace, with an error that says what is missing and why."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(
                f"AI-DEV-008: torch.ops.{NAMESPACE}.{name} is a kernel of vllm-ascend's in "
                "AscendC, which is not simulated; use a model or an option that does not need it"
            ) from error


def define() -> None:
    """Put the namespace into `torch.ops`."""
    setattr(torch.ops, NAMESPACE, Kernels(NAMESPACE))
    register(
        WholeOperator(
            namespace=NAMESPACE,
            schema="npu_gemma_rms_norm(Tensor x, Tensor gamma, float epsilon=1e-06) "
            "-> (Tensor, Tensor)",
            compute=gemma_rms_norm,
        )
    )
