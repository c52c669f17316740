"""Exceptions of the simulated device: RuntimeErrors, as PyTorch's and torch_npu's own are."""

from __future__ import annotations

from kernels_npu.errors import AscendInferError, UnsupportedError, UsageError


class DeviceError(AscendInferError, RuntimeError):
    """The simulated device refuses a request that a real one would refuse too."""


class CaptureError(DeviceError):
    """Something that ACLGraph forbids; `acl_error` is the CANN runtime's number, if it has one."""

    def __init__(
        self,
        code: str,
        what: str,
        *,
        acl_error: int | None = None,
        rule: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(code, what, rule=rule, fix=fix)
        self.acl_error = acl_error


class StreamOrderError(DeviceError):
    """Two unordered accesses to the same bytes: the device may run them either way round."""


class LaunchError(UsageError, ValueError):
    """A kernel was called with arguments it does not take."""


class NotSimulatedError(UnsupportedError, RuntimeError):
    """A torch_npu feature that the simulated device does not have."""


def acl_text(call: str, acl_error: int, meaning: str) -> str:
    """The words in which torch_npu reports a failed runtime call."""
    return (
        f"NPU function error: {call}, error code is {acl_error} ({meaning}); "
        "ERR00100 PTA call acl api failed"
    )
