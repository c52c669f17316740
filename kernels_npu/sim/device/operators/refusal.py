"""Arguments that an operator of CANN refuses."""

from __future__ import annotations

from torch import Tensor

from kernels_npu.sim.device.errors import DeviceError


def refused(
    operator: str, what: str, *, rule: str, fix: str, acl_error: int = 561002
) -> DeviceError:
    """The error for arguments that the operator's checks on the host reject."""
    return DeviceError(
        "AI-DEV-015",
        f"torch_npu.{operator}: {what} (error code {acl_error})",
        rule=rule,
        fix=fix,
    )


def refuse_mixed_dtypes(operator: str, **operands: Tensor) -> None:
    """Refuse operands, by their names, that are not of one dtype.

    Raises:
        DeviceError: AI-DEV-015.
    """
    if len({operand.dtype for operand in operands.values()}) > 1:
        found = ", ".join(f"{name} is {operand.dtype}" for name, operand in operands.items())
        raise refused(
            operator,
            found,
            rule="the operator converts nothing: tokens and caches are of one dtype",
            fix="make the cache in the dtype of the model (kv_cache_dtype=auto)",
        )
