"""Arguments that an operator of CANN refuses."""

from __future__ import annotations

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
