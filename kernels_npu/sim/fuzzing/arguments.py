"""Random arguments of a launch from Python: right ones with mistakes among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.errors import AscendInferError
from kernels_npu.sim.fuzzing.cases import Case, define
from kernels_npu.sim.fuzzing.draw import Draw
from kernels_npu.sim.fuzzing.forms import Array

_MISTAKES = (
    "drop",
    "repeat",
    "swap",
    "dtype",
    "shorter",
    "longer",
    "empty",
    "flat",
    "strided",
    "host",
    "number",
    "none",
    "text",
)


def check_arguments(case: Case, draw: Draw) -> str:
    """A call with mistakes in its arguments works, or raises a coded error; which one."""
    from kernels_npu.sim.device import enable

    enable()
    text = case.text
    outputs = draw.choice(("", "out_idx=[-1], ", "out_idx=-1, "))
    text = text.replace("tilelang.compile(kernel, ", f"tilelang.compile(kernel, {outputs}")
    _, names = define(text)
    kernel = names["make"]()
    arguments = [_on_device(a) for a in case.arguments]
    if outputs:
        arguments.pop()
    for _ in range(draw.integer(0, 2)):
        _make_mistake(arguments, draw)
    try:
        kernel(*arguments)
    except AscendInferError as error:
        return error.code
    return "accepted"


def _on_device(value: Array | int | float) -> Any:
    import torch

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16).to("npu")
    return torch.from_numpy(value.copy()).to("npu")


def _make_mistake(arguments: list[Any], draw: Draw) -> None:
    import torch

    kind = draw.choice(_MISTAKES)
    if not arguments:
        return
    at = draw.integer(0, len(arguments) - 1)
    value = arguments[at]
    if kind == "drop":
        del arguments[at]
    elif kind == "repeat":
        arguments.insert(at, value)
    elif kind == "swap":
        arguments.append(arguments.pop(at))
    elif kind in ("number", "none", "text"):
        arguments[at] = {"number": 3, "none": None, "text": "x"}[kind]
    elif isinstance(value, torch.Tensor):
        arguments[at] = _changed(value, kind, draw)


def _changed(value: Any, kind: str, draw: Draw) -> Any:
    import torch

    if kind == "dtype":
        return value.to(draw.choice((torch.float32, torch.float16, torch.int64, torch.bool)))
    if kind == "host":
        return value.cpu()
    if kind == "flat":
        return value.reshape(-1)
    if kind == "strided":
        return value.transpose(0, -1) if value.dim() > 1 else value[::2]
    if kind == "empty":
        return value[:0]
    if kind == "shorter":
        return value[: value.shape[0] // 2].clone() if value.dim() else value
    return torch.cat([value, value]) if value.dim() else value
