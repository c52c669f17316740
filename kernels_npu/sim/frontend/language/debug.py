"""Printing from a kernel, and attributes without effect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend import builder as building
from kernels_npu.sim.frontend.affine import constant
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import emit, scalar_operand
from kernels_npu.sim.frontend.values import PendingOp, describe

_CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?[a-zA-Z%]")


def printf(format_str: str, *args: Any) -> PendingOp:
    """`T.printf(fmt, *args)`: C-style output of each core that reaches it."""
    if not isinstance(format_str, str):
        fail("AI-SRC-032", f"T.printf: the format is {describe(format_str)}", rule="it is a string")
    text, rest = _inline_strings(format_str, args)
    operands: list[ir.Operand] = [
        a if isinstance(a, ir.Buffer) else scalar_operand("printf", "argument", a) for a in rest
    ]
    return emit("printf", "printf", operands, {"fmt": text})


def _inline_strings(fmt: str, args: Sequence[Any]) -> tuple[str, list[Any]]:
    """String arguments are static: they are put into the format."""
    pending, rest = list(args), []

    def replace(match: re.Match[str]) -> str:
        if match[0].endswith("%") or not pending:
            return match[0]
        value = pending.pop(0)
        if isinstance(value, str):
            return value.replace("%", "%%")
        rest.append(value)
        return match[0]

    return _CONVERSION.sub(replace, fmt), rest + pending


def dump_tensor(tensor: Any, desc: Any, dump_size: Any, shape_info: Any = ()) -> PendingOp:
    """`T.dump_tensor(buffer, desc, size, shape=())`: print the first `size` elements."""
    if not isinstance(tensor, ir.Buffer):
        fail("AI-SRC-012", f"T.dump_tensor of {describe(tensor)}", rule="it takes a whole buffer")
    number = constant(desc)
    if number is None or not 0 <= number < 2**32:
        fail(
            "AI-SRC-032",
            f"T.dump_tensor: desc is {describe(desc)}",
            rule="desc must be uint32: it labels the output",
            fix="use a small non-negative integer",
        )
    size: ir.Attr = constant(dump_size)
    if size is None:
        size = scalar_operand("dump_tensor", "dump_size", dump_size)
    attrs: dict[str, ir.Attr] = {"desc": number, "size": size, "shape": tuple(shape_info)}
    return emit("dump_tensor", "dump_tensor", (tensor,), attrs)


def python_print(*values: Any, sep: str = " ", end: str = "\n", **options: Any) -> PendingOp | None:
    """Python's `print` in a kernel.

    Of values known when the kernel is built it prints then, as in the real parser. With a run-time
    value among them the simulator prints whenever a core gets there; the real parser prints the
    name.
    """
    if not any(isinstance(v, (ir.Buffer, ir.Region, ir.Expr)) for v in values):
        print(*values, sep=sep, end=end, **options)
        return None
    args: list[ir.Operand | str] = []
    for number, value in enumerate(values):
        args += [sep] if number else []
        runtime = isinstance(value, (ir.Buffer, ir.Region, ir.Expr))
        args.append(value if runtime else str(value))
    args.append(end)
    return building.op("print", lambda loc: ir.Debug(loc=loc, action="print", args=tuple(args)))


def python_breakpoint(*_args: Any, **_kwargs: Any) -> PendingOp:
    """Python's `breakpoint()` in a kernel: the debugger stops a core when it gets there."""
    return building.op("breakpoint", lambda loc: ir.Debug(loc=loc, action="breakpoint"))


def func_attr(attrs: Any) -> None:
    """`T.func_attr({...})`: attributes of the function; none changes what a kernel does."""
    del attrs
