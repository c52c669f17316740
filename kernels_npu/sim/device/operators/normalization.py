"""RMS normalisation."""

from __future__ import annotations

from torch import Tensor

from kernels_npu.sim.device.operators.whole import WholeOperator


def npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """`input / rms(input) * gamma` over the dimensions of `gamma`, which are the last ones.

    Returns:
        The result, and 1 / rms in float32 with those dimensions kept as 1.
    """
    x = input.float()
    dims = tuple(range(-gamma.dim(), 0))
    rstd = (x.square().mean(dims, keepdim=True) + epsilon).rsqrt()
    return (x * rstd * gamma.float()).to(input.dtype), rstd


def npu_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm of `x1 + x2`, 1 / rms, and the sum, which is rounded before it is normalised."""
    total = (x1.float() + x2.float()).to(x1.dtype)
    return (*npu_rms_norm(total, gamma, epsilon), total)


OPERATORS = (
    WholeOperator(
        schema="npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
        compute=npu_rms_norm,
    ),
    WholeOperator(
        schema="npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) "
        "-> (Tensor, Tensor, Tensor)",
        compute=npu_add_rms_norm,
    ),
)
