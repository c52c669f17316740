"""Checks of an operator's arguments: each names the parameter, both values and what to do."""

from __future__ import annotations

import torch

from kernels_npu.errors import UsageError

#: Dtypes that kernels take in and give out, by the dialect's names.
KERNEL_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_DIALECT_NAMES = {
    **KERNEL_DTYPES,
    torch.float32: "float32",
    torch.int32: "int32",
    torch.int64: "int64",
}


#: Scalars become literals of these types in a kernel.
FLOAT32_MAX = torch.finfo(torch.float32).max
INT32_MAX = 2**31 - 1


def dialect_dtype(dtype: torch.dtype) -> str:
    """The dialect's name of a torch dtype that has passed `require_dtype`."""
    return _DIALECT_NAMES[dtype]


def require_dtype(op: str, name: str, tensor: torch.Tensor, *allowed: torch.dtype) -> None:
    """Refuse a dtype that is not in `allowed` (AI-OP-001)."""
    if tensor.dtype not in allowed:
        raise _wrong_dtype(
            op, name, tensor, " or ".join(str(dtype) for dtype in allowed), allowed[0]
        )


def require_floating(op: str, name: str, tensor: torch.Tensor) -> None:
    """Refuse a dtype that is not a floating-point one (AI-OP-001)."""
    if not tensor.is_floating_point():
        raise _wrong_dtype(op, name, tensor, "a floating-point dtype", torch.float16)


def _wrong_dtype(
    op: str, name: str, tensor: torch.Tensor, wanted: str, example: torch.dtype
) -> UsageError:
    return UsageError(
        "AI-OP-001",
        f"{op}: {name} is {tensor.dtype}, but must be {wanted}",
        rule="kernels take and give float16 or bfloat16 and compute in float32"
        if example.is_floating_point
        else "kernels read indices as they are stored, without a conversion",
        fix=f"convert with {name}.to({example})",
    )


def require_shape(op: str, name: str, tensor: torch.Tensor, *expected: int | None) -> None:
    """Refuse a shape other than `expected`, where None is any size (AI-OP-004)."""
    shape = tensor.shape
    if shape == expected:
        return
    if len(shape) == len(expected):
        for size, want in zip(shape, expected):
            if want is not None and size != want:
                break
        else:
            return
    wanted = ", ".join("any" if size is None else str(size) for size in expected)
    raise UsageError(
        "AI-OP-004",
        f"{op}: {name} has shape {list(shape)}, but must be [{wanted}]",
        fix=f"pass {name} with {len(expected)} dimensions of these sizes",
    )


def require_multiple(op: str, what: str, size: int, step: int, rule: str) -> None:
    """Refuse a size that is not a multiple of `step` (AI-OP-004)."""
    if step == 0 or size % step:
        raise UsageError(
            "AI-OP-004",
            f"{op}: {what} is {size}, but must be a multiple of {step}",
            rule=rule,
            fix=f"pass tensors where {what} is a multiple of {max(step, 1)}",
        )


def require_range(
    op: str, name: str, value: float, low: float, high: float, *, above: bool = False
) -> None:
    """Refuse a number outside `low..high`, or equal to `low` if it has to be above (AI-OP-005)."""
    if low <= value <= high and not (above and value == low):
        return
    relation = "greater than" if above else "at least"
    raise UsageError(
        "AI-OP-005",
        f"{op}: {name} is {value}, but must be {relation} {low} and at most {high}",
        rule="a scalar argument is a literal of 32 bits in the kernel",
        fix=f"pass {name} {relation} {low} and at most {high}",
    )


def different_devices(
    op: str, name: str, tensor: torch.Tensor, first_name: str, first: torch.Tensor
) -> UsageError:
    """AI-OP-002: `tensor` is not where `first` is; the fix names the host tensor of the two."""
    on_host = (first_name, tensor) if first.device.type == "cpu" else (name, first)
    return UsageError(
        "AI-OP-002",
        f"{op}: {name} is on {tensor.device}, but {first_name} is on {first.device}",
        rule="a kernel reads device memory; host tensors are never copied behind your back",
        fix=f"move it first: {on_host[0]}.to('{on_host[1].device}')",
    )


def require_together(op: str, **tensors: torch.Tensor) -> None:
    """Refuse tensors on different devices (AI-OP-002) or not contiguous (AI-OP-003)."""
    first_name, first = next(iter(tensors.items()))
    device = first.device
    for name, tensor in tensors.items():
        if tensor.device != device:
            raise different_devices(op, name, tensor, first_name, first)
        if not tensor.is_contiguous():
            raise UsageError(
                "AI-OP-003",
                f"{op}: {name} of shape {list(tensor.shape)} has strides {list(tensor.stride())} "
                "and is not contiguous",
                rule="kernels address tensors by their shape in row-major order",
                fix=f"pass {name}.contiguous(); an argument updated in place must be contiguous",
            )
